/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CONFIG_JSON_H
#define URNIC_NVMF_TARGET_CONFIG_JSON_H

/*
 * Tables that read JSON objects into structs, and report the place of each error. Only config*.c
 * use this header.
 *
 * A table has a row for each key of an object. The function of the row reads the key's value into a
 * field of the struct. Keys are read in the order of the table, not of the file, so that a row may
 * use the values of earlier rows.
 */

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config_reader {
	const char *text;
	size_t bytes;
	const cJSON *root;
	struct target_config *config;
	char *sentence;
	int error; /* -EINVAL or -ENOMEM after a refusal; 0: no refusal so far */
};

struct config_field {
	const char *key;
	/* Calls config_refuse() for a bad value, and then returns false. */
	bool (*read)(struct config_reader *reader, const cJSON *node,
		const struct config_field *field, void *place);
	size_t offset; /* of `place` in the struct */
	uint64_t min, max; /* the range of a number, or of the length of a text in bytes */
	bool is_required;
};

/*
 * Report what is wrong with `node`, as "LINE:COLUMN: sentence". Returns false, so that the caller
 * can return it.
 */
bool config_refuse(struct config_reader *reader, const cJSON *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Report what is wrong at the byte `position` of the text, as config_refuse() does for a node. */
bool config_refuse_at(struct config_reader *reader, size_t position, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Report that there is no memory. Returns false. */
bool config_refuse_memory(struct config_reader *reader);

/* Read an object by a table of `count` rows. `what` names it: "a port". */
bool config_read_object(struct config_reader *reader, const cJSON *node, const char *what,
	const struct config_field *fields, size_t count, void *object);

/*
 * Read an array of elements of `element_bytes` bytes, which are zero before `read` is called for
 * each of them. `*ret_array` and `*ret_count` are set before the first call, so that `read` can use
 * earlier elements.
 */
bool config_read_array(struct config_reader *reader, const cJSON *node, size_t element_bytes,
	void **ret_array, size_t *ret_count,
	bool (*read)(struct config_reader *reader, const cJSON *node, void *object, size_t index),
	void *object);

/*
 * Functions for tables: they read a text into char[max + 1], a number into uint32_t, a flag into
 * bool.
 */
bool config_read_text(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
bool config_read_number(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
bool config_read_flag(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
/* For a key that has no meaning here: ignore its value. */
bool config_read_ignored(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);

#endif

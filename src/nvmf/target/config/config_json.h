/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CONFIG_JSON_H
#define URNIC_NVMF_TARGET_CONFIG_JSON_H

/*
 * JSON objects into structs, by tables, with the place of each error. Only config*.c use it.
 *
 * A table has a row for each key of an object. Its function reads the value into a field of the
 * struct. Rows are read in the order of the table, whatever the order in the file, so that a later
 * row may refer to what an earlier one has read.
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
	int error; /* of the first refusal; 0: none so far */
};

struct config_field {
	const char *key;
	/* False after config_refuse(). */
	bool (*read)(struct config_reader *reader, const cJSON *node,
		const struct config_field *field, void *place);
	size_t offset; /* of `place` in the struct */
	uint64_t min, max; /* the range of a number, the bytes of a text */
	bool is_required;
};

/*
 * Say what is wrong with `node`, as "LINE:COLUMN: sentence". False, so that a caller can return it.
 */
bool config_refuse(struct config_reader *reader, const cJSON *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* config_refuse() for a byte of the text. */
bool config_refuse_at(struct config_reader *reader, size_t position, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* No memory. False. */
bool config_refuse_memory(struct config_reader *reader);

/* Read an object by a table of `count` rows. `what` names it: "a port". */
bool config_read_object(struct config_reader *reader, const cJSON *node, const char *what,
	const struct config_field *fields, size_t count, void *object);

/*
 * Read an array of elements of `element_bytes`, which begin as zeroes. `*ret_array` and
 * `*ret_count` are set at once, so that `read` sees the elements before its own.
 */
bool config_read_array(struct config_reader *reader, const cJSON *node, size_t element_bytes,
	void **ret_array, size_t *ret_count,
	bool (*read)(struct config_reader *reader, const cJSON *node, void *object, size_t index),
	void *object);

/* For tables: a text into char[max + 1], a number into uint32_t, a flag into bool. */
bool config_read_text(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
bool config_read_number(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
bool config_read_flag(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
/* A key that means nothing here. */
bool config_read_ignored(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);

#endif

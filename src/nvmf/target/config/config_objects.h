/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CONFIG_OBJECTS_H
#define URNIC_NVMF_TARGET_CONFIG_OBJECTS_H

/*
 * The objects of a description and their keys. Only config*.c use this header. Each function reads
 * a node into `reader->config` or an object in it, and returns false after config_refuse().
 */

#include "nvmf/target/config/config_json.h"

bool config_read_target(struct config_reader *reader, const cJSON *node);

/* "hosts", "subsystems", "ports": `place` is the whole target_config. */
bool config_read_hosts(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
bool config_read_subsystems(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);
bool config_read_ports(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);

/* "namespaces" of a subsystem. */
bool config_read_namespaces(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);

/* An NQN into char[CONFIG_NQN_BYTES]. */
bool config_read_nqn(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);

/* The objects whose names config_read_names() accepts. */
struct config_names {
	const char *nqns; /* the name in the first object */
	size_t nqn_count; /* number of objects */
	size_t stride; /* the distance from one object to the next in bytes */
	const char *what; /* "host" or "subsystem", for sentences */
	const char *list; /* the key of the list in which the objects are declared */
};
/*
 * Read "allowed_hosts" of a subsystem or "subsystems" of a port: a list of the names of objects
 * that have been read before, each name at most once.
 */
bool config_read_names(struct config_reader *reader, const cJSON *node,
	const struct config_names *names, uint32_t **ret_indices, size_t *ret_count);

/* For settings that urnic does not support: refuse values other than 0, false, null or "". */
bool config_read_unsupported(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place);

#endif

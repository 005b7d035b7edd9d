/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRIC_INFINIBAND_EDGES_H
#define URNIC_FABRIC_INFINIBAND_EDGES_H

/* Edges of a directed graph: which queue waits for which others. Callers number the queues. */

#include <stdbool.h>
#include <stdint.h>

#define NO_EDGE UINT32_MAX

struct edge {
	uint32_t from;
	uint32_t to;
	uint32_t next; /* an older edge of `from`; NO_EDGE: the last one */
};

struct edges {
	uint32_t *first; /* by `from`: its newest edge; the caller's */
	struct edge *edges;
	uint32_t count;
	uint32_t capacity;
};

/* `first` has room for all values of `from`, up to `from_count`. There are no edges then. */
void edges_init(struct edges *edges, uint32_t *first, uint32_t from_count);
void edges_done(struct edges *edges);

bool edges_has(const struct edges *edges, uint32_t from, uint32_t to);

/* Add an edge, which is not there. Returns 0 or -ENOMEM. */
int edges_add(struct edges *edges, uint32_t from, uint32_t to);

/* Remove all edges but the first `count`. */
void edges_remove(struct edges *edges, uint32_t count);

#endif

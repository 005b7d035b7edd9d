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
	uint32_t *first; /* by `from`: its newest edge; the caller owns this array */
	struct edge *edges;
	uint32_t count;
	uint32_t capacity;
};

/* Begin without edges. `first` has room for `from_count` entries, one for each value of `from`. */
void edges_init(struct edges *edges, uint32_t *first, uint32_t from_count);
void edges_done(struct edges *edges);

bool edges_has(const struct edges *edges, uint32_t from, uint32_t to);

/* Add an edge that the graph does not have yet. Returns 0 or -ENOMEM. */
int edges_add(struct edges *edges, uint32_t from, uint32_t to);

/* Remove all edges but the first `count`. */
void edges_remove(struct edges *edges, uint32_t count);

#endif

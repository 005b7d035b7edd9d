/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/infiniband/edges.h"

#include <errno.h>
#include <stdlib.h>

void edges_init(struct edges *edges, uint32_t *first, uint32_t from_count)
{
	*edges = (struct edges){.first = first};
	for (uint32_t i = 0; i < from_count; i++)
		first[i] = NO_EDGE;
}

void edges_done(struct edges *edges)
{
	free(edges->edges);
}

bool edges_has(const struct edges *edges, uint32_t from, uint32_t to)
{
	uint32_t edge = edges->first[from];

	while (edge != NO_EDGE && edges->edges[edge].to != to)
		edge = edges->edges[edge].next;
	return edge != NO_EDGE;
}

static bool edges_reserve(struct edges *edges)
{
	uint32_t capacity = 2 * edges->capacity + 64;
	struct edge *grown;

	if (edges->count < edges->capacity)
		return true;
	grown = (struct edge *)realloc(edges->edges, capacity * sizeof(struct edge));
	if (!grown)
		return false;
	edges->edges = grown;
	edges->capacity = capacity;
	return true;
}

int edges_add(struct edges *edges, uint32_t from, uint32_t to)
{
	if (!edges_reserve(edges))
		return -ENOMEM;
	edges->edges[edges->count] = (struct edge){from, to, edges->first[from]};
	edges->first[from] = edges->count++;
	return 0;
}

void edges_remove(struct edges *edges, uint32_t count)
{
	while (edges->count > count) {
		const struct edge *edge = &edges->edges[--edges->count];

		edges->first[edge->from] = edge->next;
	}
}

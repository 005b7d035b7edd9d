/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network as a picture: hosts at the bottom, switches above them by their distance from hosts.
 * The colour of a cable says how much of the time it was paused, its width how busy it was.
 */
#include <stdlib.h>

#include "base/arith.h"
#include "fabric/infiniband/infiniband.h"
#include "sim/sim.h"

enum {
	WIDTH = 900,
	MARGIN = 40,
	LEVEL_HEIGHT = 110,
	LEVELS_MAX = 8,
	NODES_MAX = 1500, /* of a larger network there is no picture */
	NAMED_MAX = 70, /* of a larger network no host has its name */
};

struct picture {
	const struct sim_run *run;
	uint32_t node_count; /* hosts, then switches */
	uint32_t *level; /* by node; 0: hosts */
	uint32_t *place; /* by node: its place in its level */
	uint32_t width[LEVELS_MAX]; /* by level: nodes */
	uint32_t level_count;
};

static uint32_t node_of(const struct fabric *fabric, const struct fabric_port *port)
{
	return port->is_host ? port->node : fabric->host_count + port->node;
}

/* A node's level is one above the lowest of its neighbours'. */
static void levels_find(struct picture *picture)
{
	const struct fabric *fabric = picture->run->fabric;
	bool has_changed = true;

	for (uint32_t i = 0; i < picture->node_count; i++)
		picture->level[i] = i < fabric->host_count ? 0 : LEVELS_MAX - 1;
	while (has_changed) {
		has_changed = false;
		for (uint32_t i = 0; i < fabric->port_count; i++) {
			const struct fabric_port *port = &fabric->ports[i];
			uint32_t node = node_of(fabric, port);
			uint32_t above =
				picture->level[node_of(fabric, &fabric->ports[port->peer])] + 1;

			if (above >= picture->level[node])
				continue;
			picture->level[node] = above;
			has_changed = true;
		}
	}
	for (uint32_t i = 0; i < picture->node_count; i++) {
		picture->place[i] = picture->width[picture->level[i]]++;
		picture->level_count = max_u32(picture->level_count, picture->level[i] + 1);
	}
}

static double node_x(const struct picture *picture, uint32_t node)
{
	uint32_t width = picture->width[picture->level[node]];

	return MARGIN + (WIDTH - 2.0 * MARGIN) * (picture->place[node] + 0.5) / width;
}

static double node_y(const struct picture *picture, uint32_t node)
{
	return MARGIN + (double)LEVEL_HEIGHT * (picture->level_count - 1 - picture->level[node]);
}

/* The share of the run in which a priority of the port was paused, or a lane had no credits. */
static double paused_share(const struct fabric *fabric, uint32_t port)
{
	uint64_t paused_ps = 0;

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		paused_ps = max_u64(paused_ps, pause_total_ps(fabric, port, i));
	for (uint32_t vl = 0; fabric->infiniband && vl < IB_VL_COUNT; vl++)
		paused_ps = max_u64(paused_ps, infiniband_wait_ps(fabric, port, vl));
	return (double)paused_ps / (double)max_u64(fabric->now_ps, 1);
}

/* How much of its rate the port has sent. */
static double busy_share(const struct fabric *fabric, uint32_t port)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		bytes += fabric->ports[port].priority[i].counters.sent_bytes;
	return (double)bytes * 8 * FABRIC_PS_PER_US /
		((double)max_u64(fabric->now_ps, 1) * fabric->ports[port].rate_mbps);
}

static void cable_write(const struct picture *picture, FILE *file, uint32_t number)
{
	const struct fabric *fabric = picture->run->fabric;
	uint32_t peer = fabric->ports[number].peer;
	uint32_t a = node_of(fabric, &fabric->ports[number]);
	uint32_t b = node_of(fabric, &fabric->ports[peer]);
	double paused = paused_share(fabric, number);
	double busy = busy_share(fabric, number);

	paused = paused_share(fabric, peer) > paused ? paused_share(fabric, peer) : paused;
	busy = busy_share(fabric, peer) > busy ? busy_share(fabric, peer) : busy;
	fprintf(file,
		"<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='hsl(%.0f,80%%,45%%)' "
		"stroke-width='%.1f'><title>%.0f %% paused, %.0f %% busy</title></line>\n",
		node_x(picture, a), node_y(picture, a), node_x(picture, b), node_y(picture, b),
		210 * (1 - paused), 1 + 4 * busy, 100 * paused, 100 * busy);
}

static void node_write(const struct picture *picture, FILE *file, uint32_t node)
{
	const struct fabric *fabric = picture->run->fabric;
	bool is_host = node < fabric->host_count;
	uint32_t number = is_host ? node : node - fabric->host_count;

	fprintf(file, "<circle cx='%.1f' cy='%.1f' r='%d' fill='%s'><title>%c%u</title></circle>",
		node_x(picture, node), node_y(picture, node), is_host ? 4 : 8,
		is_host ? "#555" : "#fff' stroke='#333", is_host ? 'h' : 's', number);
	if (!is_host || fabric->host_count <= NAMED_MAX)
		fprintf(file, "<text x='%.1f' y='%.1f' text-anchor='middle'>%c%u</text>\n",
			node_x(picture, node), node_y(picture, node) + (is_host ? 18 : -12),
			is_host ? 'h' : 's', number);
}

static void picture_write(const struct picture *picture, FILE *file)
{
	const struct fabric *fabric = picture->run->fabric;
	uint32_t height = 2 * MARGIN + LEVEL_HEIGHT * (picture->level_count - 1);

	fprintf(file,
		"<p>Cables: blue was never paused or without credits, red always; the wider, the busier.</p>\n"
		"<svg class='network' viewBox='0 0 %d %u' width='%d' height='%u'>\n",
		WIDTH, height, WIDTH, height);
	for (uint32_t i = 0; i < fabric->port_count; i++)
		if (i < fabric->ports[i].peer)
			cable_write(picture, file, i);
	for (uint32_t i = 0; i < picture->node_count; i++)
		node_write(picture, file, i);
	fputs("</svg>\n", file);
}

void sim_topology_write(const struct sim_run *run, FILE *file)
{
	struct picture picture = {
		.run = run, .node_count = run->fabric->host_count + run->fabric->switch_count};

	if (picture.node_count > NODES_MAX)
		return;
	picture.level = (uint32_t *)calloc(picture.node_count, sizeof(uint32_t));
	picture.place = (uint32_t *)calloc(picture.node_count, sizeof(uint32_t));
	if (picture.level && picture.place) {
		levels_find(&picture);
		picture_write(&picture, file);
	}
	free(picture.level);
	free(picture.place);
}

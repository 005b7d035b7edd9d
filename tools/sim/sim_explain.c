/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a flow took its time: where its frames waited, who paused them, what became of them. */
#include <stdlib.h>

#include "base/arith.h"
#include "common/command.h"
#include "fabric/infiniband/infiniband.h"
#include "sim/sim.h"

/* What a port did with the frames of the explained flow, in its forward direction. */
struct sim_hop {
	uint64_t frames; /* sent */
	uint64_t first_ps; /* when the first one was sent */
	uint64_t wait_ps; /* the sum of the times that the frames waited in the port's queue */
	uint64_t wait_ps_max;
	uint64_t paused_ps; /* the part of wait_ps in which the peer let the queue send nothing */
	uint64_t marked;
	uint64_t dropped; /* by the cable, by the peer for lack of room, or by the watchdog */
};

/* How long the peer has stopped the packet's queue so far. */
static uint64_t stopped_ps(
	const struct fabric *fabric, uint32_t port, const struct fabric_packet *packet)
{
	return fabric->infiniband ? infiniband_wait_ps(fabric, port, packet->vl)
				  : pause_total_ps(fabric, port, packet->priority);
}

static void frame_wait(const struct sim_run *run, struct sim_hop *hop, uint32_t port,
	const struct fabric_packet *packet)
{
	uint64_t now_ps = run->fabric->now_ps;
	uint64_t wait_ps;

	if (!hop->frames++)
		hop->first_ps = now_ps;
	if (run->fabric->ports[port].is_host)
		return;
	wait_ps = now_ps - packet->queued_ps;
	hop->wait_ps += wait_ps;
	hop->wait_ps_max = wait_ps > hop->wait_ps_max ? wait_ps : hop->wait_ps_max;
	hop->paused_ps += stopped_ps(run->fabric, port, packet) - packet->paused_before_ps;
}

static void frame_follow(void *context, uint64_t now_ps, enum fabric_event event, uint32_t port,
	uint32_t priority, const struct fabric_packet *packet)
{
	const struct sim_run *run = (const struct sim_run *)context;
	const struct fabric_flow *flow = &run->scenario.flows[run->explained];

	(void)now_ps;
	(void)priority;
	if (!packet || packet_is_of_link(packet) || packet->flow != run->explained ||
		packet->source != flow->source)
		return;
	switch (event) {
	case FABRIC_FRAME_SENT:
		frame_wait(run, &run->hops[port], port, packet);
		break;
	case FABRIC_FRAME_MARKED:
		run->hops[port].marked++;
		break;
	case FABRIC_FRAME_LOST:
	case FABRIC_FRAME_CORRUPTED:
	case FABRIC_STORM_DROP:
	case FABRIC_FRAME_EXPIRED:
	case FABRIC_FRAME_CONSTRAINED:
		run->hops[port].dropped++;
		break;
	case FABRIC_FRAME_DISCARDED:
	case FABRIC_FRAME_UNROUTABLE:
	case FABRIC_FRAME_REFUSED:
		run->hops[run->fabric->ports[port].peer].dropped++;
		break;
	case FABRIC_FRAME_ARRIVED:
	case FABRIC_PAUSED:
	case FABRIC_RESUMED:
	case FABRIC_STORM_BEGUN:
	case FABRIC_STORM_ENDED:
		break;
	}
}

bool sim_explain_init(struct sim_run *run, uint32_t flow)
{
	run->hops = (struct sim_hop *)calloc(run->fabric->port_count, sizeof(struct sim_hop));
	if (!run->hops) {
		complain("no memory for %u ports", run->fabric->port_count);
		return false;
	}
	run->explained = flow;
	fabric_watch(run->fabric, frame_follow, run);
	return true;
}

/* --- the answer --- */

/* How long the flow's host could not send, because its peer paused it or gave no credits. */
static uint64_t host_stopped_ps(const struct sim_run *run, uint32_t port, uint32_t priority)
{
	const struct infiniband *infiniband = run->fabric->infiniband;

	return infiniband
		? infiniband_wait_ps(run->fabric, port, infiniband->ports[port].sl2vl[priority])
		: pause_total_ps(run->fabric, port, priority);
}

static void flow_print(const struct sim_run *run)
{
	const struct fabric_flow *flow = &run->scenario.flows[run->explained];
	uint32_t port = run->fabric->hosts[flow->source].port;
	double end_us = (double)run->fabric->now_ps / FABRIC_PS_PER_US;
	char name[SIM_PORT_NAME_BYTES];

	sim_flow_name(flow, name, sizeof(name));
	printf("flow %u, %s, priority %u: %.3f MB in ", run->explained, name, flow->priority,
		(double)flow->received_bytes / 1e6);
	if (flow->finish_ps == FABRIC_NEVER)
		printf("%.1f us, not finished",
			end_us -
				(double)min_u64(flow->start_ps, run->fabric->now_ps) /
					FABRIC_PS_PER_US);
	else
		printf("%.1f us", (double)(flow->finish_ps - flow->start_ps) / FABRIC_PS_PER_US);
	printf(", %.3f Gbit/s of %.3f\n", sim_flow_mbps(run, run->explained) / 1000,
		run->fabric->ports[port].rate_mbps / 1000.0);
	printf("%llu marked, %llu CNPs, %llu packets sent again; h%u %s for %.1f us\n\n",
		(unsigned long long)flow->marked_frames, (unsigned long long)flow->cnp_count,
		(unsigned long long)sim_flow_retransmitted(run, run->explained), flow->source,
		run->fabric->infiniband ? "had no credits" : "was paused",
		(double)host_stopped_ps(run, port, flow->priority) / FABRIC_PS_PER_US);
}

static void hop_print(const struct sim_run *run, uint32_t port)
{
	const struct sim_hop *hop = &run->hops[port];
	double frames = (double)(hop->frames ? hop->frames : 1);
	char name[SIM_PORT_NAME_BYTES];

	sim_port_name(run->fabric, port, name);
	printf("%-14s%12llu%12.2f%12.2f%12.2f%10llu%10llu\n", name, (unsigned long long)hop->frames,
		(double)hop->wait_ps / frames / FABRIC_PS_PER_US,
		(double)hop->wait_ps_max / FABRIC_PS_PER_US,
		(double)hop->paused_ps / frames / FABRIC_PS_PER_US, (unsigned long long)hop->marked,
		(unsigned long long)hop->dropped);
}

/* The next port to begin with the flow's frames, at `*after_ps` or later; FABRIC_NO_PORT: none. */
static uint32_t hop_next(const struct sim_run *run, uint64_t *after_ps)
{
	uint32_t next = FABRIC_NO_PORT;

	for (uint32_t i = 0; i < run->fabric->port_count; i++)
		if (run->hops[i].frames && run->hops[i].first_ps >= *after_ps &&
			(next == FABRIC_NO_PORT ||
				run->hops[i].first_ps < run->hops[next].first_ps))
			next = i;
	if (next != FABRIC_NO_PORT)
		*after_ps = run->hops[next].first_ps + 1;
	return next;
}

void sim_explain_print(const struct sim_run *run)
{
	uint64_t after_ps = 0;
	uint32_t port;

	flow_print(run);
	printf("%-14s%12s%36s%10s%10s\n%-26s%12s%12s%12s\n", "port", "frames",
		"wait of a frame, us", "marked", "dropped", "", "mean", "longest", "paused");
	while ((port = hop_next(run, &after_ps)) != FABRIC_NO_PORT)
		hop_print(run, port);
}

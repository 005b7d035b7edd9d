/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulated fabric: hosts, links between them, and a clock that moves only when told.
 *
 * A host is an IP address with lanes behind it. From each host to each other runs a link, an object
 * of its own per direction, that delays, loses, reorders, duplicates, corrupts, or is cut for a
 * while. What a lane wants to send is sealed with its ICRC, travels as a frame, and is verified at
 * the far end as a real port would do it: a corrupted frame never reaches an engine.
 *
 * Everything is decided by one seed. There is no system call, no real clock, no thread; the same
 * seed and the same calls give the same history, packet by packet.
 *
 * Who drives it alternates: sim_step() lets the network do one thing (deliver one frame, or let one
 * lane's deadline pass) and sends what that caused; then the test looks, posts and polls.
 * sim_flush() sends what posting caused.
 *
 * The simulation owns frames in flight and nothing else: lanes belong to the test, which detaches
 * nothing and destroys the simulation before or after its lanes, but does not step it in between.
 */
#ifndef URNIC_PORT_SIM_H
#define URNIC_PORT_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"
#include "lane/lane.h"
#include "port/sim_random.h"

enum {
	SIM_HOST_COUNT_MAX = 4,
	SIM_LANE_COUNT_MAX = 8,
	SIM_PARTITION_COUNT_MAX = 4,
	SIM_GROUP_COUNT_MAX = 4,
};

/* One direction between two hosts. All zero: a perfect link without delay. */
struct sim_link {
	uint64_t delay_ns; /* of every frame */
	uint64_t jitter_ns; /* up to this much more, at random; overtaking is possible */
	uint32_t loss_ppm; /* of a million frames */
	uint32_t duplicate_ppm; /* the copy takes its own delay */
	uint32_t corrupt_ppm; /* one to eight bits flip anywhere in the frame, ICRC included */
	uint32_t reorder_ppm; /* held back by reorder_ns */
	uint64_t reorder_ns;
	uint32_t byte_ps; /* picoseconds to put a byte on the wire; 0 is infinitely fast */
	uint32_t backlog_bytes_max; /* a longer backlog drops at its tail; 0 is no limit */
	uint32_t partition_count;
	struct sim_partition { /* nothing that is sent in [from_ns, to_ns) arrives */
		uint64_t from_ns;
		uint64_t to_ns;
	} partition[SIM_PARTITION_COUNT_MAX];
};

enum sim_fate {
	SIM_SENT, /* on its way */
	SIM_LOST,
	SIM_PARTITIONED,
	SIM_OVERFLOWED, /* the link's backlog was full */
	SIM_DUPLICATED, /* sent twice */
	SIM_DELIVERED,
	SIM_CORRUPTED, /* arrived, refused by its ICRC */
	SIM_FATE_COUNT
};

/* For who wants to watch: a frame, BTH to ICRC, and what becomes of it. Borrowed for the call. */
typedef void sim_trace(void *context, uint64_t now_ns, uint32_t from_host, uint32_t to_host,
	enum sim_fate fate, const uint8_t *frame, size_t bytes);

struct sim;

/* An empty fabric at time 1 s (so that nothing mistakes 0 for "not yet"). NULL without memory. */
struct sim *sim_create(uint64_t seed);
void sim_destroy(struct sim *sim);

/* Watch all frames; NULL stops that. */
void sim_watch(struct sim *sim, sim_trace *trace, void *context);

uint64_t sim_now_ns(const struct sim *sim);

/* Add a host. Returns its number, counted from 0; at most SIM_HOST_COUNT_MAX. */
uint32_t sim_add_host(struct sim *sim, const struct gid *address);

/*
 * Give a host another address. What comes back is a number of its own for links and paths, as that
 * of a further host, but the lanes are those of `host`; groups do not know it.
 */
uint32_t sim_add_address(struct sim *sim, uint32_t host, const struct gid *address);

/* Put a lane behind a host. Its slot differs from those of the host's other lanes. */
void sim_add_lane(struct sim *sim, uint32_t host, struct lane *lane);

/* The link from one host to another, or to itself: to be set before frames use it, or any time. */
struct sim_link *sim_link(struct sim *sim, uint32_t from_host, uint32_t to_host);

/* What struct qp_path wants as `id` for packets from a host to another. */
uint32_t sim_path(uint32_t from_host, uint32_t to_host);

/* Add a multicast group, of which every host is a member. Returns its number, counted from 0. */
uint32_t sim_add_group(struct sim *sim, const struct gid *address);

/* The same for packets from a host to a group: each host gets a copy over its own link. */
uint32_t sim_group_path(uint32_t from_host, uint32_t group);

/* A host answers no more, from now on: frames to it vanish and its lanes are left alone. */
void sim_kill_host(struct sim *sim, uint32_t host);

/*
 * A host does not run until then: frames wait for it, and its lanes are left alone. The frames are
 * there when it goes on, before its deadlines.
 */
void sim_pause_host(struct sim *sim, uint32_t host, uint64_t until_ns);

/*
 * A busy machine: what a lane has to send goes out up to `data_ns` later than it could, at random,
 * so that causes pile up; acknowledgements that nothing else pushes out up to `acks_ns` later, as a
 * real port lets them wait. 0 and 0, the default, send at once.
 */
void sim_hold(struct sim *sim, uint64_t data_ns, uint64_t acks_ns);

/* Send what the lanes have to send now. */
void sim_flush(struct sim *sim);

/*
 * Let time pass to the next delivery or deadline, not beyond `limit_ns`, and let it happen; then
 * sim_flush(). Returns false when nothing happened before the limit; the clock then shows the limit
 * (unless that is DEADLINE_NEVER: then it stands still).
 */
bool sim_step(struct sim *sim, uint64_t limit_ns);

/* How many frames have met each fate. */
uint64_t sim_count(const struct sim *sim, enum sim_fate fate);
const char *sim_fate_name(enum sim_fate fate);

#endif

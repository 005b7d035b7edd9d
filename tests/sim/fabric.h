/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulated fabric: hosts, links between them, and a clock that moves only in sim_step().
 *
 * A host is an IP address with lanes. Each pair of hosts has a link per direction, which delays,
 * loses, reorders, duplicates or corrupts frames, or is cut for a while. A lane's packet is sealed
 * with its ICRC, travels as a frame, and is verified as by a real port: a corrupted frame never
 * reaches an engine.
 *
 * One seed decides everything. There is no system call, no real clock, no thread; the same seed and
 * the same calls give the same history, packet by packet.
 *
 * sim_step() executes one event of the network (the delivery of a frame, or a lane's deadline) and
 * sends what it causes. Then the test checks, posts and polls. sim_flush() sends the posted
 * requests.
 *
 * The simulation owns only frames in flight. Lanes belong to the test, which may destroy them
 * before or after the simulation, but does not step in between.
 */
#ifndef URNIC_TESTS_SIM_FABRIC_H
#define URNIC_TESTS_SIM_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"
#include "lane/lane.h"
#include "support/sim_random.h"

enum {
	SIM_HOST_COUNT_MAX = 4,
	SIM_LANE_COUNT_MAX = 8,
	SIM_PARTITION_COUNT_MAX = 4,
	SIM_GROUP_COUNT_MAX = 4,
};

/* One direction between two hosts. All zero: a perfect link without delay. */
struct sim_link {
	uint64_t delay_ns; /* of every frame */
	uint64_t jitter_ns; /* up to this much more, at random; frames may overtake others */
	uint32_t loss_ppm; /* of a million frames */
	uint32_t duplicate_ppm; /* the copy has a delay of its own */
	uint32_t corrupt_ppm; /* one to eight bits flip anywhere in the frame, ICRC included */
	uint32_t reorder_ppm; /* held back by reorder_ns */
	uint64_t reorder_ns;
	uint32_t byte_ps; /* picoseconds per byte on the wire; 0: infinitely fast */
	uint32_t backlog_bytes_max; /* a longer backlog drops at its tail; 0: no limit */
	uint32_t partition_count;
	struct sim_partition { /* nothing that is sent in [from_ns, to_ns) arrives */
		uint64_t from_ns;
		uint64_t to_ns;
	} partition[SIM_PARTITION_COUNT_MAX];
};

enum sim_fate {
	SIM_SENT, /* in flight */
	SIM_LOST,
	SIM_PARTITIONED,
	SIM_OVERFLOWED, /* the link's backlog was full */
	SIM_DUPLICATED, /* sent twice */
	SIM_DELIVERED,
	SIM_CORRUPTED, /* arrived, refused by its ICRC */
	SIM_FATE_COUNT
};

/* A frame, BTH to ICRC, and its fate. Borrowed for the call. */
typedef void sim_trace(void *context, uint64_t now_ns, uint32_t from_host, uint32_t to_host,
	enum sim_fate fate, const uint8_t *frame, size_t bytes);

struct sim;

/* An empty fabric at time 1 s, so that 0 is before all times. NULL when there is no memory. */
struct sim *sim_create(uint64_t seed);
void sim_destroy(struct sim *sim);

/* Call `trace` for each frame; NULL: for none. */
void sim_watch(struct sim *sim, sim_trace *trace, void *context);

uint64_t sim_now_ns(const struct sim *sim);

/* Add a host. Returns its number, counted from 0; at most SIM_HOST_COUNT_MAX. */
uint32_t sim_add_host(struct sim *sim, const struct gid *address);

/*
 * Give a host another address. Returns a number for links and paths, like that of a further host,
 * which leads to the lanes of `host`. The number is in no multicast group.
 */
uint32_t sim_add_address(struct sim *sim, uint32_t host, const struct gid *address);

/* Give a host a lane, whose slot differs from those of the host's other lanes. */
void sim_add_lane(struct sim *sim, uint32_t host, struct lane *lane);

/* The link from a host to another, or to itself; the test may change it at any time. */
struct sim_link *sim_link(struct sim *sim, uint32_t from_host, uint32_t to_host);

/* The id of struct qp_path for packets from a host to another. */
uint32_t sim_path(uint32_t from_host, uint32_t to_host);

/* Add a multicast group, of which every host is a member. Returns its number, counted from 0. */
uint32_t sim_add_group(struct sim *sim, const struct gid *address);

/* The same for packets from a host to a group: each host gets a copy over its own link. */
uint32_t sim_group_path(uint32_t from_host, uint32_t group);

/* From now on a host is dead: frames to it vanish, and its lanes are not driven. */
void sim_kill_host(struct sim *sim, uint32_t host);

/*
 * A host does not run until then: frames wait for it, and its lanes are not driven. It receives the
 * frames before its deadlines expire.
 */
void sim_pause_host(struct sim *sim, uint32_t host, uint64_t until_ns);

/*
 * Simulate a busy machine. Lanes send up to `data_ns` late, at random, so several events have one
 * answer. Acknowledgements without data leave up to `acks_ns` late, as a worker defers them. 0 and
 * 0, the default, send at once.
 */
void sim_hold(struct sim *sim, uint64_t data_ns, uint64_t acks_ns);

/* Send the packets of all lanes that are due. */
void sim_flush(struct sim *sim);

/*
 * Advance the clock to the next delivery or deadline, at most to `limit_ns`, and execute it; then
 * sim_flush(). Returns false when there was none before the limit. The clock is then at the limit
 * (unless that is DEADLINE_NEVER).
 */
bool sim_step(struct sim *sim, uint64_t limit_ns);

/* The number of frames with this fate. */
uint64_t sim_count(const struct sim *sim, enum sim_fate fate);
const char *sim_fate_name(enum sim_fate fate);

#endif

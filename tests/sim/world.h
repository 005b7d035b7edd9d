/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts on a simulated fabric, with the lanes, memory and connected queue pairs that every
 * scenario needs. A scenario makes a world for each seed.
 */
#ifndef URNIC_TESTS_SIM_WORLD_H
#define URNIC_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "local/local.h"
#include "sim/fabric.h"

enum {
	WORLD_HOST_COUNT = 2,
	WORLD_LANE_COUNT_MAX = 2, /* per host */
	WORLD_PD = 7, /* the protection domain of everything that is meant to work */
};

struct host {
	uint32_t number;
	struct gid address;
	struct arena arena;
	void *arena_memory;
	struct mr_table mrs;
	struct srq_table *srqs;
	uint32_t lane_count;
	struct lane lane[WORLD_LANE_COUNT_MAX];
	struct within *within; /* NULL: the hosts are two machines */
	struct endpoints *endpoints; /* NULL: neither */
};

struct world {
	uint64_t seed;
	bool is_traced;
	bool is_selective[WORLD_HOST_COUNT]; /* does the host use selective repeat? */
	struct sim *sim;
	struct sim_random random;
	struct host host[WORLD_HOST_COUNT];
	uint32_t events[WORLD_HOST_COUNT]; /* all that queue pairs there ever signaled */
	struct sim_random
		local_random; /* of its own, so that histories are those of two machines */
};

/* Attributes that both ends of a connection share. */
struct connection {
	uint32_t path_mtu; /* enum ibv_mtu */
	uint32_t timeout;
	uint32_t retry_cnt;
	uint32_t rnr_retry;
	uint32_t min_rnr_timer;
	uint32_t rd_atomic; /* both directions, both roles */
	uint32_t access; /* enum mr_access */
	uint32_t psn[WORLD_HOST_COUNT]; /* where each end starts */
};

/*
 * A failed check prints the condition, the seed and the virtual time, and ends the program. The
 * seed replays it.
 */
#define WORLD_CHECK(world, condition, ...)                                              \
	do {                                                                            \
		if (!(condition))                                                       \
			world_fail(world, __FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)
void world_fail(const struct world *world, const char *file, int line, const char *condition,
	const char *format, ...) __attribute__((noreturn, format(printf, 5, 6)));

/* Make hosts with `lane_count` lanes each. Links are perfect until they are set. */
void world_init(struct world *world, uint64_t seed, uint32_t lane_count, bool is_traced);
void world_done(struct world *world);

struct qp *world_qp_create(
	struct world *world, struct host *host, uint32_t lane, const struct qp_init *init);
void world_qp_destroy(struct world *world, struct qp *qp);

/*
 * Take both from RESET to RTS, as each other's peer: RC, or a sending and a receiving half of XRC.
 * `a` is on host 0 and `b` on host 1.
 */
void world_connect(
	struct world *world, struct qp *a, struct qp *b, const struct connection *connection);

/* Worlds that are made from now on are two processes of one host (within.h, ud_endpoints.h). */
void world_set_local(bool is_now_local);

/* What host `number` knows of the process at the other end is that it is gone. */
void world_forget_peer(struct world *world, uint32_t number);

/* Register; returns the key. */
uint32_t world_register(struct world *world, struct host *host, uint32_t pd, uint32_t access,
	void *address, uint64_t bytes);

/* Let the network do one thing, check every invariant, note signals. */
bool world_step(struct world *world, uint64_t limit_ns);

static inline uint64_t world_counter(const struct qp *qp, enum counter counter)
{
	return counter_read(qp->counters, counter);
}

#endif

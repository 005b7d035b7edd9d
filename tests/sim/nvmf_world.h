/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machines of an NVMe over Fabrics history: two hosts and a target, each with a virtual loop of
 * its own, and a clock for everything between them.
 *
 * Events outside of the machines are timers of `clock`: arriving bytes, faults, the load. A paused
 * machine does not run: its sockets fill up, and its timers expire late.
 */
#ifndef URNIC_TESTS_SIM_NVMF_WORLD_H
#define URNIC_TESTS_SIM_NVMF_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "support/sim_random.h"

/* After base/arith.h, which has a container_of() of its own. */
#include "nvmf/common/loop.h"

enum { NVMF_HOSTS = 2, NVMF_TARGET = 2, NVMF_MACHINES = 3 };

#define NVMF_US 1000ull
#define NVMF_MS 1000000ull
#define NVMF_S  1000000000ull

struct nvmf_world {
	uint64_t seed;
	bool is_traced;
	struct sim_random random;
	struct loop *clock;
	struct loop *loop[NVMF_MACHINES];
	bool is_paused[NVMF_MACHINES];
	unsigned running; /* the machine that has time now */
	uint64_t now_ns;
	uint64_t steps;
	/* Report what is ready on this machine's loop; returns whether anything is. */
	bool (*report)(void *context, unsigned machine);
	void *report_context;
};

#define NVMF_CHECK(world, condition, ...)                                              \
	do {                                                                           \
		if (!(condition))                                                      \
			nvmf_fail(world, __FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)
void nvmf_fail(const struct nvmf_world *world, const char *file, int line, const char *condition,
	const char *format, ...) __attribute__((noreturn, format(printf, 5, 6)));
void nvmf_trace(const struct nvmf_world *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The loops are made by the caller, who knows their networks. */
void nvmf_world_init(struct nvmf_world *world, uint64_t seed, bool is_traced);
void nvmf_world_done(struct nvmf_world *world);

/* Let what is due next happen, but nothing after `limit_ns`. */
void nvmf_world_step(struct nvmf_world *world, uint64_t limit_ns);

/* Give a machine time now, until it has nothing to do. */
void nvmf_world_run(struct nvmf_world *world, unsigned machine);

static inline uint64_t nvmf_below(struct nvmf_world *world, uint64_t limit)
{
	return sim_random_below(&world->random, limit);
}

static inline uint64_t nvmf_between(struct nvmf_world *world, uint64_t low, uint64_t high)
{
	return sim_random_between(&world->random, low, high);
}

/* A number of any size from `low` to `high`: each power of two is as likely as the others. */
static inline uint64_t nvmf_any_size(struct nvmf_world *world, uint64_t low, uint64_t high)
{
	unsigned powers = 0;
	uint64_t limit;

	while (low << powers < high)
		powers++;
	powers = (unsigned)nvmf_below(world, powers + 1u);
	limit = low << powers < high ? low << powers : high;
	return nvmf_between(world, powers ? low << (powers - 1) : low, limit);
}

#endif

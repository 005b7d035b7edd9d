/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS_MAX = 10000 };

void nvmf_fail(const struct nvmf_world *world, const char *file, int line, const char *condition,
	const char *format, ...)
{
	va_list arguments;

	printf("seed %llu, %.6f ms: %s:%d: %s: ", (unsigned long long)world->seed,
		(double)world->now_ns / 1e6, file, line, condition);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

void nvmf_trace(const struct nvmf_world *world, const char *format, ...)
{
	va_list arguments;

	if (!world->is_traced)
		return;
	printf("%14.3f us  ", (double)world->now_ns / 1e3);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

void nvmf_world_init(struct nvmf_world *world, uint64_t seed, bool is_traced)
{
	*world = (struct nvmf_world){.seed = seed, .is_traced = is_traced, .now_ns = NVMF_S};
	world->random.state = seed * 0x100000001b3u;
	if (loop_create_virtual(NULL, &world->clock))
		abort();
	loop_advance(world->clock, world->now_ns);
}

void nvmf_world_done(struct nvmf_world *world)
{
	for (unsigned i = 0; i < NVMF_MACHINES; i++)
		loop_destroy(world->loop[i]);
	loop_destroy(world->clock);
}

void nvmf_world_run(struct nvmf_world *world, unsigned machine)
{
	bool has_more;
	unsigned rounds = 0;

	world->running = machine;
	do {
		has_more = world->report(world->report_context, machine);
		loop_advance(world->loop[machine], world->now_ns);
		NVMF_CHECK(world, rounds++ < ROUNDS_MAX, "machine %u spins", machine);
	} while (has_more);
}

void nvmf_world_step(struct nvmf_world *world, uint64_t limit_ns)
{
	uint64_t next_ns = loop_deadline_ns(world->clock);
	unsigned first = (unsigned)nvmf_below(world, NVMF_MACHINES);

	for (unsigned i = 0; i < NVMF_MACHINES; i++)
		if (!world->is_paused[i] && loop_deadline_ns(world->loop[i]) < next_ns)
			next_ns = loop_deadline_ns(world->loop[i]);
	if (next_ns > limit_ns)
		next_ns = limit_ns;
	if (next_ns > world->now_ns)
		world->now_ns = next_ns;
	world->steps++;
	loop_advance(world->clock, world->now_ns);
	for (unsigned i = 0; i < NVMF_MACHINES; i++) {
		unsigned machine = (first + i) % NVMF_MACHINES;

		if (!world->is_paused[machine])
			nvmf_world_run(world, machine);
	}
}

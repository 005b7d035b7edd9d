/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic sim plan: buffer sizes and thresholds by formula. */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "common/command.h"
#include "fabric/plan.h"
#include "sim/sim.h"

enum { CABLE_PS_PER_M = 5000, FRAME_EXTRA_BYTES = 18 /* Ethernet header and FCS */ };

struct plan_options {
	double rate_gbps;
	double cable_m;
	double mtu;
	double buffer;
	double ports;
	double priorities;
	double beta;
};

static const struct {
	const char *name;
	size_t offset;
	double low;
	double high;
	bool is_whole;
} plan_numbers[] = {
	{"--rate", offsetof(struct plan_options, rate_gbps), 0.001, FABRIC_RATE_MBPS_MAX / 1000.,
		false},
	{"--cable", offsetof(struct plan_options, cable_m), 0, 100000, true},
	{"--mtu", offsetof(struct plan_options, mtu), 64, 65535, true},
	{"--buffer", offsetof(struct plan_options, buffer), 0, 1e12, true},
	{"--ports", offsetof(struct plan_options, ports), 1, 65536, true},
	{"--priorities", offsetof(struct plan_options, priorities), 1, 8, true},
	{"--beta", offsetof(struct plan_options, beta), 1, 1024, true},
};

static bool option_read(struct plan_options *options, const char *name, const char *value)
{
	for (uint32_t i = 0; i < ARRAY_COUNT(plan_numbers); i++) {
		double number;
		char *end;

		if (strcmp(plan_numbers[i].name, name) != 0)
			continue;
		number = value ? strtod(value, &end) : 0;
		if (!value || end == value || *end || !(number >= plan_numbers[i].low) ||
			!(number <= plan_numbers[i].high) ||
			(plan_numbers[i].is_whole && number != (double)(uint64_t)number)) {
			complain("sim plan: %s takes a %snumber from %.15g to %.15g", name,
				plan_numbers[i].is_whole ? "whole " : "", plan_numbers[i].low,
				plan_numbers[i].high);
			return false;
		}
		memcpy((char *)options + plan_numbers[i].offset, &number, sizeof(number));
		return true;
	}
	complain("sim plan: unknown option '%s'; urnic sim --help lists them", name);
	return false;
}

static void thresholds_print(const struct plan_options *options, uint64_t headroom_bytes)
{
	struct plan_thresholds thresholds =
		plan_thresholds((uint64_t)options->buffer, (uint32_t)options->ports,
			(uint32_t)options->priorities, headroom_bytes, (uint32_t)options->beta);
	uint64_t groups = (uint64_t)options->ports * (uint64_t)options->priorities;
	uint64_t headrooms_bytes = groups * headroom_bytes;

	printf("headroom of all groups            %12llu bytes of %.0f\n",
		(unsigned long long)headrooms_bytes, options->buffer);
	if (!thresholds.pause_bytes) {
		printf("the buffer is too small for this headroom\n");
		return;
	}
	printf("PFC threshold, static, at most    %12llu bytes\n",
		(unsigned long long)thresholds.pause_bytes);
	printf("ECN threshold, beta %-4.0f, at most  %12llu bytes\n", options->beta,
		(unsigned long long)thresholds.mark_bytes);
}

int sim_plan(int argc, char **argv)
{
	struct plan_options options = {.rate_gbps = 100,
		.cable_m = 100,
		.mtu = 1500,
		.priorities = 8,
		.ports = 32,
		.beta = 8};
	uint32_t rate_mbps;
	uint32_t response_quanta;
	uint64_t headroom_bytes;

	for (int i = 1; i < argc; i += 2)
		if (!option_read(&options, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
			return EXIT_USAGE;
	rate_mbps = (uint32_t)(options.rate_gbps * 1000 + 0.5);
	response_quanta = fabric_response_quanta(rate_mbps);
	headroom_bytes = plan_headroom_bytes(rate_mbps, (uint64_t)options.cable_m * CABLE_PS_PER_M,
		(uint32_t)options.mtu + FRAME_EXTRA_BYTES,
		fabric_quanta_ps(response_quanta, rate_mbps));
	printf("longest pause                     %14.1f us\n",
		(double)fabric_quanta_ps(FABRIC_PAUSE_QUANTA_MAX, rate_mbps) / FABRIC_PS_PER_US);
	printf("response deadline                 %12u quanta\n", response_quanta);
	printf("headroom of a priority group      %12llu bytes\n",
		(unsigned long long)headroom_bytes);
	printf("the same by the mlx5 driver       %12llu bytes\n",
		(unsigned long long)plan_mlx5_xoff_bytes(
			rate_mbps, (uint32_t)options.cable_m, (uint32_t)options.mtu));
	if (options.buffer > 0)
		thresholds_print(&options, headroom_bytes);
	return EXIT_OK;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator: engines on a simulated fabric, one history per seed.
 *
 *   sim [SCENARIO] [--seeds A..B]        run the seeds (default 1..1000), stop at the first that
 *                                        fails
 *   sim [SCENARIO] --seed N [--trace]    replay one; --trace prints every frame
 *
 * With --local both ends are processes of one host, and execute requests without packets where
 * possible (within.h).
 *
 * Scenarios: mixed, random work over links good and bad (the default); srq, the same with shared
 * receive queues; states, mixed with drained send queues, path migration and rates; xrc, over
 * extended reliable connections; refused, bad requests; killed, an end that disappears; starved,
 * machines that do not run for half a second; lossy, a stream with 1 % loss, with selective repeat
 * and without; cm, connections made and ended by the connection
 * manager; uc and ud, unreliable connections and datagrams; streams, iWARP over a byte stream that
 * is cut into pieces; nvmf, two hosts and a target of NVMe over Fabrics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "cm_history.h"
#include "killed.h"
#include "lossy.h"
#include "mixed.h"
#include "nvmf.h"
#include "refused.h"
#include "starved.h"
#include "streams.h"
#include "unreliable.h"
#include "world.h"

enum { SEEDS_FOR_EVERY_STATE = 1000 };

struct options {
	uint64_t first_seed;
	uint64_t last_seed;
	bool is_traced;
	void (*run_all)(const struct options *options);
};

static uint64_t seed_count(const struct options *options)
{
	return options->last_seed - options->first_seed + 1;
}

static void refused_all(const struct options *options)
{
	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		refused_run(seed, options->is_traced);
	printf("%llu seeds over %u refusals\n", (unsigned long long)seed_count(options),
		refused_case_count());
}

static void killed_all(const struct options *options)
{
	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		killed_run(seed, options->is_traced);
	printf("%llu seeds\n", (unsigned long long)seed_count(options));
}

static void starved_all(const struct options *options)
{
	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		starved_run(seed, options->is_traced);
	printf("%llu seeds\n", (unsigned long long)seed_count(options));
}

static void lossy_all(const struct options *options)
{
	struct lossy_result total = {0};

	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		lossy_run(seed, options->is_traced, &total);
	printf("%llu seeds with loss: %.1f ms with selective repeat, %.1f ms without\n",
		(unsigned long long)seed_count(options), (double)total.selective_ns / 1e6,
		(double)total.plain_ns / 1e6);
	lossy_check(&total);
}

static void cm_all(const struct options *options)
{
	uint64_t sent = 0;

	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		sent += cm_history_run(seed, options->is_traced);
	if (seed_count(options) >= SEEDS_FOR_EVERY_STATE)
		cm_history_check_states();
	printf("%llu seeds: %llu messages\n", (unsigned long long)seed_count(options),
		(unsigned long long)sent);
}

static void unreliable_all(const struct options *options, enum qp_type type)
{
	struct unreliable_result total = {0};

	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		unreliable_run(seed, type, options->is_traced, &total);
	printf("%llu seeds: %llu messages sent, %llu of them without packets, %llu received, %llu frames ill-treated\n",
		(unsigned long long)seed_count(options), (unsigned long long)total.sent,
		(unsigned long long)total.local, (unsigned long long)total.received,
		(unsigned long long)total.bad_fates);
}

static void streams_all(const struct options *options)
{
	struct streams_result total = {0};

	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		streams_run(seed, options->is_traced, &total);
	printf("%llu seeds: %llu requests, %llu pieces, %llu connections cut or closed\n",
		(unsigned long long)seed_count(options), (unsigned long long)total.requests,
		(unsigned long long)total.pieces, (unsigned long long)total.breaks);
}

static void nvmf_all(const struct options *options)
{
	struct nvmf_result total = {0};

	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++)
		nvmf_run(seed, options->is_traced, &total);
	printf("%llu seeds: %llu requests (%llu failed, %llu unknown), %llu commands (%llu lost), "
	       "%llu of %llu swaps\n",
		(unsigned long long)seed_count(options), (unsigned long long)total.requests,
		(unsigned long long)total.failed, (unsigned long long)total.unknown,
		(unsigned long long)total.attempts, (unsigned long long)total.lost,
		(unsigned long long)total.swapped, (unsigned long long)total.swaps);
	printf("%llu faults, %llu associations, %llu streams, %.1f MB, %llu keep alives expired, "
	       "%llu commands injected, %llu events, %llu bits inverted, %llu refused PDUs, "
	       "%llu wrong digests\n",
		(unsigned long long)total.faults, (unsigned long long)total.associations,
		(unsigned long long)total.streams, (double)total.bytes / 1e6,
		(unsigned long long)total.target.keep_alive_expired,
		(unsigned long long)total.target.injected, (unsigned long long)total.target.events,
		(unsigned long long)total.inverted, (unsigned long long)total.target.refused_pdus,
		(unsigned long long)total.target.data_digest_errors);
	printf("%llu actions on blocks, %llu histories undecided, %.1f s of virtual time\n",
		(unsigned long long)total.actions, (unsigned long long)total.undecided,
		(double)total.virtual_ns / 1e9);
}

static void uc_all(const struct options *options)
{
	unreliable_all(options, QP_TYPE_UC);
}

static void ud_all(const struct options *options)
{
	unreliable_all(options, QP_TYPE_UD);
}

static void mixed_kind_all(enum mixed_kind kind, const struct options *options)
{
	struct mixed_result total = {0};

	for (uint64_t seed = options->first_seed; seed <= options->last_seed; seed++) {
		struct mixed_result result = {0};

		mixed_run(kind, seed, options->is_traced, &result);
		total.packets += result.packets;
		total.bad_fates += result.bad_fates;
		total.retransmitted += result.retransmitted;
		total.virtual_ns += result.virtual_ns;
	}
	printf("%llu seeds: %llu packets, %llu frames ill-treated, %llu retransmitted, %.1f s of "
	       "virtual time\n",
		(unsigned long long)seed_count(options), (unsigned long long)total.packets,
		(unsigned long long)total.bad_fates, (unsigned long long)total.retransmitted,
		(double)total.virtual_ns / 1e9);
}

static void mixed_all(const struct options *options)
{
	mixed_kind_all(MIXED_RC, options);
}

static void srq_all(const struct options *options)
{
	mixed_kind_all(MIXED_SRQ, options);
}

static void states_all(const struct options *options)
{
	mixed_kind_all(MIXED_STATES, options);
}

static void xrc_all(const struct options *options)
{
	mixed_kind_all(MIXED_XRC, options);
}

static void (*scenario_find(const char *name))(const struct options *options)
{
	static const struct {
		const char *name;
		void (*run_all)(const struct options *options);
	} scenarios[] = {{"mixed", mixed_all}, {"refused", refused_all}, {"killed", killed_all},
		{"starved", starved_all}, {"lossy", lossy_all}, {"cm", cm_all}, {"uc", uc_all},
		{"ud", ud_all}, {"srq", srq_all}, {"states", states_all}, {"xrc", xrc_all},
		{"streams", streams_all}, {"nvmf", nvmf_all}};

	for (uint32_t i = 0; i < ARRAY_COUNT(scenarios); i++)
		if (strcmp(scenarios[i].name, name) == 0)
			return scenarios[i].run_all;
	return NULL;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: sim [mixed | srq | states | xrc | refused | killed | starved | lossy | cm | uc | ud | streams | nvmf] [--local] "
		"[--seeds A..B | --seed N [--trace]]\n");
	return 2;
}

static bool options_parse(struct options *options, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		char *end;

		if (strcmp(argv[i], "--local") == 0) {
			world_set_local(true);
			continue;
		}
		if (strcmp(argv[i], "--trace") == 0) {
			options->is_traced = true;
			continue;
		}
		if (scenario_find(argv[i])) {
			options->run_all = scenario_find(argv[i]);
			continue;
		}
		options->first_seed = options->last_seed = strtoull(value, &end, 0);
		if (strcmp(argv[i], "--seeds") == 0 && strncmp(end, "..", 2) == 0)
			options->last_seed = strtoull(end + 2, &end, 0);
		else if (strcmp(argv[i], "--seed") != 0)
			return false;
		if (end == value || *end)
			return false;
		i++;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options options = {1, 1000, false, mixed_all};

	if (!options_parse(&options, argc, argv))
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	options.run_all(&options);
	return 0;
}

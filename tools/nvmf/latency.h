/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A histogram of times in nanoseconds. Each power of two has 32 buckets, so a time is exact to
 * 1/32.
 */
#ifndef TOOLS_NVMF_LATENCY_H
#define TOOLS_NVMF_LATENCY_H

#include <stdint.h>

enum { LATENCY_BUCKETS = 64 * 32 };

struct latency {
	uint64_t buckets[LATENCY_BUCKETS];
	uint64_t count;
	uint64_t sum_ns;
	uint64_t min_ns;
	uint64_t max_ns;
};

static inline unsigned latency_bucket(uint64_t time_ns)
{
	unsigned power;

	if (time_ns < 32)
		return (unsigned)time_ns;
	power = 63 - (unsigned)__builtin_clzll(time_ns);
	return (power - 4) * 32 + (unsigned)(time_ns >> (power - 5) & 31);
}

/* The smallest time of a bucket. */
static inline uint64_t latency_bucket_ns(unsigned bucket)
{
	if (bucket < 32)
		return bucket;
	return (uint64_t)(32 + bucket % 32) << (bucket / 32 - 1);
}

static inline void latency_add(struct latency *latency, uint64_t time_ns)
{
	latency->buckets[latency_bucket(time_ns)]++;
	if (latency->count == 0 || time_ns < latency->min_ns)
		latency->min_ns = time_ns;
	if (time_ns > latency->max_ns)
		latency->max_ns = time_ns;
	latency->count++;
	latency->sum_ns += time_ns;
}

/*
 * The time that `percent` percent of all times do not exceed, rounded down to the start of its
 * bucket; 0 if there are no times.
 */
static inline uint64_t latency_percentile_ns(const struct latency *latency, double percent)
{
	uint64_t wanted = (uint64_t)((double)latency->count * percent / 100.0);
	uint64_t seen = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		seen += latency->buckets[i];
		if (seen > wanted || (seen == latency->count && seen))
			return latency_bucket_ns(i);
	}
	return 0;
}

#endif

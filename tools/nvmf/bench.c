/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench: reads or writes blocks for some seconds, and prints the rates and the distribution of
 * latencies. The options have fio's names.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "latency.h"
#include "nvmf.h"

static const double percents[] = {1, 10, 50, 90, 99, 99.9, 99.99};

enum { PERCENTS = sizeof(percents) / sizeof(*percents), RUNTIME_SECONDS = 10 };

struct bench {
	const struct nvmf_options *options;
	struct session session;
	bool is_random;
	unsigned read_percent;
	uint64_t offset_bytes;
	uint64_t blocks; /* length of the range in units of options->block_bytes */
	uint64_t next; /* the next block of a sequential job */
	uint64_t random;
	bool is_over;
	unsigned pending;
	int error;
	struct latency latencies[2]; /* [0]: reads, [1]: writes */
};

struct slot {
	struct bench *bench;
	struct block_request request;
	uint64_t begun_ns;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t bench_draw(struct bench *bench)
{
	bench->random ^= bench->random << 13;
	bench->random ^= bench->random >> 7;
	bench->random ^= bench->random << 17;
	return bench->random;
}

static void slot_start(struct slot *slot)
{
	struct bench *bench = slot->bench;
	struct block_request *request = &slot->request;
	uint64_t block = bench->is_random ? bench_draw(bench) % bench->blocks
					  : bench->next++ % bench->blocks;

	request->op = bench_draw(bench) % 100 < bench->read_percent ? BLOCK_READ : BLOCK_WRITE;
	request->offset_bytes = bench->offset_bytes + block * bench->options->block_bytes;
	request->length_bytes = bench->options->block_bytes;
	bench->pending++;
	slot->begun_ns = clock_ns(CLOCK_MONOTONIC);
	block_submit(remote_device(bench->session.remote), request);
}

static void slot_done(struct block_request *request, int error)
{
	struct slot *slot = container_of(request, struct slot, request);
	struct bench *bench = slot->bench;

	bench->pending--;
	if (error && !bench->error)
		bench->error = error;
	bench->is_over |= error != 0;
	latency_add(&bench->latencies[request->op == BLOCK_WRITE],
		clock_ns(CLOCK_MONOTONIC) - slot->begun_ns);
	if (!bench->is_over)
		slot_start(slot);
}

static bool job_parse(struct bench *bench)
{
	static const struct {
		const char *name;
		bool is_random;
		int read_percent; /* -1: options->rwmixread */
	} jobs[] = {
		{"read", false, 100},
		{"write", false, 0},
		{"rw", false, -1},
		{"randread", true, 100},
		{"randwrite", true, 0},
		{"randrw", true, -1},
	};

	for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
		if (strcmp(jobs[i].name, bench->options->rw) != 0)
			continue;
		bench->is_random = jobs[i].is_random;
		bench->read_percent = jobs[i].read_percent < 0 ? bench->options->rwmixread
							       : (unsigned)jobs[i].read_percent;
		return true;
	}
	complain("--rw takes read, write, rw, randread, randwrite or randrw, not '%s'",
		bench->options->rw);
	return false;
}

static void progress_show(const struct bench *bench, uint64_t elapsed_ns, uint64_t runtime_ns)
{
	static const char bar[] = "########################################";
	unsigned done = (unsigned)(elapsed_ns * 40 / runtime_ns);
	uint64_t count = bench->latencies[0].count + bench->latencies[1].count;

	if (done > 40)
		done = 40;
	fprintf(stderr, "\r[%-40.*s] %3" PRIu64 "%%  %.0f IOPS ", (int)done, bar,
		elapsed_ns * 100 / runtime_ns,
		elapsed_ns ? (double)count * 1e9 / (double)elapsed_ns : 0.0);
}

/* Run the job. Returns its duration in nanoseconds. */
static uint64_t bench_run(struct bench *bench, struct slot *slots)
{
	uint32_t seconds = bench->options->runtime_seconds;
	uint64_t runtime_ns = (seconds ? seconds : RUNTIME_SECONDS) * 1000000000ull;
	uint64_t begun_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t shown_ns = begun_ns;
	bool shows = isatty(STDERR_FILENO) && !bench->options->is_quiet;
	uint64_t now_ns = begun_ns;

	for (unsigned i = 0; i < bench->options->iodepth; i++)
		slot_start(&slots[i]);
	while (bench->pending > 0) {
		if (bench->options->polls)
			host_controller_poll(bench->session.controller);
		loop_step(bench->session.loop, bench->options->polls ? 0 : 100000000u);
		now_ns = clock_ns(CLOCK_MONOTONIC);
		bench->is_over |= now_ns - begun_ns >= runtime_ns;
		if (shows && now_ns - shown_ns > 200000000u) {
			progress_show(bench, now_ns - begun_ns, runtime_ns);
			shown_ns = now_ns;
		}
	}
	if (shows)
		fputs("\r\033[K", stderr);
	return now_ns - begun_ns;
}

static void print_normal(const struct bench *bench, unsigned way, double seconds)
{
	const struct latency *latency = &bench->latencies[way];
	double bytes = (double)latency->count * bench->options->block_bytes;

	if (latency->count == 0)
		return;
	printf("%s: IOPS=%.0f, BW=%.1fMiB/s, %" PRIu64 " in %.1f s\n", way ? "write" : "read",
		(double)latency->count / seconds, bytes / seconds / (1 << 20), latency->count,
		seconds);
	printf("  lat (usec): min=%.1f, max=%.1f, avg=%.1f\n", (double)latency->min_ns / 1e3,
		(double)latency->max_ns / 1e3,
		(double)latency->sum_ns / (double)latency->count / 1e3);
	printf("  percentiles (usec):");
	for (size_t i = 0; i < PERCENTS; i++)
		printf(" %gth=%.1f", percents[i],
			(double)latency_percentile_ns(latency, percents[i]) / 1e3);
	putchar('\n');
}

static void add_json(cJSON *job, const struct bench *bench, unsigned way, double seconds)
{
	const struct latency *latency = &bench->latencies[way];
	cJSON *object = cJSON_AddObjectToObject(job, way ? "write" : "read");
	cJSON *times = cJSON_AddObjectToObject(object, "lat_ns");
	cJSON *list;
	double count = latency->count ? (double)latency->count : 1.0;

	cJSON_AddNumberToObject(object, "total_ios", (double)latency->count);
	cJSON_AddNumberToObject(object, "iops", (double)latency->count / seconds);
	cJSON_AddNumberToObject(
		object, "bw_bytes", (double)latency->count * bench->options->block_bytes / seconds);
	cJSON_AddNumberToObject(times, "min", (double)latency->min_ns);
	cJSON_AddNumberToObject(times, "max", (double)latency->max_ns);
	cJSON_AddNumberToObject(times, "mean", (double)latency->sum_ns / count);
	list = cJSON_AddObjectToObject(times, "percentile");
	for (size_t i = 0; i < PERCENTS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%f", percents[i]);
		cJSON_AddNumberToObject(
			list, name, (double)latency_percentile_ns(latency, percents[i]));
	}
}

static int print_json(const struct bench *bench, double seconds, double cpu_seconds)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *jobs = cJSON_AddArrayToObject(root, "jobs");
	cJSON *job = cJSON_CreateObject();
	char *text;

	cJSON_AddItemToArray(jobs, job);
	cJSON_AddStringToObject(job, "rw", bench->options->rw);
	cJSON_AddNumberToObject(job, "bs", bench->options->block_bytes);
	cJSON_AddNumberToObject(job, "iodepth", bench->options->iodepth);
	cJSON_AddNumberToObject(job, "runtime_seconds", seconds);
	cJSON_AddNumberToObject(job, "cpu_seconds", cpu_seconds);
	add_json(job, bench, 0, seconds);
	add_json(job, bench, 1, seconds);
	text = cJSON_Print(root);
	cJSON_Delete(root);
	if (!text)
		return complain("no memory");
	puts(text);
	free(text);
	return 0;
}

static int bench_report(const struct bench *bench, uint64_t elapsed_ns, uint64_t cpu_ns)
{
	double seconds = (double)elapsed_ns / 1e9;
	uint64_t count = bench->latencies[0].count + bench->latencies[1].count;

	if (bench->error)
		return complain("a request failed: %s", strerror(-bench->error));
	if (bench->options->wants_json)
		return print_json(bench, seconds, (double)cpu_ns / 1e9);
	print_normal(bench, 0, seconds);
	print_normal(bench, 1, seconds);
	printf("  cpu: %.2f s, %.2f usec per request\n", (double)cpu_ns / 1e9,
		(double)cpu_ns / 1e3 / (double)(count ? count : 1));
	return 0;
}

static int bench_all(struct bench *bench)
{
	unsigned depth = bench->options->iodepth;
	uint8_t *data = calloc(depth, bench->options->block_bytes);
	struct slot *slots = calloc(depth, sizeof(*slots));
	int status = 1;

	if (!data || !slots) {
		complain("no memory");
	} else {
		uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		uint64_t elapsed_ns;

		for (unsigned i = 0; i < depth; i++) {
			slots[i].bench = bench;
			slots[i].request.data = data + (size_t)i * bench->options->block_bytes;
			slots[i].request.done = slot_done;
		}
		memset(data, 0x5a, (size_t)depth * bench->options->block_bytes);
		elapsed_ns = bench_run(bench, slots);
		status = bench_report(
			bench, elapsed_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns);
	}
	free(slots);
	free(data);
	return status;
}

int command_bench(const struct nvmf_options *options)
{
	static struct bench bench;
	int status = 1;

	bench.options = options;
	bench.random = options->seed ? options->seed : 0x9e3779b97f4a7c15u;
	if (!job_parse(&bench))
		return 2;
	if (options->iodepth == 0)
		return complain("--iodepth takes a number from 1 to %d", HOST_DEPTH_MAX);
	if (session_open(&bench.session, NULL, options, options->nqn, true))
		return 1;
	bench.offset_bytes = options->offset_bytes;
	if (session_blocks(&bench.session, options, 1, "room for a block", &bench.blocks))
		status = bench_all(&bench);
	session_close(&bench.session);
	return status;
}

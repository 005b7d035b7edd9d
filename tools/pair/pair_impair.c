/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The impairments of urnic pair's programs: the variables that request them, and their counters.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/kernel.h"
#include "pair/pair.h"

enum { STATUS_KILLED = 128 + 9 };

static int report_make(struct pair_process *process)
{
	char path[] = "/tmp/urnic-pair.XXXXXX";
	int file = mkostemp(path, O_CLOEXEC);
	void *report;
	int error;

	if (file < 0)
		return -errno;
	memcpy(process->report_path, path, sizeof(path));
	if (ftruncate(file, sizeof(*process->report)) < 0)
		goto fail_close;
	report = mmap(NULL, sizeof(*process->report), PROT_READ, MAP_SHARED, file, 0);
	if (report == MAP_FAILED)
		goto fail_close;
	process->report = report;
	close(file);
	return 0;
fail_close:
	error = -errno;
	close(file);
	return error;
}

int pair_reports_make(struct pair *pair)
{
	int error = 0;

	if (!pair->settings->is_impaired)
		return 0;
	for (int host = 0; host < pair->network.host_count && !error; host++)
		error = report_make(&pair->programs[host]);
	return error;
}

void pair_reports_read(struct pair *pair)
{
	uint64_t server_kills = 0, client_kills = 0;

	for (int host = 0; host < pair->network.host_count; host++) {
		struct pair_process *process = &pair->programs[host];

		if (process->report_path[0])
			unlink(process->report_path);
		if (!process->report)
			continue;
		server_kills += process->report->server_kills;
		client_kills += process->report->client_kills;
	}
	for (int host = 0; host < pair->network.host_count; host++) {
		struct pair_process *process = &pair->programs[host];

		if (process->status == STATUS_KILLED && (host ? client_kills : server_kills))
			process->is_ended_by_us = true;
	}
}

static void row_print(const char *name, const struct impair_counters *counters)
{
	fprintf(stderr,
		"%-18s %9" PRIu64 " %9" PRIu64 " %11" PRIu64 " %10" PRIu64 " %10" PRIu64
		" %6" PRIu64 "\n",
		name, counters->impair_packets, counters->impair_dropped,
		counters->impair_duplicated, counters->impair_corrupted, counters->impair_reordered,
		counters->impair_aimed);
	fprintf(stderr,
		"  %-16s %9" PRIu64 " %9" PRIu64 " %11" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n",
		"first time", counters->impair_first, counters->impair_first_dropped,
		counters->impair_first_duplicated, counters->impair_first_corrupted,
		counters->impair_first_reordered);
}

void pair_reports_print(const struct pair *pair)
{
	char name[32];

	snprintf(name, sizeof(name), "seed %u", pair->settings->plan.seed);
	fprintf(stderr, "%-18s   packets   dropped  duplicated  corrupted  reordered  aimed\n",
		name);
	for (int host = 0; host < pair->network.host_count; host++) {
		const struct impair_report *report = pair->programs[host].report;

		snprintf(name, sizeof(name), "%s on host %s", host ? "client" : "server",
			host_facts(host).name);
		row_print(name, &report->counters);
		if (report->rnr_naks)
			fprintf(stderr, "  RNR NAKs         %9" PRIu64 "\n", report->rnr_naks);
		if (report->server_kills)
			fprintf(stderr, "  killed the server\n");
		if (report->client_kills)
			fprintf(stderr, "  killed the client\n");
	}
}

void pair_impairments_write(const struct pair *pair, int host, char ret_text[PAIR_IMPAIR_BYTES])
{
	const struct pair_settings *settings = pair->settings;

	/*
	 * If the kernel does not tell how it would cut a super-packet, a capture needs packets that
	 * are sent one by one. urnic sends them so if URNIC_IMPAIR has any item. So give it a seed,
	 * which alone impairs no packet.
	 */
	ret_text[0] = '\0';
	if (settings->capture && !settings->is_impaired && !kernel_knows_super_packets())
		snprintf(ret_text, PAIR_IMPAIR_BYTES, "seed=1");
	if (settings->is_impaired)
		snprintf(ret_text, PAIR_IMPAIR_BYTES,
			"seed=%u,%sside=%s,server=%d,client=%d,report=%s", settings->plan.seed,
			settings->impairments, host ? "client" : "server",
			(int)pair->programs[0].pid, (int)pair->programs[host ? host : 1].pid,
			pair->programs[host].report_path);
}

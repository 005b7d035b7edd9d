/* SPDX-License-Identifier: BSD-2-Clause */
/* Impairments, as URNIC_IMPAIR and URNIC_FAULTS set them. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "impair/impair.h"
#include "nic/nic_internal.h"
#include "os/log.h"
#include "os/setting.h"

static struct impair impair;

/*
 * Map the report's file. Returns NULL if that is not possible, or if the file has another size. A
 * process that writes to a mapping behind the end of its file is ended by SIGBUS.
 */
static struct impair_report *report_map(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);
	void *report = MAP_FAILED;
	struct stat status;

	if (file >= 0 && !fstat(file, &status) &&
		status.st_size == (off_t)sizeof(struct impair_report))
		report = mmap(NULL, sizeof(struct impair_report), PROT_READ | PROT_WRITE,
			MAP_SHARED, file, 0);
	if (file >= 0)
		close(file);
	return report == MAP_FAILED ? NULL : report;
}

static void report_open(const char *path)
{
	static struct impair_report *report; /* the NIC of a forked child uses it, too */

	if (!path[0])
		return;
	if (!report)
		report = report_map(path);
	if (report)
		impair.report = report;
	else
		log_write(LOG_ERROR, "URNIC_IMPAIR: %.200s is no file for a report", path);
}

/* Log each `kill` fault that has no process group to kill. */
static void victims_check(const struct impair_plan *plan)
{
	for (uint32_t i = 0; i < plan->fault_count; i++) {
		const struct impair_fault *fault = &plan->faults[i];
		bool is_client = fault->victim == IMPAIR_SIDE_CLIENT;

		if (fault->verb == IMPAIR_VERB_kill && !(is_client ? plan->client : plan->server))
			log_write(LOG_ERROR,
				"kill in URNIC_FAULTS has no effect without %s=PID in URNIC_IMPAIR",
				is_client ? "client" : "server");
	}
}

void nic_impair_start(void)
{
	const char *settings = setting_path("URNIC_IMPAIR");
	const char *faults = setting_path("URNIC_FAULTS");
	struct impair_plan plan = {.loss = 0};
	char why[IMPAIR_WHY_BYTES];

	nic.impair = NULL;
	if (!settings && !faults)
		return;
	if (settings && !impair_plan_parse(&plan, settings, why)) {
		log_write(LOG_ERROR, "no impairments, because in URNIC_IMPAIR %s", why);
		return;
	}
	if (faults && !impair_faults_parse(&plan, faults, why)) {
		log_write(LOG_ERROR, "no impairments, because in URNIC_FAULTS %s", why);
		return;
	}
	victims_check(&plan);
	impair_init(&impair, &plan);
	report_open(plan.report);
	nic.impair = &impair;
}

void nic_impair_stream(void)
{
	static atomic_bool is_said;

	if (nic.impair && !atomic_exchange(&is_said, true))
		log_write(LOG_ERROR,
			"URNIC_IMPAIR and URNIC_FAULTS have no effect on iWARP, because the sender of a TCP stream cannot lose its packets");
}

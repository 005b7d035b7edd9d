/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of urnic stat. Each process has its devices with their queue pairs, then its lanes,
 * shared receive queues and connection manager. urnicd is last.
 */
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

#include "port/address.h"
#include "stat/stat.h"

static void print_counter(const char *name, uint64_t value, bool is_all)
{
	if (value > 0 || is_all)
		printf("      %-28s %20" PRIu64 "\n", name, value);
}

static void print_peer(const struct stat_qp *qp)
{
	char local[ADDRESS_TEXT_BYTES], remote[ADDRESS_TEXT_BYTES];

	if (gid_is_zero(&qp->remote))
		printf("not connected\n");
	else
		printf("%s -> %s QP 0x%06x\n", gid_to_text(&qp->local, qp->ifindex, local),
			gid_to_text(&qp->remote, qp->ifindex, remote), qp->dest_qpn);
}

static void print_qp(const struct stat_qp *qp, bool is_all)
{
	printf("    QP 0x%06x  %s  %s  ", qp->qpn, stat_qp_type_name(qp->type),
		qp_state_name(qp->state));
	print_peer(qp);
	if (qp->send_queue.is_known && qp->recv_queue.is_known)
		printf("      waiting: %u of %u sends, %u of %u receives\n", qp->send_queue.waiting,
			qp->send_queue.depth, qp->recv_queue.waiting, qp->recv_queue.depth);
	for (int i = 0; i < COUNTER_COUNT; i++)
		print_counter(counter_name((enum counter)i), qp->counters[i], is_all);
}

static void print_lane(const struct stat_lane *lane, bool is_all)
{
	printf("  lane %u: slot %u, %u queue pair%s%s\n", lane->index, lane->slot, lane->qp_count,
		lane->qp_count == 1 ? "" : "s",
		lane->is_complete ? "" : "; the list is not complete, it changed too fast");
	for (int i = 0; i < DROP_COUNT; i++)
		print_counter(drop_name((enum drop)i), lane->drops[i], is_all);
#define COUNTER(name, sentence) print_counter(#name, lane->port.name, is_all);
#include "port/udp/udp_counters.def"
#undef COUNTER
}

static void print_srq(const struct stat_srq *srq)
{
	printf("  SRQ 0x%06x", srq->number);
	if (srq->recv_queue.is_known)
		printf("  waiting: %u of %u receives", srq->recv_queue.waiting,
			srq->recv_queue.depth);
	printf("\n");
}

static void print_parameter(
	const char *name, uint32_t value, uint32_t preset_value, const char *unit, bool is_all)
{
	if (is_all || value != preset_value)
		printf("      %-28s %20u%s%s\n", name, value, unit[0] ? " " : "", unit);
}

/* `is_all`: print all parameters; false: only those that differ from the preset. */
static void print_cc(const struct cc_params *cc, bool is_all)
{
	struct cc_params preset;

	cc_params_init(&preset, cc->algorithm, cc->preset);
	printf("  congestion control: %s", cc_algorithm_name(cc->algorithm));
	if (cc->algorithm != CC_OFF)
		printf(", preset %s", cc_preset_name(cc->preset));
	printf("\n");
	if (cc->algorithm == CC_OFF)
		return;
#define PARAMETER(name, lowest, highest, sigcomm15, ms_ns3, cx4, unit, sentence) \
	print_parameter(#name, cc->name, preset.name, unit, is_all);
#include "congestion/parameter.def"
#undef PARAMETER
}

static void print_cm(const struct cm_counters *cm, bool is_all)
{
	if (cm->messages_received == 0 && cm->messages_sent == 0 && !is_all)
		return;
	printf("  connection manager\n");
#define COUNTER(name, sentence) print_counter(#name, cm->name, is_all);
#include "cm/cm_counter.def"
#undef COUNTER
}

/* Is `qp` the first queue pair of the process on the device of `qp`? */
static bool is_first_of_device(const struct stat_memory *memory, const struct stat_qp *qp)
{
	for (uint32_t i = 0; i < memory->lane_count; i++) {
		for (uint32_t j = 0; j < memory->lanes[i].qp_count; j++) {
			const struct stat_qp *other = &memory->lanes[i].qps[j];

			if (other == qp)
				return true;
			if (other->ifindex == qp->ifindex)
				return false;
		}
	}
	return true;
}

static void print_device(const struct stat_report *report, const struct stat_memory *memory,
	uint32_t ifindex, bool is_all)
{
	const struct device_facts *device =
		device_facts_find(report->devices, report->device_count, ifindex);
	char text[IF_NAMESIZE];

	printf("  device %s%s%s\n", stat_device_name(report, ifindex, text),
		device ? " on " : ", which is gone", device ? device->interface : "");
	for (uint32_t i = 0; i < memory->lane_count; i++) {
		for (uint32_t j = 0; j < memory->lanes[i].qp_count; j++) {
			if (memory->lanes[i].qps[j].ifindex == ifindex)
				print_qp(&memory->lanes[i].qps[j], is_all);
		}
	}
}

static void print_memory(
	const struct stat_report *report, const struct stat_memory *memory, bool is_all)
{
	for (uint32_t i = 0; i < memory->lane_count; i++) {
		for (uint32_t j = 0; j < memory->lanes[i].qp_count; j++) {
			const struct stat_qp *qp = &memory->lanes[i].qps[j];

			if (is_first_of_device(memory, qp))
				print_device(report, memory, qp->ifindex, is_all);
		}
	}
	for (uint32_t i = 0; i < memory->lane_count; i++)
		print_lane(&memory->lanes[i], is_all);
	for (uint32_t i = 0; i < memory->srq_count; i++)
		print_srq(&memory->srqs[i]);
	if (memory->has_cc)
		print_cc(&memory->cc, is_all);
	print_cm(&memory->cm, is_all);
}

static void print_process(
	const struct stat_report *report, const struct stat_process *process, bool is_all)
{
	const struct passwd *user = getpwuid(process->agent.uid);

	printf("%s, process %u, user ", process->agent.comm, process->agent.pid);
	if (user)
		printf("%s", user->pw_name);
	else
		printf("%u", process->agent.uid);
	if (process->error == 0)
		printf(", %u memory region%s\n", process->memory.mr_count,
			process->memory.mr_count == 1 ? "" : "s");
	else
		printf(": %s\n", stat_error_sentence(process->error));
	print_memory(report, &process->memory, is_all);
	printf("\n");
}

void stat_print_table(const struct stat_report *report, bool is_all)
{
	for (uint32_t i = 0; i < report->process_count; i++)
		print_process(report, &report->processes[i], is_all);
	printf("urnicd\n");
#define COUNTER(name, sentence) print_counter(#name, report->counters.name, is_all);
#include "agent/agent_counters.def"
#undef COUNTER
}

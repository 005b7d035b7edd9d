/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_target.h"

#include <stdio.h>
#include <stdlib.h>

#include "nvmf/common/codec/command.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/rdma/rdma.h"
#include "nvmf/target/tcp/tcp.h"

enum { PORTID = 1, ROUNDS_MAX = 100 };

struct nvmf_target {
	struct nvmf_world *world;
	const struct nvmf_plan *plan;
	struct nvmf_network *network;
	struct nvmf_disk *disk[NVMF_NAMESPACES_MAX];
	bool is_small[NVMF_NAMESPACES_MAX];
	struct nvmf_target_counts counts;
	/* NULL while it is down. */
	struct target *target;
	struct target_subsystem *subsystem;
	/* One of the two transports. */
	struct target_tcp *tcp;
	struct target_rdma *rdma;
	struct target_rdma_listener *listener;
};

static struct target_namespace *namespace_find(const struct nvmf_target *target, unsigned number)
{
	return target_namespace_find(target->subsystem, number + 1);
}

static void namespace_add(struct nvmf_target *target, unsigned number)
{
	struct target_namespace_settings settings = {.nsid = number + 1};
	struct target_namespace *ns;

	settings.backend = nvmf_disk_open(target->disk[number]);
	if (!settings.backend)
		return;
	nvmf_trace(target->world, "target: namespace %u is added", number + 1);
	if (target_namespace_add(target->subsystem, &settings, &ns))
		abort();
}

static void tcp_start(struct nvmf_target *target, struct target_port *port)
{
	struct target_tcp_settings settings = {
		.target = target->target,
		.port = port,
		.in_capsule_bytes = target->plan->in_capsule_bytes,
		.h2c_bytes_max = target->plan->h2c_bytes_max,
		.r2t_bytes_max = target->plan->r2t_bytes_max,
		.icreq_timeout_ns = 3 * NVMF_S,
	};
	char sentence[TARGET_TCP_SENTENCE_BYTES];

	nvmf_network_address(&settings.address);
	if (target_tcp_create(&settings, &target->tcp, sentence))
		abort();
}

static void rdma_start(struct nvmf_target *target, struct target_port *port)
{
	char sentence[TARGET_RDMA_SENTENCE_BYTES];
	struct sockaddr_storage address;

	nvmf_network_address(&address);
	target->world->running = NVMF_TARGET;
	if (target_rdma_create(target->target, target->world->loop[NVMF_TARGET], &target->rdma) ||
		target_rdma_listen(target->rdma, port, (struct sockaddr *)&address,
			target->plan->in_capsule_bytes, target->plan->queue_entries,
			&target->listener, sentence))
		abort();
}

void nvmf_target_start(struct nvmf_target *target)
{
	bool is_rdma = target->plan->is_rdma;
	struct target_subsystem_settings subsystem = {
		.nqn = "nqn.2026-01.org.urnic:sim", .allow_any_host = true};
	struct target_port_settings settings = {
		.portid = PORTID,
		.trtype = is_rdma ? DISCOVERY_RDMA : DISCOVERY_TCP,
		.adrfam = DISCOVERY_IPV4,
		.traddr = "10.0.0.3",
		.trsvcid = "4420",
		.queue_entries = target->plan->queue_entries,
	};
	struct target_port *port;

	nvmf_trace(target->world, "target: starts");
	if (target_create(target->world->loop[NVMF_TARGET], &target->target) ||
		target_subsystem_create(target->target, &subsystem, &target->subsystem) ||
		target_port_create(target->target, &settings, &port) ||
		target_port_link(port, target->subsystem))
		abort();
	if (is_rdma)
		rdma_start(target, port);
	else
		tcp_start(target, port);
	for (unsigned i = 0; i < target->plan->namespaces; i++)
		namespace_add(target, i);
}

bool nvmf_target_is_up(const struct nvmf_target *target)
{
	return target->target;
}

bool nvmf_target_is_idle(const struct nvmf_target *target)
{
	return target_is_idle(target->target) && nvmf_target_connection_count(target) == 0;
}

unsigned nvmf_target_connection_count(const struct nvmf_target *target)
{
	return target->plan->is_rdma ? target_rdma_queue_count(target->rdma)
				     : target_tcp_connection_count(target->tcp);
}

static void counts_add(struct nvmf_target *target)
{
	const struct target_counters *core = target_counters(target->target);

	target->counts.keep_alive_expired += core->keep_alive_expired;
	target->counts.injected += core->injected;
	target->counts.events += core->events;
	if (target->plan->is_rdma)
		return;
	target->counts.refused_pdus += target_tcp_counters(target->tcp)->refused_pdus;
	target->counts.data_digest_errors += target_tcp_counters(target->tcp)->data_digest_errors;
}

static void listener_stop(struct nvmf_target *target)
{
	if (target->plan->is_rdma)
		target_rdma_unlisten(target->listener);
	else
		target_tcp_stop(target->tcp);
}

/* All objects go, while nothing of them is heard. */
static void program_end(struct nvmf_target *target)
{
	listener_stop(target);
	target_disconnect_all(target->target);
	for (unsigned i = 0; i < ROUNDS_MAX && !nvmf_target_is_idle(target); i++)
		nvmf_world_run(target->world, NVMF_TARGET);
	NVMF_CHECK(target->world, nvmf_target_is_idle(target), "the target does not end");
	counts_add(target);
	target_tcp_destroy(target->tcp);
	target_rdma_destroy(target->rdma);
	target->tcp = NULL;
	target->rdma = NULL;
	target_destroy(target->target);
	target->target = NULL;
}

void nvmf_target_crash(struct nvmf_target *target, bool is_machine)
{
	nvmf_trace(target->world, "target: its %s ends", is_machine ? "machine" : "program");
	for (unsigned i = 0; i < target->plan->namespaces; i++)
		nvmf_disk_crash(target->disk[i]);
	nvmf_network_crash(target->network, NVMF_TARGET, !is_machine);
	nvmf_verbs_crash(NVMF_TARGET, !is_machine);
	program_end(target);
	for (unsigned i = 0; i < target->plan->namespaces && is_machine; i++)
		nvmf_disk_roll_back(target->disk[i]);
}

static void resized(void *context, int error, const char *sentence)
{
	struct nvmf_target *target = context;

	NVMF_CHECK(target->world, error == 0, "a namespace cannot be resized: %s", sentence);
}

static void namespace_resize(struct nvmf_target *target, unsigned number, bool is_small)
{
	struct target_namespace *ns = namespace_find(target, number);
	uint64_t blocks = target->plan->ns[number].blocks;

	target->is_small[number] = is_small;
	nvmf_trace(target->world, "target: namespace %u gets %s", number + 1,
		is_small ? "smaller" : "larger");
	if (is_small)
		blocks -= blocks / 4;
	target_namespace_resize(ns, blocks * target->plan->ns[number].block_bytes, resized, target);
}

void nvmf_target_change_namespace(struct nvmf_target *target)
{
	unsigned number = (unsigned)nvmf_below(target->world, target->plan->namespaces);
	struct target_namespace *ns = namespace_find(target, number);

	if (!ns) {
		namespace_add(target, number);
	} else if (nvmf_below(target->world, 2)) {
		nvmf_trace(target->world, "target: namespace %u is removed", number + 1);
		target_namespace_remove(ns);
	} else {
		namespace_resize(target, number, !target->is_small[number]);
	}
}

bool nvmf_target_restore_namespaces(struct nvmf_target *target)
{
	bool is_whole = true;

	for (unsigned i = 0; i < target->plan->namespaces; i++) {
		if (!namespace_find(target, i))
			namespace_add(target, i);
		if (!namespace_find(target, i))
			is_whole = false;
		else if (target->is_small[i])
			namespace_resize(target, i, false);
	}
	return is_whole;
}

void nvmf_target_inject(struct nvmf_target *target)
{
	static const uint8_t opcodes[] = {NVME_IO_READ, NVME_IO_WRITE, NVME_IO_FLUSH,
		NVME_IO_COMPARE, NVME_ADMIN_IDENTIFY, NVME_ADMIN_KEEP_ALIVE, NVME_OPCODE_FABRICS};
	static const uint16_t statuses[] = {NVME_INTERNAL, NVME_TRANSIENT_TRANSPORT,
		NVME_NAMESPACE_NOT_READY, NVME_INVALID_FIELD};
	struct nvmf_world *world = target->world;
	struct target_rule rule = {
		.fault = (enum target_fault)nvmf_below(world, 4),
		.delay_ns = nvmf_any_size(world, NVMF_MS, 5 * NVMF_S),
		.status = statuses[nvmf_below(world, 4)],
		.has_opcode = nvmf_below(world, 2),
		.opcode = opcodes[nvmf_below(world, 7)],
		.skip = nvmf_below(world, 20),
		.count = nvmf_between(world, 1, 8),
	};

	rule.is_admin = rule.opcode == NVME_ADMIN_IDENTIFY ||
		rule.opcode == NVME_ADMIN_KEEP_ALIVE || rule.opcode == NVME_OPCODE_FABRICS;
	nvmf_trace(world, "target: rule %d, opcode %02x (%d), status %03x, %llu ms", rule.fault,
		rule.opcode, rule.has_opcode, rule.status,
		(unsigned long long)(rule.delay_ns / NVMF_MS));
	if (target_inject(target->target, &rule))
		abort();
}

void nvmf_target_delay_writes(struct nvmf_target *target, unsigned host, uint64_t wait_ns)
{
	struct target_rule rule = {
		.fault = TARGET_FAULT_DELAY,
		.delay_ns = wait_ns + nvmf_any_size(target->world, NVMF_MS, 2 * NVMF_S),
		.has_opcode = true,
		.opcode = NVME_IO_WRITE,
		.count = nvmf_between(target->world, 1, 8),
	};

	snprintf(rule.hostnqn, sizeof(rule.hostnqn), NVMF_HOST_NQN, host);
	nvmf_trace(target->world, "target: delays %llu writes of host %u by %llu ms",
		(unsigned long long)rule.count, host,
		(unsigned long long)(rule.delay_ns / NVMF_MS));
	if (target_inject(target->target, &rule))
		abort();
}

void nvmf_target_inject_clear(struct nvmf_target *target)
{
	target_inject_clear(target->target);
}

void nvmf_target_disconnect_all(struct nvmf_target *target)
{
	nvmf_trace(target->world, "target: disconnects all");
	target_disconnect_all(target->target);
}

void nvmf_target_trouble(struct nvmf_target *target, unsigned fails_one_of, uint64_t delay_ns_max)
{
	for (unsigned i = 0; i < target->plan->namespaces; i++)
		nvmf_disk_trouble(target->disk[i], fails_one_of, delay_ns_max);
}

struct nvmf_target *nvmf_target_create(struct nvmf_world *world, const struct nvmf_plan *plan,
	struct nvmf_network *network, struct register_set *registers)
{
	struct nvmf_target *target = calloc(1, sizeof(*target));

	if (!target)
		abort();
	target->world = world;
	target->plan = plan;
	target->network = network;
	for (unsigned i = 0; i < plan->namespaces; i++) {
		struct nvmf_disk_settings settings = {
			.block_bytes = plan->ns[i].block_bytes,
			.blocks = plan->ns[i].blocks,
			.first_block = plan->ns[i].first_block,
			.registers = registers,
			.loses_writes = plan->loses_writes,
		};

		target->disk[i] = nvmf_disk_create(world, &settings);
	}
	return target;
}

void nvmf_target_destroy(struct nvmf_target *target, struct nvmf_target_counts *counts)
{
	if (target->target)
		program_end(target);
	for (unsigned i = 0; i < target->plan->namespaces; i++)
		nvmf_disk_destroy(target->disk[i]);
	counts->keep_alive_expired += target->counts.keep_alive_expired;
	counts->injected += target->counts.injected;
	counts->events += target->counts.events;
	counts->refused_pdus += target->counts.refused_pdus;
	counts->data_digest_errors += target->counts.data_digest_errors;
	free(target);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TARGET_H
#define URNIC_NVMF_TARGET_TARGET_H

/*
 * The target: ports, subsystems and namespaces, and what changes at run time.
 *
 * A host connects to a port and names a subsystem that is linked to it. A controller then
 * represents the host in the subsystem, and reads and writes its namespaces. Each target also has
 * the discovery subsystem, on each of its ports.
 *
 * All calls are on the thread of the target's loop. Strings in settings are copied. Objects may be
 * changed and removed while hosts are connected: their controllers end, or get an event.
 *
 * A port here has no socket: it is what hosts see of a listener. tcp.h and rdma.h make listeners.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/common/codec/discovery.h"
#include "nvmf/common/loop.h"
#include "nvmf/target/backend/backend.h"

struct target;
struct target_port;
struct target_subsystem;
struct target_namespace;

/* Connections beyond the limits that are admitted, so that Connect can report the refusal. */
enum { TARGET_SURPLUS_MAX = 8 };

struct target_counters {
#define TARGET_COUNTER(name, sentence) uint64_t name;
#include "nvmf/target/core/counter.def"
#undef TARGET_COUNTER
};

struct target_subsystem_settings {
	const char *nqn;
	bool allow_any_host;
	/* NULL or "": the target's own. At most 20, 40 and 8 characters. */
	const char *serial;
	const char *model;
	const char *firmware;
	/* 0: from 1 to 0xffef, and 128 I/O queues of one controller. */
	uint16_t cntlid_min;
	uint16_t cntlid_max;
	uint16_t qid_max;
};

struct target_namespace_settings {
	uint32_t nsid; /* from 1 to 0xfffffffe */
	struct backend *backend; /* the namespace's, which closes it in the end */
	/* All zero: none, and one that is made of NQN and NSID. */
	uint8_t nguid[16];
	uint8_t uuid[16];
};

struct target_port_settings {
	uint16_t portid;
	enum discovery_trtype trtype;
	enum discovery_adrfam adrfam;
	const char *traddr;
	const char *trsvcid;
	uint8_t rdma_prtype; /* DISCOVERY_PRTYPE_*; 0 with TCP */
	uint16_t queue_entries; /* of an I/O queue at most; 0: 128 */
};

/* A rule of error injection; it holds for commands that match all of its conditions. */
enum target_fault {
	TARGET_FAULT_DELAY,
	TARGET_FAULT_STATUS,
	TARGET_FAULT_DROP,
	TARGET_FAULT_DISCONNECT
};

struct target_rule {
	enum target_fault fault;
	uint64_t delay_ns; /* TARGET_FAULT_DELAY */
	uint16_t status; /* TARGET_FAULT_STATUS: type << 8 | code */
	bool has_opcode;
	bool is_admin; /* with `has_opcode`: which set the opcode is of */
	uint8_t opcode;
	uint32_t nsid; /* 0: any */
	char hostnqn[NVME_NQN_BYTES]; /* "": any */
	uint64_t skip; /* matching commands that pass before the rule holds */
	uint64_t count; /* matching commands that it hits; 0: all */
};

/* 0 or -errno. */
int target_create(struct loop *loop, struct target **ret_target);

/*
 * All listeners and connections have ended, and no command is pending: see target_is_idle(). Frees
 * ports, subsystems and namespaces. NULL is fine.
 */
void target_destroy(struct target *target);

/* Begin to close all connections. */
void target_disconnect_all(struct target *target);
/* No connection and no command is left. */
bool target_is_idle(const struct target *target);

/* Gets sentences for the operator, without a full stop; at most one in a minute. NULL: none. */
void target_set_report(
	struct target *target, void (*report)(void *context, const char *sentence), void *context);

/*
 * The connections of all hosts. At first 1,024, or half of the descriptors that the process may
 * have without some 64 of its own.
 */
void target_set_connections_max(struct target *target, uint32_t connections_max);

struct loop *target_loop(const struct target *target);
const struct target_counters *target_counters(const struct target *target);

/* 0, -EINVAL, -EEXIST or -ENOMEM. */
int target_subsystem_create(struct target *target, const struct target_subsystem_settings *settings,
	struct target_subsystem **ret_subsystem);
/* Disconnects its hosts, and removes its namespaces and links to ports. */
void target_subsystem_destroy(struct target_subsystem *subsystem);
/* NULL: there is none. */
struct target_subsystem *target_subsystem_find(struct target *target, const char *nqn);

/* Hosts that may connect; disallowing one, or no longer any, disconnects hosts. 0 or -errno. */
int target_subsystem_allow(struct target_subsystem *subsystem, const char *hostnqn);
void target_subsystem_disallow(struct target_subsystem *subsystem, const char *hostnqn);
void target_subsystem_allow_any(struct target_subsystem *subsystem, bool allow_any_host);

/* On failure the backend stays the caller's. 0, -EINVAL, -EEXIST or -ENOMEM. */
int target_namespace_add(struct target_subsystem *subsystem,
	const struct target_namespace_settings *settings, struct target_namespace **ret_ns);
struct target_namespace *target_namespace_find(struct target_subsystem *subsystem, uint32_t nsid);
/* New commands fail; the backend is closed after the last pending command. */
void target_namespace_remove(struct target_namespace *ns);
/*
 * Resize the backend once its pending commands are done; commands wait meanwhile. Hosts get an
 * event.
 * `done` is called once, perhaps at once: 0 or -errno with a sentence.
 */
void target_namespace_resize(struct target_namespace *ns, uint64_t size_bytes,
	void (*done)(void *context, int error, const char *sentence), void *context);

int target_port_create(struct target *target, const struct target_port_settings *settings,
	struct target_port **ret_port);
/* Its listener is gone. Disconnects its hosts. */
void target_port_destroy(struct target_port *port);
struct target_port *target_port_find(struct target *target, uint16_t portid);
int target_port_link(struct target_port *port, struct target_subsystem *subsystem);
void target_port_unlink(struct target_port *port, struct target_subsystem *subsystem);
/* An entry of the discovery log page that names another discovery service. */
int target_port_refer(struct target_port *port, const struct discovery_entry *entry);
void target_port_clear_referrals(struct target_port *port);

/* Append a rule; the first one that matches holds. 0 or -ENOMEM. */
int target_inject(struct target *target, const struct target_rule *rule);
/* Remove all rules. Commands that they have delayed go on; dropped ones stay dropped. */
void target_inject_clear(struct target *target);

#endif

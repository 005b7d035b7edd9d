/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TARGET_H
#define URNIC_NVMF_TARGET_TARGET_H

/*
 * The target: its ports, subsystems and namespaces, and how to change them at run time.
 *
 * A host connects to a port and names a subsystem that is linked to that port. The target creates a
 * controller for the association of the host with the subsystem. Each port also has the discovery
 * subsystem.
 *
 * All calls are on the thread of the target's loop. The target copies strings in settings. The
 * caller may change and remove objects while hosts are connected: the controllers of the hosts then
 * end, or send an event.
 *
 * A port has no socket, only the address that hosts see. tcp.h and rdma.h create listeners.
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

/* How many connections beyond the limits are admitted, so that Connect can report the refusal. */
enum { TARGET_SURPLUS_MAX = 8 };

struct target_counters {
#define TARGET_COUNTER(name, sentence) uint64_t name;
#include "nvmf/target/core/counter.def"
#undef TARGET_COUNTER
};

struct target_subsystem_settings {
	const char *nqn;
	bool allow_any_host;
	/* At most 20, 40 and 8 characters. NULL or "": the default of the target. */
	const char *serial;
	const char *model;
	const char *firmware;
	/*
	 * The range of controller IDs, and the most I/O queues of a controller. The value 0 stands
	 * for 1, 0xffef and 128, in this order.
	 */
	uint16_t cntlid_min;
	uint16_t cntlid_max;
	uint16_t qid_max;
};

struct target_namespace_settings {
	uint32_t nsid; /* from 1 to 0xfffffffe */
	struct backend *backend; /* owned by the namespace, which closes it at its end */
	/*
	 * An NGUID of zeroes: none. A UUID of zeroes: one that the target derives from NQN and
	 * NSID.
	 */
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
	uint16_t queue_entries; /* the most entries of an I/O queue; 0: 128 */
};

/* What a rule of error injection does to a command that it hits. */
enum target_fault {
	TARGET_FAULT_DELAY,
	TARGET_FAULT_STATUS,
	TARGET_FAULT_DROP,
	TARGET_FAULT_DISCONNECT
};

/* A rule of error injection. It hits commands that match all of its conditions. */
struct target_rule {
	enum target_fault fault;
	uint64_t delay_ns; /* TARGET_FAULT_DELAY: how long the command waits */
	uint16_t status; /* TARGET_FAULT_STATUS: type << 8 | code */
	bool has_opcode;
	bool is_admin; /* `opcode` is an Admin command; false: an I/O command */
	uint8_t opcode;
	uint32_t nsid; /* 0: any namespace */
	char hostnqn[NVME_NQN_BYTES]; /* "": any host */
	uint64_t skip; /* how many matching commands the rule lets pass first */
	uint64_t count; /* how many matching commands the rule hits after those; 0: all */
};

/* Returns 0 or -errno. */
int target_create(struct loop *loop, struct target **ret_target);

/*
 * Free the target with its ports, subsystems and namespaces. The caller has closed all listeners,
 * and target_is_idle() is true. `target` may be NULL.
 */
void target_destroy(struct target *target);

/* Begin to close all connections, which then end on the loop. */
void target_disconnect_all(struct target *target);
/* Whether no connection is open and no command is pending. */
bool target_is_idle(const struct target *target);

/*
 * Set the function that gets sentences for the operator, without a full stop. The target reports
 * refused connections at most once in a minute. NULL: no reports.
 */
void target_set_report(
	struct target *target, void (*report)(void *context, const char *sentence), void *context);

/*
 * Limit the connections of all hosts together. The initial limit is 1,024, or fewer if the process
 * may have few descriptors: each connection takes up to two of them, and 64 are for other uses.
 */
void target_set_connections_max(struct target *target, uint32_t connections_max);

struct loop *target_loop(const struct target *target);
const struct target_counters *target_counters(const struct target *target);

/* Returns 0, -EINVAL, -EEXIST or -ENOMEM. */
int target_subsystem_create(struct target *target, const struct target_subsystem_settings *settings,
	struct target_subsystem **ret_subsystem);
/* Disconnect the hosts of a subsystem, remove its namespaces and links to ports, and free it. */
void target_subsystem_destroy(struct target_subsystem *subsystem);
/* Returns NULL if there is no such subsystem. */
struct target_subsystem *target_subsystem_find(struct target *target, const char *nqn);

/*
 * Change which hosts may connect. Hosts that may no longer connect are disconnected.
 * target_subsystem_allow() returns 0 or -errno.
 */
int target_subsystem_allow(struct target_subsystem *subsystem, const char *hostnqn);
void target_subsystem_disallow(struct target_subsystem *subsystem, const char *hostnqn);
void target_subsystem_allow_any(struct target_subsystem *subsystem, bool allow_any_host);

/*
 * Add a namespace. Returns 0, -EINVAL, -EEXIST, -ENOSPC or -ENOMEM; on failure the caller still
 * owns the backend.
 */
int target_namespace_add(struct target_subsystem *subsystem,
	const struct target_namespace_settings *settings, struct target_namespace **ret_ns);
struct target_namespace *target_namespace_find(struct target_subsystem *subsystem, uint32_t nsid);
/* Remove a namespace. New commands fail; the backend is closed after the last pending command. */
void target_namespace_remove(struct target_namespace *ns);
/*
 * Resize the backend once its pending commands are done. Further commands wait until it is resized.
 * Hosts get an event. `done` is called once, perhaps within this call, with 0 or with -errno and a
 * sentence.
 */
void target_namespace_resize(struct target_namespace *ns, uint64_t size_bytes,
	void (*done)(void *context, int error, const char *sentence), void *context);

int target_port_create(struct target *target, const struct target_port_settings *settings,
	struct target_port **ret_port);
/* Disconnect the hosts of a port and free it. The caller has closed its listener. */
void target_port_destroy(struct target_port *port);
struct target_port *target_port_find(struct target *target, uint16_t portid);
int target_port_link(struct target_port *port, struct target_subsystem *subsystem);
void target_port_unlink(struct target_port *port, struct target_subsystem *subsystem);
/* Add an entry to the discovery log page that refers to another discovery service. */
int target_port_refer(struct target_port *port, const struct discovery_entry *entry);
void target_port_clear_referrals(struct target_port *port);

/* Append a rule. The first rule that matches a command hits it. Returns 0 or -ENOMEM. */
int target_inject(struct target *target, const struct target_rule *rule);
/* Remove all rules. Commands that were delayed still continue; dropped ones stay dropped. */
void target_inject_clear(struct target *target);

#endif

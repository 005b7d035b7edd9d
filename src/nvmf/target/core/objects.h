/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_OBJECTS_H
#define URNIC_NVMF_TARGET_OBJECTS_H

/*
 * The objects of the target, for the files of its core only.
 *
 * The target owns ports and subsystems. A subsystem owns controllers and namespaces. A command
 * references its namespace, so that a removed namespace is freed only after its last command is
 * done. A queue points to its controller while it is connected. A `struct peer_host` is a host with
 * one NQN; it exists while a controller references it or it has lost commands (peer_host.c).
 */

#include "nvmf/common/codec/identify.h"
#include "nvmf/common/codec/log_page.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/core/transport.h"

enum {
	TARGET_AER_MAX = 4,
	TARGET_ERRORS_MAX = 16, /* entries of log page 01h */
	TARGET_CHANGED_MAX = 1024, /* namespace identifiers in log page 04h */
	TARGET_RINGS_ENTRIES = 768,
	TARGET_CNTLID_LAST = 0xffef,
	TARGET_QIDS_DEFAULT = 128,
	TARGET_QIDS_MAX = 1024,
	TARGET_DISCOVERY_KATO_MS = 120000,
	TARGET_KAS = 1, /* the granularity of the keep alive timeout, in units of 100 ms */
	TARGET_CONNECT_SECONDS = 10,
	TARGET_CID_MASK = 255, /* these bits of a command identifier are its index in cid_counts */
	TARGET_STOPPED_MS = 120000, /* how long a host may be silent after a reset or shutdown */
	TARGET_ANA_GROUP = 1,
	TARGET_RANGES_MAX = 256,
	TARGET_SCRATCH_BYTES = 128 << 10, /* bytes in one step of a Verify or Copy */
	TARGET_ZERO_BYTES = 16 << 20, /* bytes in a step of Write Zeroes or Dataset Management */
	TARGET_SCRATCHES_MAX = 4, /* how many Verify and Copy commands of a queue run at once */
	/* The limits of a Copy: blocks in one range, blocks in all ranges, ranges. */
	TARGET_COPY_RANGE_BLOCKS = 8192,
	TARGET_COPY_BLOCKS = 65536,
	TARGET_COPY_RANGES = 128,
	TARGET_COPY_RANGE_BYTES = 32,
};

/* Why the target's user gets a sentence. */
enum target_report { TARGET_REPORT_CONNECTIONS, TARGET_REPORT_NO_DATA, TARGET_REPORTS };

struct target {
	struct loop *loop;
	struct backend_ring *ring;
	struct loop_watch ring_watch;
	struct loop_work flush; /* passes submitted requests of backends to the kernel */
	struct loop_timer ring_retry; /* passes the requests again that the kernel has refused */
	struct list ports;
	struct list subsystems; /* in the order of creation */
	struct target_subsystem *discovery;
	struct list opening; /* queues before Connect */
	struct list peer_hosts;
	struct list connections; /* queues, until connection_check() removes them */
	uint32_t connections_max;
	void (*report)(void *context, const char *sentence);
	void *report_context;
	/* When `report` was last called for each reason; 0: never. */
	uint64_t reported_ns[TARGET_REPORTS];
	struct list dying; /* controllers whose queues are closing, unlinked from their subsystem */
	struct list rules;
	uint64_t genctr;
	uint32_t commands; /* how many commands the core has */
	uint32_t queues; /* how many queues are not closed */
	uint32_t flushes; /* how many subsystems are being flushed for a shutdown */
	struct target_counters counters;
};

struct target_host {
	struct list node;
	char nqn[NVME_NQN_BYTES];
};

struct target_subsystem {
	struct target *target;
	struct list node;
	bool is_discovery;
	bool allow_any_host;
	char nqn[NVME_NQN_BYTES];
	char serial[21];
	char model[41];
	char firmware[9];
	uint16_t cntlid_min, cntlid_max, cntlid_next;
	uint16_t qid_max;
	struct list hosts;
	struct list controllers;
	struct target_namespace **namespaces; /* sorted by nsid */
	size_t namespace_count;
	struct subsystem_flush *flush; /* the present round of flushes for a shutdown, or NULL */
	uint64_t flush_round; /* the number of the last round that has begun */
	bool is_flush_wanted; /* another round follows */
};

struct target_namespace {
	struct target_subsystem *subsystem; /* NULL after its removal */
	struct target *target;
	struct backend *backend;
	uint32_t nsid;
	uint8_t block_shift;
	uint64_t blocks;
	uint8_t nguid[16], uuid[16];
	uint32_t references; /* held by the subsystem, by commands, and by jobs */
	/*
	 * The number of commands that the backend is executing. An exclusive job (a resize or a
	 * fused pair) waits until there is none. Meanwhile new commands are parked. They run after
	 * that job, and before the next job.
	 */
	uint32_t working;
	struct list parked;
	struct list jobs; /* struct target_job that wait, the next one first */
	bool is_exclusive; /* a job runs, which `jobs` no longer has */
	bool is_resuming; /* the parked commands have their turn; no job starts */
};

struct target_job {
	struct list node;
	void (*run)(struct target_job *job); /* the job ends by namespace_job_done() */
};

struct target_link {
	struct list node;
	struct target_subsystem *subsystem;
};

struct target_referral {
	struct list node;
	struct discovery_entry entry;
};

struct target_port {
	struct target *target;
	struct list node;
	struct discovery_entry address; /* the part that is equal in all log entries of the port */
	uint16_t queue_entries;
	struct list links;
	struct list referrals;
};

struct target_controller {
	struct target *target;
	struct target_subsystem *subsystem; /* NULL after controller_end() */
	struct target_port *port;
	const struct target_transport *transport;
	struct list node;
	bool is_discovery;
	uint16_t cntlid;
	char hostnqn[NVME_NQN_BYTES];
	uint8_t hostid[16];
	uint32_t in_capsule_bytes;
	uint16_t qid_max;
	uint16_t qids_granted; /* I/O queues that feature 07h has granted; at first `qid_max` */
	struct peer_host *host; /* the controller holds a reference */
	struct target_queue *admin;
	struct list queues; /* Admin and I/O */
	uint32_t cc, csts;
	bool is_resetting; /* CC.EN is 0, but CSTS.RDY is 1 until lost commands have ended */
	bool is_stopped; /* by a reset or shutdown, until the host enables it again */
	uint64_t flush_round; /* the round that a shutdown waits for; 0: none */
	uint32_t kato_ms;
	uint32_t connect_kato_ms; /* what Connect has asked for: the default of feature 0Fh */
	struct loop_timer keep_alive;
	uint64_t heard_ns;
	/*
	 * Asynchronous events. `events` has the waiting Asynchronous Event Requests. The masks have
	 * EVENT_MASK_* bits. event_wanted: the host has enabled the event. event_pending: the event
	 * has happened, and is not reported yet. event_told: the event is reported, but the host
	 * has not read its log page.
	 */
	struct list events;
	uint8_t event_count;
	uint32_t event_wanted, event_pending, event_told;
	uint32_t changed[TARGET_CHANGED_MAX];
	uint32_t changed_count; /* of `changed`; TARGET_CHANGED_MAX + 1: more than fit */
	struct log_error errors[TARGET_ERRORS_MAX];
	uint64_t error_count;
	uint64_t reads, writes, read_blocks, written_blocks; /* blocks of 512 bytes */
	uint8_t write_cache; /* feature 06h: 1 if the volatile write cache is enabled */
};

/* --- queue.c --- */

/* End a command with `status`, and release its reference to the namespace. */
void command_finish(struct target_command *command, uint16_t status);
void command_finish_result(struct target_command *command, uint64_t result);
/*
 * Check that the command's data has this direction and length. If so, `ready` is called when the
 * data has arrived or its buffer is ready, or at once if `bytes` is 0. Otherwise the command ends
 * with an error.
 */
void command_expect(struct target_command *command, enum target_direction direction, uint64_t bytes,
	void (*ready)(struct target_command *command));
void queue_close(struct target_queue *queue);
/*
 * End a command that waits in the core. Returns false, without effect, if the command's stage is
 * TARGET_STAGE_WORKING.
 */
bool command_abort(struct target_command *command);

/* --- scratch.c --- */
/*
 * Allocate the scratch buffer of a Verify or Copy, of TARGET_SCRATCH_BYTES and room for the ranges
 * of a Copy; then call `run`. The command is parked while its queue has TARGET_SCRATCHES_MAX
 * buffers. If there is no memory, the command ends.
 */
void scratch_take(struct target_command *command, void (*run)(struct target_command *command));
/* Free the scratch buffer of a command, if it has one. */
void scratch_give(struct target_command *command);
void scratch_open(struct target_queue *queue);
/* The queue is closed, and its parked commands have ended. */
void scratch_close(struct target_queue *queue);

/* --- namespace.c --- */
struct target_namespace *namespace_find(const struct target_subsystem *subsystem, uint32_t nsid);
void namespace_unreference(struct target_namespace *ns);
/*
 * Begin the command's work in its namespace and call `run`. While an exclusive job runs or waits,
 * the command is parked instead, and does this later. If its queue is lost, the command ends.
 */
void namespace_run(struct target_command *command, void (*run)(struct target_command *command));
void namespace_end(struct target_namespace *ns, struct target_command *command);
/*
 * Begin work in the namespace that is no command. Returns false, and parks nothing, while an
 * exclusive job runs or waits.
 */
bool namespace_work_begin(struct target_namespace *ns);
void namespace_work_end(struct target_namespace *ns);
void namespace_exclude(struct target_namespace *ns, struct target_job *job);
/* End the job. The caller has a reference, because other jobs and commands run in this call. */
void namespace_job_done(struct target_namespace *ns);

/* --- controller.c --- */
struct target_controller *controller_create(struct target_queue *admin,
	struct target_subsystem *subsystem, const struct nvme_connect_data *data, uint32_t kato_ms);
/* Close all queues of the controller, which is freed when the last queue is closed. */
void controller_end(struct target_controller *controller);
void controller_queue_closed(struct target_controller *controller, struct target_queue *queue);
struct target_queue *controller_queue(struct target_controller *controller, uint16_t qid);
struct target_controller *subsystem_controller(struct target_subsystem *subsystem, uint16_t cntlid);
void controller_set_kato(struct target_controller *controller, uint32_t kato_ms);
uint64_t controller_capabilities(const struct target_controller *controller);
/* Write CC. Returns false if the host may not make this change of CC now. */
bool controller_configure(struct target_controller *controller, uint32_t cc);
/*
 * Complete a pending reset or shutdown, unless a backend still executes a lost command. A
 * shutdown also waits for its flushes.
 */
void controller_settle(struct target_controller *controller);
/* Whether the controller takes commands: it is enabled, and neither in a reset nor shut down. */
bool controller_is_ready(const struct target_controller *controller);
void controller_log_error(
	struct target_controller *controller, const struct target_command *command);
/* An event has happened; `mask` is its EVENT_MASK_*. */
void controller_event(struct target_controller *controller, uint32_t mask);
void controller_event_clear(struct target_controller *controller, uint32_t mask);
void controller_wait_event(struct target_controller *controller, struct target_command *command);
void controller_namespace_changed(struct target_controller *controller, uint32_t nsid);

/* --- shutdown.c --- */
/*
 * Flush all namespaces of the subsystem. At the end controller->flush_round is 0, CSTS.CFS says
 * whether a flush has failed, and controller_settle() is called.
 */
void shutdown_flush(struct target_controller *controller);
/* The subsystem ends: let its flushes go on without it. */
void shutdown_flush_leave(struct target_subsystem *subsystem);

/* --- admission.c --- */
/* How many connections the host of `queue` may still open. */
uint32_t connections_left(const struct target_queue *queue);
void connection_opened(struct target_queue *queue);
/* If the queue is closed and has no pending command, no longer count its connection. */
void connection_check(struct target_queue *queue);
/* The initial limit, which target_set_connections_max() describes. */
uint32_t connections_default(void);

/* --- peer_host.c --- */
/* Get the peer host with this NQN, with a reference for a controller. NULL: no memory. */
struct peer_host *peer_host_reference(struct target *target, const char *nqn);
void peer_host_unreference(struct peer_host *host);
/*
 * The host begins a new association, so it may have given up its pending commands: they are lost.
 */
void peer_host_lose_all(struct peer_host *host);
/* Whether a backend is executing a lost command of the host. */
bool peer_host_has_lost(const struct peer_host *host);
/*
 * Park the I/O command if a lost command of its host to the same namespace comes before it. Returns
 * whether the command was parked; then its `run` is called later.
 */
bool peer_host_parks(struct peer_host *host, struct target_command *command);
bool queue_is_lost(const struct target_queue *queue); /* whether it is closing or closed */
/*
 * The queue is lost, and so are its commands that a backend executes. Its other commands will not
 * begin. The core calls this once for each queue.
 */
void queue_lose(struct target_queue *queue);
/* A command begins or ends its work in a backend. For a fused pair, the Compare stands for both. */
void command_work_begin(struct target_command *command);
void command_work_end(struct target_command *command);
/* The command ends, or will not begin. If it is lost, commands that wait for it run. */
void command_over(struct target_command *command);

/* --- target.c, port.c --- */
bool subsystem_allows(const struct target_subsystem *subsystem, const char *hostnqn);
bool port_has(const struct target_port *port, const struct target_subsystem *subsystem);
/* The discovery log page has changed: count that in genctr, and report an event to the hosts. */
void discovery_changed(struct target *target);
/*
 * Make the discovery log page for a host that is connected to `port`. The caller frees it. NULL: no
 * memory.
 */
uint8_t *discovery_page(const struct target_port *port, const char *hostnqn, size_t *ret_bytes);

/* --- inject.c --- */
/*
 * Returns true if a rule has hit the command, and has ended or delayed it. The `run` of a command
 * is called when its delay is over.
 */
bool inject_command(struct target_command *command);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_OBJECTS_H
#define URNIC_NVMF_TARGET_OBJECTS_H

/*
 * The objects of the target, for the files of its core only.
 *
 * References: the target owns ports and subsystems; a subsystem owns controllers and namespaces.
 * A command references its namespace, so that a removed one lives until its last command is done.
 * A queue refers to its controller while it is connected. Controllers, and commands at work in
 * backends, keep the peer host: what the target knows of a host by its NQN.
 */

#include "nvmf/common/codec/identify.h"
#include "nvmf/common/codec/log_page.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/core/transport.h"

enum {
	TARGET_AER_MAX = 4,
	TARGET_ERRORS_MAX = 16, /* entries of log page 01h */
	TARGET_CHANGED_MAX = 1024, /* identifiers in log page 04h */
	TARGET_RINGS_ENTRIES = 256,
	TARGET_CNTLID_LAST = 0xffef,
	TARGET_QIDS_DEFAULT = 128,
	TARGET_QIDS_MAX = 1024,
	TARGET_DISCOVERY_KATO_MS = 120000,
	TARGET_CONNECT_SECONDS = 10,
	TARGET_ANA_GROUP = 1,
	TARGET_RANGES_MAX = 256,
	/* A step of Verify and Copy; of Write Zeroes and Dataset Management. */
	TARGET_SCRATCH_BYTES = 128 << 10,
	TARGET_ZERO_BYTES = 16 << 20,
	/* Copy: blocks of one range, of all, and ranges. */
	TARGET_COPY_RANGE_BLOCKS = 8192,
	TARGET_COPY_BLOCKS = 65536,
	TARGET_COPY_RANGES = 128,
};

struct target {
	struct loop *loop;
	struct backend_ring *ring;
	struct loop_watch ring_watch;
	struct loop_work flush; /* hands what was submitted to the kernel */
	struct loop_timer ring_retry; /* the kernel did not take it */
	struct list ports;
	struct list subsystems; /* by creation */
	struct target_subsystem *discovery;
	struct list opening; /* queues before Connect */
	struct list peer_hosts;
	struct list connections; /* queues */
	uint32_t connections_max;
	void (*report)(void *context, const char *sentence);
	void *report_context;
	uint64_t reported_ns; /* 0: never */
	struct list dying; /* controllers whose queues are closing, unlinked from their subsystem */
	struct list rules;
	uint64_t genctr;
	uint32_t commands; /* that the core has */
	uint32_t queues; /* that are not closed */
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
	struct target_namespace **namespaces; /* by nsid */
	size_t namespace_count;
};

struct target_namespace {
	struct target_subsystem *subsystem; /* NULL after its removal */
	struct target *target;
	struct backend *backend;
	uint32_t nsid;
	uint8_t block_shift;
	uint64_t blocks;
	uint8_t nguid[16], uuid[16];
	uint32_t references; /* of commands */
	/*
	 * The number of commands that the backend is executing. An exclusive job (a resize, a fused
	 * pair) waits until there are none, and meanwhile new ones are parked.
	 */
	uint32_t working;
	struct list parked;
	struct list jobs; /* of target_job, the first one is next */
	bool is_exclusive; /* the first job runs */
};

struct target_job {
	struct list node;
	void (*run)(struct target_job *job); /* ends by namespace_job_done() */
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
	struct discovery_entry address; /* as in the discovery log page */
	uint16_t queue_entries;
	struct list links;
	struct list referrals;
};

struct target_controller {
	struct target *target;
	struct target_subsystem *subsystem; /* NULL while it dies */
	struct target_port *port;
	const struct target_transport *transport;
	struct list node;
	bool is_discovery;
	uint16_t cntlid;
	char hostnqn[NVME_NQN_BYTES];
	uint8_t hostid[16];
	uint32_t in_capsule_bytes;
	uint16_t qid_max;
	uint16_t qids_granted; /* by feature 07h; at first `qid_max` */
	struct peer_host *host; /* referenced */
	struct target_queue *admin;
	struct list queues; /* Admin and I/O */
	uint32_t cc, csts;
	bool is_resetting; /* RDY is still set, because lost commands have not ended */
	uint32_t kato_ms;
	struct loop_timer keep_alive;
	uint64_t heard_ns;
	/* Asynchronous events: requests, and what is wanted, has happened, and was reported. */
	struct list events;
	uint8_t event_count;
	uint32_t event_wanted, event_pending, event_told;
	uint32_t changed[TARGET_CHANGED_MAX];
	uint32_t changed_count; /* TARGET_CHANGED_MAX + 1: too many */
	struct log_error errors[TARGET_ERRORS_MAX];
	uint64_t error_count;
	uint64_t reads, writes, read_blocks, written_blocks; /* of 512 bytes */
	uint8_t write_cache; /* feature 06h */
};

/* --- dispatch.c: the way of a command --- */

/* End a command with a status; its namespace is released. */
void command_finish(struct target_command *command, uint16_t status);
void command_finish_result(struct target_command *command, uint64_t result);
/*
 * Check that the command's data has this direction and length. If so, call `ready` when the data is
 * there, or at once if `bytes` is 0. Otherwise end the command with an error.
 */
void command_expect(struct target_command *command, enum target_direction direction, uint64_t bytes,
	void (*ready)(struct target_command *command));
/* Start a command after error injection. */
void command_dispatch(struct target_command *command);
void queue_close(struct target_queue *queue);
/* End a command that waits in the core. False: it is at work, and not ended. */
bool command_abort(struct target_command *command);

/* --- handlers --- */
void fabrics_command(struct target_command *command);
void admin_command(struct target_command *command);
void admin_identify(struct target_command *command);
void admin_log_page(struct target_command *command);
void admin_set_features(struct target_command *command);
void admin_get_features(struct target_command *command);
void io_command(struct target_command *command);
void io_dataset_management(struct target_command *command);
void io_copy(struct target_command *command);
void io_write_zeroes(struct target_command *command);
void io_verify(struct target_command *command);
void io_fused(struct target_command *compare, struct target_command *write);
/* The data of one half has arrived, or not. */
void io_fused_ready(struct target_command *command, uint16_t status);

/* --- io.c, for io_ranges.c --- */
/* Submit command->request for these bytes; `done` is called with its status. */
void io_submit(struct target_command *command, enum backend_operation operation, uint64_t offset,
	uint64_t bytes, uint8_t *data, bool is_fua,
	void (*done)(struct backend_request *request, enum backend_status status));
/* Run `run` when no exclusive job has the namespace. io_done() ends what it began. */
void io_run(struct target_command *command, void (*run)(struct target_command *command));
/* Run `run`, the next step, after the other hosts had their turn. */
void io_continue(struct target_command *command, void (*run)(struct target_command *command));
void io_done(struct target_command *command, uint16_t status);
/* FUA is set, or the host has turned the volatile write cache off: durable when it is done. */
bool io_is_durable(const struct target_command *command);
/* The blocks are in the namespace. */
bool io_is_inside(const struct target_namespace *ns, uint64_t slba, uint64_t blocks);

/* --- namespace.c --- */
struct target_namespace *namespace_find(const struct target_subsystem *subsystem, uint32_t nsid);
void namespace_unreference(struct target_namespace *ns);
/* False: the namespace is exclusive, and the command is parked and will run later. */
bool namespace_begin(struct target_namespace *ns, struct target_command *command);
void namespace_end(struct target_namespace *ns, struct target_command *command);
void namespace_exclude(struct target_namespace *ns, struct target_job *job);
void namespace_job_done(struct target_namespace *ns);

/* --- controller.c --- */
struct target_controller *controller_create(struct target_queue *admin,
	struct target_subsystem *subsystem, const struct nvme_connect_data *data, uint32_t kato_ms);
/* Close all queues. The controller is freed when the last one is closed. */
void controller_end(struct target_controller *controller);
void controller_queue_closed(struct target_controller *controller, struct target_queue *queue);
struct target_queue *controller_queue(struct target_controller *controller, uint16_t qid);
struct target_controller *subsystem_controller(struct target_subsystem *subsystem, uint16_t cntlid);
void controller_set_kato(struct target_controller *controller, uint32_t kato_ms);
uint64_t controller_capabilities(const struct target_controller *controller);
/* Write CC. False: the transition is not allowed. */
bool controller_configure(struct target_controller *controller, uint32_t cc);
/* A reset or shutdown is complete if the host has lost no command that is still at work. */
void controller_settle(struct target_controller *controller);
/* Enabled, and neither in a reset nor shut down: it takes commands. */
bool controller_is_ready(const struct target_controller *controller);
void controller_log_error(
	struct target_controller *controller, const struct target_command *command);
/* An event: `kind` is EVENT_*, `mask` its EVENT_MASK_*. */
void controller_event(struct target_controller *controller, uint32_t mask);
void controller_event_clear(struct target_controller *controller, uint32_t mask);
void controller_wait_event(struct target_controller *controller, struct target_command *command);
void controller_namespace_changed(struct target_controller *controller, uint32_t nsid);

/* --- admission.c --- */
/* The connections that the host of `queue` may still open. */
uint32_t connections_left(const struct target_queue *queue);
void connection_opened(struct target_queue *queue);
/* Forget the queue if it is closed and no command of it is pending. */
void connection_check(struct target_queue *queue);
/* What target_set_connections_max() says of the beginning. */
uint32_t connections_default(void);

/* --- peer_host.c --- */
/* The host with this NQN, for a controller; NULL: no memory. */
struct peer_host *peer_host_reference(struct target *target, const char *nqn);
void peer_host_unreference(struct peer_host *host);
/* The host begins a new association: it may have given up its commands. */
void peer_host_lose_all(struct peer_host *host);
/* The host has lost a connection with a command that a backend is executing. */
bool peer_host_has_lost(const struct peer_host *host);
/* True: the host has lost a command to the namespace, and this I/O command is dispatched later. */
bool peer_host_parks(struct peer_host *host, struct target_command *command);
bool queue_is_lost(const struct target_queue *queue); /* it closes, or is closed */
/* The queue is lost, and so is what it has at work. The rest will not begin. Called once. */
void queue_lose(struct target_queue *queue);
/* A command begins and ends to work in a backend. A fused pair does so by its comparison. */
void command_work_begin(struct target_command *command);
void command_work_end(struct target_command *command);
/* The command ends, or will not begin: commands that wait for it as a lost one go on. */
void command_over(struct target_command *command);

/* --- target.c, port.c --- */
bool subsystem_allows(const struct target_subsystem *subsystem, const char *hostnqn);
bool port_has(const struct target_port *port, const struct target_subsystem *subsystem);
/* The discovery log page changed. */
void discovery_changed(struct target *target);
/* The page for a host that is connected to `port`, of *ret_bytes bytes; NULL: no memory. */
uint8_t *discovery_page(const struct target_port *port, const char *hostnqn, size_t *ret_bytes);

/* --- inject.c --- */
/* True: a rule has taken the command. */
bool inject_command(struct target_command *command);

#endif

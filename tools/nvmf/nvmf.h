/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic-nvmf: what its commands share.
 *
 * A command gets its options parsed (options.c), connects (session.c), works, and returns the exit
 * status: 0, 1 for a failure that was reported, 2 for wrong usage. Each command is one process with
 * connections of its own; they end with it.
 */
#ifndef TOOLS_NVMF_H
#define TOOLS_NVMF_H

#include "nvmf/host/remote/remote.h"

enum { NVMF_TEXT_BYTES = 256 };

struct nvmf_options {
	const char *command;
	/* The controller. */
	const struct host_transport *transport;
	char traddr[NVMF_TEXT_BYTES];
	char trsvcid[16];
	char host_traddr[NVMF_TEXT_BYTES];
	char nqn[HOST_NQN_BYTES];
	char hostnqn[HOST_NQN_BYTES];
	uint8_t hostid[16];
	uint32_t nsid;
	unsigned io_queues;
	unsigned queue_size;
	uint32_t keep_alive_seconds;
	uint32_t reconnect_seconds;
	int64_t loss_seconds; /* -1: for ever */
	uint32_t fast_fail_seconds;
	bool wants_header_digest;
	bool wants_data_digest;
	bool wants_json;
	bool keeps_trying;
	/* Data of commands. */
	const char *data; /* a file */
	const char *metadata_file; /* state of verify */
	uint64_t offset_bytes;
	uint64_t size_bytes; /* 0: all */
	uint32_t block_bytes;
	uint64_t start_block;
	uint32_t block_count; /* 0's based, as nvme-cli's */
	bool has_start_block;
	uint32_t log_id;
	uint32_t log_bytes;
	uint32_t feature_id;
	/* Jobs. */
	char rw[16];
	unsigned rwmixread;
	unsigned iodepth;
	uint32_t runtime_seconds;
	uint64_t seed;
	bool polls;
	bool is_quiet;
	/* Exports. */
	const char *nbd;
	const char *fuse;
	const char *name;
	bool is_read_only;
	/* connect-all. */
	bool is_matching; /* only at the address of the discovery controller */
	bool is_persistent;
};

/* Parse; false, after a sentence on standard error. */
bool options_parse(struct nvmf_options *options, int argc, char **argv);

/* A sentence on standard error, behind "urnic-nvmf: ". Returns 1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A connection and its loop. */
struct session {
	struct loop *loop;
	struct remote *remote; /* a namespace, or NULL */
	struct host_controller *controller;
	bool is_opening;
	bool is_over; /* what the session waits for has happened */
	int error;
	bool owns_loop;
	/* An event has come, or the connection was made anew. The user clears it. */
	bool has_changed;
	bool reports; /* tell of lost connections on standard error */
	char label[16]; /* before what it tells */
};

/*
 * Connect. Returns 0, or 1 after a sentence on standard error.
 *
 * `loop`           The caller's, or NULL for one of the session's own.
 * `has_namespace`  To a namespace, options->nsid; otherwise to the controller alone.
 * `nqn`            The subsystem.
 */
int session_open(struct session *session, struct loop *loop, const struct nvmf_options *options,
	const char *nqn, bool has_namespace);
void session_close(struct session *session);

/* Send an Admin command and wait. Returns 0, or 1 after a sentence that begins with `action`. */
int session_admin(struct session *session, struct host_request *request, const char *action);

/* Read or write, and wait. 0 or -errno. */
int session_block(struct session *session, struct block_request *request);

/* The commands. */
int command_discover(const struct nvmf_options *options);

int command_connect_all(const struct nvmf_options *options);
int command_list(const struct nvmf_options *options);
int command_list_ns(const struct nvmf_options *options);
int command_id_ctrl(const struct nvmf_options *options);
int command_id_ns(const struct nvmf_options *options);
int command_get_log(const struct nvmf_options *options);
int command_get_feature(const struct nvmf_options *options);
int command_read(const struct nvmf_options *options);
int command_write(const struct nvmf_options *options);
int command_verify(const struct nvmf_options *options);
int command_bench(const struct nvmf_options *options);
int command_export(const struct nvmf_options *options);

#endif

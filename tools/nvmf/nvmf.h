/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the commands of urnic-nvmf share.
 *
 * A process runs one command. main() parses the options (options.c) and calls the command. The
 * command connects (session.c), works, and returns the exit status: 0 for success, 1 after a
 * failure that it has reported, 2 for wrong usage. Its connections end with the process.
 */
#ifndef TOOLS_NVMF_H
#define TOOLS_NVMF_H

#include "nvmf/host/remote/remote.h"

enum { NVMF_TEXT_BYTES = 256 };

struct nvmf_options {
	const char *command;
	/* The controller, and the connections to it. */
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
	int64_t loss_seconds; /* -1: reconnects for ever */
	uint32_t fast_fail_seconds;
	bool wants_header_digest;
	bool wants_data_digest;
	bool wants_json;
	bool keeps_trying;
	/* Which data a command transfers. */
	const char *data; /* path of the file; NULL or "-": standard input or output */
	/* --state of `nvmf verify`: path of the file that keeps the blocks' generations; or NULL */
	const char *metadata_file;
	uint64_t offset_bytes;
	uint64_t size_bytes; /* 0: to the end of the namespace */
	uint32_t block_bytes;
	uint64_t start_block;
	uint32_t block_count; /* 0's based, as in nvme-cli: 0 is one block */
	bool has_start_block;
	uint32_t log_id;
	uint32_t log_bytes;
	uint32_t feature_id;
	/* For the jobs of bench and verify. */
	char rw[16];
	unsigned rwmixread;
	unsigned iodepth;
	uint32_t runtime_seconds;
	uint64_t seed;
	bool polls;
	bool is_quiet;
	/* Only export and connect-all use these. */
	const char *nbd;
	const char *fuse;
	const char *name;
	bool is_read_only;
	/* Only discover and connect-all use these. */
	const char *discovery_conf; /* path of a file that lists discovery controllers */
	bool is_matching; /* connect only subsystems whose address is the discovery controller's */
	bool is_persistent;
};

/* Parse the arguments. Returns false after a sentence on standard error. */
bool options_parse(struct nvmf_options *options, int argc, char **argv);

/*
 * Parse the options of a line of a file. Changes the line; texts of *options may point to it.
 * Options that the line does not have stay unchanged. Returns false after a sentence on standard
 * error.
 */
bool options_parse_line(struct nvmf_options *options, char *line);

/* Print "urnic-nvmf: ", the message and a full stop on standard error. Returns 1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A connection with a controller, and the event loop that it runs on. */
struct session {
	struct loop *loop;
	struct remote *remote; /* the namespace; NULL: the connection is to a controller alone */
	struct host_controller *controller;
	bool is_opening;
	bool is_over; /* what the session waits for has happened */
	int error;
	bool owns_loop;
	/*
	 * Set when the controller has sent an event, or when the connection has become live. The
	 * caller clears it.
	 */
	bool has_changed;
	bool reports; /* print on standard error when the connection is lost or restored */
	char label[16]; /* printed at the start of these reports */
};

/*
 * Connect, and wait until the connection is live. Returns 0, or 1 after a sentence on standard
 * error.
 *
 * `loop`           The loop to run on. NULL: session_open() creates one, and session_close()
 *                  destroys it.
 * `nqn`            The NQN of the subsystem.
 * `has_namespace`  True: open the namespace options->nsid, with I/O queues. False: connect an Admin
 *                  queue alone.
 */
int session_open(struct session *session, struct loop *loop, const struct nvmf_options *options,
	const char *nqn, bool has_namespace);
void session_close(struct session *session);

/*
 * Send an Admin command and wait for its completion. Returns 0, or 1 after a sentence on standard
 * error that begins with `action`.
 */
int session_admin(struct session *session, struct host_request *request, const char *action);

/* Submit a block request and wait until it is done. Returns 0 or -errno. */
int session_block(struct session *session, struct block_request *request);

/*
 * The number of blocks of --bs within --offset and --size. There must be at least `least` of them,
 * which `what` says in words. Returns false after a sentence on standard error.
 */
bool session_blocks(const struct session *session, const struct nvmf_options *options,
	uint64_t least, const char *what, uint64_t *ret_blocks);

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

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_SERVER_FABRIC_SERVER_H
#define URNIC_FABRICD_SERVER_FABRIC_SERVER_H

/*
 * The process of an InfiniBand fabric: one subnet, and the processes that are attached to its
 * nodes. One thread serves them all; it never waits for a client.
 */

#include <stdbool.h>

#include "fabricd/attach_protocol.h"
#include "subnet/subnet.h"

struct fabric_server;

/*
 * Run a console's command.
 *
 * `text`  The command; the function may change it.
 * `why`   A sentence after a failure.
 *
 * Returns a memfd with the output, or -errno. -EAGAIN: the command waits for service levels, for
 * which the function has asked (server_internal.h); the server runs it again.
 */
typedef int fabric_console_fn(
	struct fabric_server *server, char *text, char why[ATTACH_TEXT_BYTES]);

/* The port sends a frame over its cable. The function must not call the server. */
typedef void fabric_trace_fn(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes);

/*
 * The way to a subnet that is on another machine. With an uplink the server has hosts only, and
 * mirrors the attributes of their ports (fabric_server_set_port()). The server calls these
 * functions in its own thread; only run() may call the server.
 */
struct fabric_uplink {
	/*
	 * A frame leaves a port. With one of ATTACH_RECORD_* as `violation`: a queue pair has
	 * refused it.
	 */
	void (*send)(void *context, uint32_t node, uint32_t port, uint32_t violation,
		const uint8_t *frame, uint32_t frame_bytes);
	/* May the server send frames? While it may not, it takes none from its clients. */
	bool (*has_room)(const void *context);
	/* `is_open`: does a process have the port's IsSM file open? */
	void (*set_issm)(void *context, uint32_t node, uint32_t port, bool is_open);
	/*
	 * Take what has arrived, without waiting. Returns the number of frames, or -errno, which
	 * ends the server.
	 */
	int (*run)(void *context);
	int descriptor; /* readable when run() has something to do; run() clears it */
	void *context;
};

struct fabric_server_settings {
	const char *name; /* the fabric's (fabricd/fabric_name.h) */
	fabric_console_fn *console; /* NULL: no command runs */
	bool is_unmanaged; /* the embedded subnet manager is off */
	/* NULL: no trace. With a trace the server opens no flows, whose frames it would not see. */
	fabric_trace_fn *trace;
	void *trace_context;
	const struct fabric_uplink *uplink; /* NULL: the subnet is here */
};

/*
 * Begin to listen for clients.
 *
 * `topology`  Copied.
 * `why`       A sentence after a failure.
 *
 * Returns 0; -EADDRINUSE when a fabric of this name runs; or another -errno.
 */
int fabric_server_create(const struct fabric_server_settings *settings,
	const struct subnet_topology *topology, struct fabric_server **ret_server,
	char why[ATTACH_TEXT_BYTES]);

/* Serve until SIGINT or SIGTERM. Returns 0 or -errno. */
int fabric_server_run(struct fabric_server *server);

/*
 * One turn of fabric_server_run(), which does not sleep, for a test. Returns whether frames flow,
 * or -errno.
 */
int fabric_server_turn(struct fabric_server *server);

void fabric_server_destroy(struct fabric_server *server);

/* --- from the uplink's run() --- */

/* A frame has arrived at a port of a host. Any bytes are legal input. */
void fabric_server_deliver(struct fabric_server *server, uint32_t node, uint32_t port,
	const uint8_t *frame, uint32_t frame_bytes);
/*
 * Set the attributes of a port. The server sends no event. Without effect if there is no such port.
 */
void fabric_server_set_port(
	struct fabric_server *server, uint32_t node, uint32_t port, const struct attach_port *info);
void fabric_server_set_counters(struct fabric_server *server, uint32_t node, uint32_t port,
	const struct attach_counters *counters);
/* Tell the clients of the host what has happened to a port. */
void fabric_server_event(
	struct fabric_server *server, uint32_t node, uint32_t port, enum attach_event_type type);

#endif

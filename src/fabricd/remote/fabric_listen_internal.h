/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_FABRIC_LISTEN_INTERNAL_H
#define URNIC_FABRICD_REMOTE_FABRIC_LISTEN_INTERNAL_H

/* What the listener's loop and its machines (machine.c, machine_hosts.c) share. */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabricd/client/fabric_client.h"
#include "fabricd/fabric_loop.h"
#include "fabricd/remote/fabric_listen.h"
#include "fabricd/remote/remote_control.h"
#include "fabricd/remote/remote_datagram.h"

enum {
	MACHINES_MAX = 64, /* machines and strangers together */
	STRANGERS_MAX = 16, /* connections that have not joined */
	STRANGER_NS_MAX = 5000000000,
	FRAMES_PER_TURN = 64, /* frames of one host, or messages of one machine */
	WAITING_BYTES_MAX = 1 << 20, /* of one host; its channel has room for as many */
};

struct machine_port {
	struct attach_port told; /* the attributes that the machine got last */
	bool is_told;
	int issm; /* the IsSM file, open while processes of the machine have theirs open; -1 */
};

/* A data frame that waits for the machine to have room. */
struct waiting_frame {
	struct list link;
	uint32_t port;
	uint32_t count;
	uint8_t bytes[];
};

/* A host of the fabric that the machine has taken. */
struct machine_host {
	struct machine *machine;
	uint16_t index;
	struct fabric_client *client;
	struct fabric_frames *channel;
	int events;
	uint32_t port_count;
	struct machine_port *ports;
	/*
	 * Data frames that were taken from the channel, so that the management datagrams behind
	 * them need not wait.
	 */
	struct list waiting;
	uint32_t waiting_bytes;
};

struct machine {
	struct list link;
	struct fabric_listen *listen;
	struct remote_control control;
	struct remote_datagrams datagrams;
	uint32_t watched; /* the events for which epoll watches the control socket; 0: none yet */
	bool has_joined;
	bool has_more; /* control.in may hold whole messages, for which epoll reports nothing */
	bool is_refused; /* the connection ends when the refusal is sent */
	uint64_t mads_dropped; /* the machine did not take them */
	int error; /* -errno of a message that could not be sent, which ends the machine; 0: none */
	char address[REMOTE_ADDRESS_TEXT_BYTES];
	uint64_t begun_ns;
	uint64_t heard_ns;
	uint64_t tell_ns; /* when to call machine_hosts_tell() again */
	uint32_t host_count;
	uint32_t host_first; /* the host whose frames machine_hosts_frames() takes first */
	struct machine_host *hosts;
	struct remote_writer writer;
};

struct fabric_listen {
	const struct fabric_listen_settings *settings;
	struct fabric_loop loop;
	struct fabric_loop_user loop_user;
	struct fabric_listener listener;
	uint64_t now_ns;
	bool has_lost_fabric;
	uint32_t session_last;
	struct list machines;
	uint32_t machine_count;
};

/* --- machine.c --- */

/* A connection was accepted. Takes the descriptor over. */
void machine_begin(struct fabric_listen *listen, int fd, const struct remote_address *peer);
/* End a machine. The fabric cuts the cables of its hosts. `why` is for the log. */
void machine_end(struct machine *machine, const char *why);
/* The control socket is ready. Returns false when the machine has ended. */
bool machine_serve(struct machine *machine);
/* Pass frames in both directions. Returns their number. */
uint32_t machine_frames_run(struct machine *machine);
/* Do what is due at the present time. Returns false when the machine has ended. */
bool machine_advance(struct machine *machine);
/* Before the listener sleeps: returns false when a frame waits. */
bool machine_wait_begin(struct machine *machine);
void machine_wait_end(struct machine *machine);
/* Send a message; the machine ends at its next machine_serve() if that is not possible. */
void machine_send(
	struct machine *machine, enum remote_message_type type, const struct remote_writer *body);

/* --- machine_hosts.c --- */

/* Take the hosts. Returns 0, or -errno with a sentence. */
int machine_hosts_take(
	struct machine *machine, const struct remote_join *join, char why[ATTACH_TEXT_BYTES]);
void machine_hosts_return(struct machine *machine);
void machine_welcome(struct machine *machine, uint16_t window);
/* Pass on the events of a host's ports. */
void machine_host_events(struct machine_host *host);
/* Send the machine the counters of its ports, and the attributes of those that have changed. */
void machine_hosts_tell(struct machine *machine);
/*
 * Take what waits in the hosts' channels. Management datagrams are sent at once. Data frames are
 * sent while the machine has room, and then wait in the host's `waiting` while that has room.
 */
uint32_t machine_hosts_frames(struct machine *machine);
/* Has neither the machine nor `waiting` room for a frame of the host's channel? */
bool machine_host_is_full(const struct machine_host *host);
/* A frame from the machine. */
void machine_host_send(struct machine *machine, const struct remote_frame *frame);
void machine_host_issm(struct machine *machine, const struct remote_place *place, bool is_open);

#endif

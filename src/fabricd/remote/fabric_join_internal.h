/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_FABRIC_JOIN_INTERNAL_H
#define URNIC_FABRICD_REMOTE_FABRIC_JOIN_INTERNAL_H

/* What the joiner's life (fabric_join.c) and its uplink to the listener (join_uplink.c) share. */

#include <stdbool.h>
#include <stdint.h>

#include "fabricd/remote/fabric_join.h"
#include "fabricd/remote/remote_control.h"
#include "fabricd/remote/remote_datagram.h"
#include "fabricd/server/fabric_server.h"

enum join_state {
	JOIN_APART, /* waits until it tries again */
	JOIN_CONNECTING, /* waits for the listener to prove that it has the key */
	JOIN_ASKING, /* waits for the welcome */
	JOIN_MEMBER,
};

struct join_port {
	struct attach_port info; /* what the listener said last; down while it is lost */
	bool is_shown; /* the listener has sent the attributes since its welcome */
	bool has_issm; /* processes have its IsSM file open */
};

struct join_host {
	struct attach_node node;
	struct join_port *ports; /* NULL before the first welcome */
};

struct fabric_join {
	const struct fabric_join_settings *settings;
	enum join_state state;
	bool is_refused; /* the first join failed for good; `why` has the reason */
	bool is_stale; /* the fabric has other hosts of these names: the process ends */
	char why[ATTACH_TEXT_BYTES]; /* the last failure */
	char printed[ATTACH_TEXT_BYTES]; /* the last printed failure to join again; "": none */
	int epoll; /* of the uplink's descriptors */
	int timer; /* ends the server's sleep at `tick_ns` */
	bool is_watched; /* epoll watches the control socket for EPOLLOUT, too */
	uint64_t now_ns;
	uint64_t tick_ns; /* when clock_run() is due again */
	uint64_t retry_ns; /* APART: when to try again */
	uint64_t begun_ns; /* when this attempt to join began */
	uint64_t heard_ns; /* when the last message came */
	uint64_t alive_ns; /* when to send the next REMOTE_ALIVE */
	struct remote_control control;
	struct remote_datagrams datagrams;
	struct fabric_uplink uplink;
	struct fabric_server *server; /* NULL before the first welcome */
	uint32_t host_count;
	struct join_host hosts[REMOTE_HOSTS_MAX];
	struct remote_writer writer;
	struct remote_welcome welcome;
	uint64_t mads_dropped; /* the listener did not take them */
};

int uplink_open(struct fabric_join *join, const struct fabric_join_settings *settings);
void uplink_close(struct fabric_join *join);
/* Returns the number of frames, or -errno when the process has to end, with a sentence in `why`. */
int uplink_run(void *context);
/* Pass the attributes of all ports, as the listener sent them, to the server. */
void uplink_show_ports(struct fabric_join *join);

#endif

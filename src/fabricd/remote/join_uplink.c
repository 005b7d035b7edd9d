/* SPDX-License-Identifier: BSD-2-Clause */
/* The way from a machine that has joined to its listener. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/fabric_loop.h"
#include "fabricd/remote/fabric_join_internal.h"
#include "os/clock.h"
#include "wire/infiniband/attribute.h"

enum {
	RETRY_NS = 1000000000,
	TICK_NS = 50000000,
	FRAMES_PER_TURN = 64,
};

/* How long one attempt to join takes at most. */
#define ATTEMPT_NS_MAX 5000000000u

/* --- ports --- */

static void port_show(struct fabric_join *join, uint32_t host, uint32_t number)
{
	if (join->server)
		fabric_server_set_port(
			join->server, host, number, &join->hosts[host].ports[number - 1].info);
}

void uplink_show_ports(struct fabric_join *join)
{
	for (uint32_t i = 0; i < join->host_count; i++)
		for (uint32_t number = 1; number <= join->hosts[i].node.port_count; number++)
			port_show(join, i, number);
}

static void port_event(
	struct fabric_join *join, uint32_t host, uint32_t number, enum attach_event_type type)
{
	if (join->server)
		fabric_server_event(join->server, host, number, type);
}

/* Without the listener all ports are down, as if their cables were unplugged. */
static void ports_down(struct fabric_join *join)
{
	for (uint32_t i = 0; i < join->host_count; i++) {
		for (uint32_t j = 0; join->hosts[i].ports && j < join->hosts[i].node.port_count;
			j++) {
			struct join_port *port = &join->hosts[i].ports[j];
			const bool was_active = port->info.state == IB_PORT_ACTIVE;

			port->info.state = IB_PORT_DOWN;
			port->info.phys_state = IB_PHYSICAL_POLLING;
			port->is_shown = false;
			port_show(join, i, j + 1);
			if (was_active)
				port_event(join, i, j + 1, ATTACH_EVENT_PORT_ERROR);
		}
	}
}

/* The port that a message names; NULL: there is none. */
static struct join_port *port_find(struct fabric_join *join, const struct remote_place *place)
{
	return place->host < join->host_count && place->port &&
			place->port <= join->hosts[place->host].node.port_count
		? &join->hosts[place->host].ports[place->port - 1]
		: NULL;
}

/* --- losing the listener --- */

/* An attempt to join again has failed: print why, unless the last line printed says the same. */
static void failure_print(struct fabric_join *join)
{
	if (!join->server || join->is_stale || strcmp(join->printed, join->why) == 0)
		return;
	memcpy(join->printed, join->why, sizeof(join->printed));
	printf("cannot join again: %s\n", join->why);
	fflush(stdout);
}

static void join_lose(struct fabric_join *join, const char *why)
{
	const struct datagram_drops drops = join->datagrams.drops;
	const bool was_member = join->state == JOIN_MEMBER;

	if (why != join->why)
		snprintf(join->why, sizeof(join->why), "%s", why);
	remote_control_done(&join->control);
	if (join->datagrams.fd >= 0)
		close(join->datagrams.fd);
	join->datagrams = (struct remote_datagrams){.fd = -1};
	join->state = JOIN_APART;
	join->retry_ns = join->now_ns + RETRY_NS;
	if (!was_member) {
		failure_print(join);
		return;
	}
	ports_down(join);
	printf("the fabric is lost: %s; joining again\n", why);
	datagram_drops_print(&drops, join->mads_dropped);
	join->mads_dropped = 0;
	fflush(stdout);
}

static const char *loss_text(int error)
{
	switch (error) {
	case -ECONNRESET:
		return "the listener has closed the connection: it has another key, or no room";
	case -EKEYREJECTED:
		return "the listener has another key";
	case -EPROTONOSUPPORT:
		return "at this address is no `urnic fabric listen` of this version";
	case -EBADMSG:
		return "a message was malformed, or not the listener's";
	default:
		return strerror(-error);
	}
}

/* --- joining --- */

/* Watch the control socket for EPOLLOUT while something waits to be sent. */
static void control_watch(struct fabric_join *join)
{
	const bool has_more = !remote_control_is_flushed(&join->control);

	if (has_more == join->is_watched)
		return;
	join->is_watched = has_more;
	fabric_loop_watch(join->epoll, EPOLL_CTL_MOD, join->control.fd,
		EPOLLIN | (has_more ? EPOLLOUT : 0u), join);
}

static void join_begin(struct fabric_join *join)
{
	const struct remote_address *address = join->settings->address;
	const int is_undelayed = 1;
	int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = fd < 0 ? -errno : 0;

	join->retry_ns = join->now_ns + RETRY_NS;
	if (rc == 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &is_undelayed, sizeof(is_undelayed));
		if (connect(fd, (const struct sockaddr *)&address->socket, address->bytes) < 0 &&
			errno != EINPROGRESS) {
			rc = -errno;
			close(fd);
		}
	}
	if (rc == 0)
		rc = remote_control_init(&join->control, fd, true, join->settings->key);
	if (rc == 0) {
		join->is_watched = true;
		rc = fabric_loop_watch(join->epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, join);
	}
	if (rc) {
		join_lose(join, strerror(-rc));
		return;
	}
	join->state = JOIN_CONNECTING;
	join->begun_ns = join->heard_ns = join->now_ns;
}

/* The listener has proved that it has the key: ask for the hosts. */
static int join_ask(struct fabric_join *join)
{
	struct remote_datagrams *datagrams = &join->datagrams;
	const int control = join->control.fd;
	struct remote_join ask = {.host_count = (uint16_t)join->settings->host_count};

	datagrams->fd = datagram_socket(control, 0);
	if (datagrams->fd < 0)
		return datagrams->fd;
	datagrams->bytes_max = datagram_bytes_max(control);
	datagrams->own = join->control.own.datagrams;
	datagrams->peer = join->control.peer.datagrams;
	ask.window = datagram_socket_window(datagrams->fd, datagrams->bytes_max);
	ask.udp_port = datagram_socket_port(datagrams->fd);
	for (uint32_t i = 0; i < ask.host_count; i++)
		snprintf(ask.hosts[i], sizeof(ask.hosts[i]), "%s", join->settings->hosts[i]);
	remote_join_encode(&join->writer, &ask);
	join->state = JOIN_ASKING;
	return remote_control_send(&join->control, REMOTE_JOIN, &join->writer);
}

/* Are the hosts those of the first welcome? */
static bool is_same_fabric(const struct fabric_join *join)
{
	const struct remote_welcome *welcome = &join->welcome;

	for (uint32_t i = 0; i < join->host_count; i++)
		if (welcome->hosts[i].node_guid != join->hosts[i].node.node_guid ||
			welcome->hosts[i].port_count != join->hosts[i].node.port_count)
			return false;
	return true;
}

static void hosts_free(struct fabric_join *join)
{
	for (uint32_t i = 0; i < join->host_count; i++)
		free(join->hosts[i].ports);
	join->host_count = 0;
}

static int hosts_make(struct fabric_join *join)
{
	const struct remote_welcome *welcome = &join->welcome;

	for (uint32_t i = 0; i < welcome->host_count; i++) {
		struct join_host *host = &join->hosts[i];

		host->node = welcome->hosts[i];
		host->ports = calloc(host->node.port_count, sizeof(*host->ports));
		if (!host->ports) {
			hosts_free(join);
			return -ENOMEM;
		}
		join->host_count++;
	}
	return 0;
}

static void fact_send(struct fabric_join *join, enum remote_message_type type,
	const struct remote_place *place, uint8_t fact)
{
	remote_fact_encode(&join->writer, place, fact);
	remote_control_send(&join->control, type, &join->writer);
}

/* Tell the listener for which ports processes of this machine have the IsSM file open. */
static void issm_send_all(struct fabric_join *join)
{
	for (uint16_t i = 0; i < join->host_count; i++) {
		for (uint32_t j = 0; j < join->hosts[i].node.port_count; j++) {
			const struct remote_place place = {.host = i, .port = (uint8_t)(j + 1)};

			if (join->hosts[i].ports[j].has_issm)
				fact_send(join, REMOTE_ISSM, &place, true);
		}
	}
}

/* Returns 0 or -errno, which ends the connection. */
static int welcome_take(struct fabric_join *join, const struct remote_message *message)
{
	struct remote_datagrams *datagrams = &join->datagrams;
	int rc;

	if (join->state != JOIN_ASKING || !remote_welcome_decode(message, &join->welcome) ||
		join->welcome.host_count != join->settings->host_count)
		return -EBADMSG;
	if (join->host_count && !is_same_fabric(join)) {
		snprintf(join->why, sizeof(join->why),
			"the hosts of the fabric are other ones; start urnic fabric join again");
		return -ESTALE;
	}
	rc = join->host_count ? 0 : hosts_make(join);
	if (rc == 0)
		rc = datagram_socket_connect(datagrams->fd, join->control.fd,
			ntohs(((const struct sockaddr_in *)&join->settings->address->socket)
					->sin_port));
	if (rc == 0)
		rc = fabric_loop_watch(join->epoll, EPOLL_CTL_ADD, datagrams->fd, EPOLLIN, join);
	if (rc)
		return rc;
	datagrams->session = join->welcome.session;
	datagrams->window = max_u32(DATAGRAM_WINDOW_MIN, join->welcome.window);
	datagram_open(datagrams);
	return 0;
}

/* When the listener has sent the attributes of all ports, programs can use them: be a member. */
static void membership_begin(struct fabric_join *join)
{
	for (uint32_t i = 0; i < join->host_count; i++)
		for (uint32_t j = 0; j < join->hosts[i].node.port_count; j++)
			if (!join->hosts[i].ports[j].is_shown)
				return;
	join->state = JOIN_MEMBER;
	join->alive_ns = 0;
	*join->printed = *join->why = '\0';
	issm_send_all(join);
	if (!join->server)
		return;
	printf("the fabric is back\n");
	fflush(stdout);
}

static int refusal_take(struct fabric_join *join, const struct remote_message *message)
{
	char why[ATTACH_TEXT_BYTES];
	int error;

	if (join->state != JOIN_ASKING || !remote_refusal_decode(message, &error, why))
		return -EBADMSG;
	/* EBUSY may be temporary: the listener may have yet to notice that a machine has gone. */
	join->is_refused = !join->server && error != EBUSY;
	join_lose(join, why);
	return 0;
}

/* --- messages --- */

static int port_take(struct fabric_join *join, const struct remote_message *message)
{
	struct remote_place place;
	struct attach_port info;
	struct join_port *port;

	if (!remote_port_decode(message, &place, &info))
		return -EBADMSG;
	port = port_find(join, &place);
	if (!port)
		return -EBADMSG;
	port->info = info;
	port_show(join, place.host, place.port);
	if (!port->is_shown && info.state == IB_PORT_ACTIVE)
		port_event(join, place.host, place.port, ATTACH_EVENT_PORT_ACTIVE);
	port->is_shown = true;
	if (join->state == JOIN_ASKING)
		membership_begin(join);
	return 0;
}

static int counters_take(struct fabric_join *join, const struct remote_message *message)
{
	struct remote_place place;
	struct attach_counters values;

	if (!remote_counters_decode(message, &place, &values) || !port_find(join, &place))
		return -EBADMSG;
	if (join->server)
		fabric_server_set_counters(join->server, place.host, place.port, &values);
	return 0;
}

static int event_take(struct fabric_join *join, const struct remote_message *message)
{
	struct remote_place place;
	uint8_t type;

	if (!remote_fact_decode(message, &place, &type) || !port_find(join, &place) || type == 0 ||
		type >= ATTACH_EVENT_FLOW_IN)
		return -EBADMSG;
	port_event(join, place.host, place.port, type);
	return 0;
}

static int frame_take(struct fabric_join *join, const struct remote_message *message)
{
	struct remote_place place;
	const uint8_t *frame;
	uint32_t bytes;

	if (!remote_frame_decode(message, &place, &frame, &bytes) || !port_find(join, &place))
		return -EBADMSG;
	if (join->server)
		fabric_server_deliver(join->server, place.host, place.port, frame, bytes);
	return 0;
}

/* Returns 0 or -errno, which ends the connection. */
static int message_handle(struct fabric_join *join, const struct remote_message *message)
{
	if (message->type == REMOTE_WELCOME)
		return welcome_take(join, message);
	if (message->type == REMOTE_REFUSAL)
		return refusal_take(join, message);
	if (!join->datagrams.is_open)
		return -EBADMSG;
	switch (message->type) {
	case REMOTE_PORT:
		return port_take(join, message);
	case REMOTE_COUNTERS:
		return counters_take(join, message);
	case REMOTE_EVENT:
		return event_take(join, message);
	case REMOTE_FRAME:
		return frame_take(join, message);
	case REMOTE_ALIVE:
		return 0;
	default:
		return -EBADMSG;
	}
}

/*
 * The connection has failed. The first join tries again if nothing listens at the address, but not
 * if the listener refuses this end.
 */
static void connection_fail(struct fabric_join *join, int error)
{
	join->is_refused = !join->server &&
		(error == -ECONNRESET || error == -EKEYREJECTED || error == -EPROTONOSUPPORT ||
			error == -EBADMSG);
	join_lose(join,
		join->state == JOIN_MEMBER && error == -ECONNRESET
			? "the listener has closed the connection"
			: loss_text(error));
}

static uint32_t messages_receive(struct fabric_join *join)
{
	struct remote_message message;
	uint32_t count = 0;
	int rc = remote_control_flush(&join->control);

	while (rc == 0 && count < FRAMES_PER_TURN && join->state != JOIN_APART) {
		rc = remote_control_receive(&join->control, &message);
		if (join->state == JOIN_CONNECTING && rc >= 0 &&
			join->control.state == REMOTE_CONTROL_OPEN)
			rc = join_ask(join);
		if (rc <= 0)
			break;
		join->heard_ns = join->now_ns;
		rc = message_handle(join, &message);
		count++;
	}
	if (rc == -ESTALE) {
		join->is_stale = true;
		join_lose(join, join->why);
	} else if (rc < 0) {
		connection_fail(join, rc);
	} else if (join->state != JOIN_APART) {
		control_watch(join);
	}
	return count;
}

/* --- frames --- */

static void frame_deliver(void *context, const struct remote_frame *frame)
{
	struct fabric_join *join = context;

	if (port_find(join, &frame->place) && join->server)
		fabric_server_deliver(join->server, frame->place.host, frame->place.port,
			frame->bytes, frame->count);
}

static void uplink_send(void *context, uint32_t node, uint32_t port, uint32_t violation,
	const uint8_t *bytes, uint32_t count)
{
	struct fabric_join *join = context;
	const struct remote_frame frame = {.place = {.host = (uint16_t)node, .port = (uint8_t)port},
		.violation = violation,
		.bytes = bytes,
		.count = count};

	if (join->state != JOIN_MEMBER)
		return;
	if (violation || !remote_frame_is_management(bytes, count)) {
		datagram_send(&join->datagrams, &frame);
		return;
	}
	remote_frame_encode(&join->writer, &frame.place, bytes, count);
	if (remote_control_send(&join->control, REMOTE_FRAME, &join->writer) == -ENOBUFS)
		join->mads_dropped++;
}

static bool uplink_has_room(const void *context)
{
	const struct fabric_join *join = context;

	/* While there is no listener, frames are lost, as at a port that is down. */
	return join->state != JOIN_MEMBER || datagram_has_room(&join->datagrams);
}

static void uplink_set_issm(void *context, uint32_t node, uint32_t port, bool is_open)
{
	const struct remote_place place = {.host = (uint16_t)node, .port = (uint8_t)port};
	struct fabric_join *join = context;
	struct join_port *at = port_find(join, &place);

	if (!at || at->has_issm == is_open)
		return;
	at->has_issm = is_open;
	if (join->state == JOIN_MEMBER)
		fact_send(join, REMOTE_ISSM, &place, is_open);
}

/* --- the clock --- */

/* Set the timer to `tick_ns`. It expires once, and keeps the server awake until it is set again. */
static int timer_arm(struct fabric_join *join)
{
	const struct itimerspec tick = {.it_value.tv_nsec = TICK_NS};

	join->tick_ns = join->now_ns + TICK_NS;
	return timerfd_settime(join->timer, 0, &tick, NULL) < 0 ? -errno : 0;
}

static void clock_run(struct fabric_join *join)
{
	if (join->now_ns < join->tick_ns)
		return;
	timer_arm(join);
	if (join->state == JOIN_APART) {
		if (join->now_ns >= join->retry_ns)
			join_begin(join);
		return;
	}
	if (join->now_ns - join->heard_ns > REMOTE_SILENCE_NS ||
		(join->state != JOIN_MEMBER && join->now_ns - join->begun_ns > ATTEMPT_NS_MAX)) {
		join_lose(join, "the listener is silent");
		return;
	}
	if (join->state != JOIN_MEMBER)
		return;
	datagram_expire(&join->datagrams, join->now_ns);
	if (join->now_ns < join->alive_ns)
		return;
	join->alive_ns = join->now_ns + REMOTE_ALIVE_NS;
	remote_control_send(&join->control, REMOTE_ALIVE, NULL);
}

int uplink_run(void *context)
{
	struct fabric_join *join = context;
	uint32_t frames = 0;

	join->now_ns = clock_now_ns();
	clock_run(join);
	if (join->state != JOIN_APART)
		frames += messages_receive(join);
	if (join->datagrams.is_open)
		frames += datagrams_receive(&join->datagrams, join->now_ns, frame_deliver, join);
	return join->is_stale ? -ESTALE : (int)frames;
}

/* --- its life --- */

int uplink_open(struct fabric_join *join, const struct fabric_join_settings *settings)
{
	int rc;

	join->settings = settings;
	join->control.fd = join->datagrams.fd = join->timer = -1;
	join->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (join->epoll < 0)
		return -errno;
	join->uplink = (struct fabric_uplink){.send = uplink_send,
		.has_room = uplink_has_room,
		.set_issm = uplink_set_issm,
		.run = uplink_run,
		.descriptor = join->epoll,
		.context = join};
	join->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (join->timer < 0)
		return -errno;
	join->now_ns = clock_now_ns();
	rc = timer_arm(join);
	if (rc)
		return rc;
	return fabric_loop_watch(join->epoll, EPOLL_CTL_ADD, join->timer, EPOLLIN, join);
}

void uplink_close(struct fabric_join *join)
{
	datagram_drops_print(&join->datagrams.drops, join->mads_dropped);
	remote_control_done(&join->control);
	if (join->datagrams.fd >= 0)
		close(join->datagrams.fd);
	if (join->timer >= 0)
		close(join->timer);
	if (join->epoll >= 0)
		close(join->epoll);
	hosts_free(join);
}

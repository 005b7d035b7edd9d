/* SPDX-License-Identifier: BSD-2-Clause */
/* A machine that has joined the fabric, or is about to: its connection and its datagrams. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/remote/fabric_listen_internal.h"

/* --- watching --- */

static int control_watch(struct machine *machine)
{
	const uint32_t events =
		EPOLLIN | (remote_control_is_flushed(&machine->control) ? 0 : EPOLLOUT);
	const int operation = machine->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events == machine->watched)
		return 0;
	machine->watched = events;
	return fabric_loop_watch(
		machine->listen->loop.epoll, operation, machine->control.fd, events, machine);
}

/* --- its beginning and end --- */

void machine_begin(struct fabric_listen *listen, int fd, const struct remote_address *peer)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	const int is_undelayed = 1;

	if (!machine) {
		close(fd);
		return;
	}
	machine->listen = listen;
	machine->begun_ns = machine->heard_ns = listen->now_ns;
	machine->datagrams.fd = -1;
	remote_address_print(peer, machine->address);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &is_undelayed, sizeof(is_undelayed));
	if (remote_control_init(&machine->control, fd, false, listen->settings->key)) {
		free(machine);
		return;
	}
	list_append(&listen->machines, &machine->link);
	listen->machine_count++;
	if (control_watch(machine))
		machine_end(machine, "no memory");
}

void machine_end(struct machine *machine, const char *why)
{
	if (machine->has_joined) {
		printf("machine %s has left: %s\n", machine->address, why);
		datagram_drops_print(&machine->datagrams.drops, machine->mads_dropped);
	} else if (!machine->is_refused) {
		printf("machine %s has not joined: %s\n", machine->address, why);
	}
	fflush(stdout);
	machine_hosts_return(machine);
	if (machine->datagrams.fd >= 0)
		close(machine->datagrams.fd);
	remote_control_done(&machine->control);
	list_remove(&machine->link);
	machine->listen->machine_count--;
	free(machine);
}

/* --- joining --- */

void machine_send(
	struct machine *machine, enum remote_message_type type, const struct remote_writer *body)
{
	const int rc = remote_control_send(&machine->control, type, body);

	/*
	 * A management datagram may be lost. The loss of any other message would leave the machine
	 * with wrong attributes of its ports.
	 */
	if (rc && type != REMOTE_FRAME)
		machine->error = rc;
	machine->mads_dropped += rc == -ENOBUFS && type == REMOTE_FRAME;
}

static void machine_refuse(struct machine *machine, int error, const char *why)
{
	printf("machine %s has not joined: %s\n", machine->address, why);
	machine->is_refused = true;
	remote_refusal_encode(&machine->writer, error, why);
	machine_send(machine, REMOTE_REFUSAL, &machine->writer);
}

static int datagrams_open(struct machine *machine, const struct remote_join *join)
{
	struct remote_datagrams *datagrams = &machine->datagrams;
	const int control = machine->control.fd;
	const struct remote_address *own = machine->listen->settings->address;
	/* sin_port and sin6_port have the same offset. */
	const uint16_t port = ntohs(((const struct sockaddr_in *)&own->socket)->sin_port);
	int rc;

	datagrams->fd = datagram_socket(control, port);
	if (datagrams->fd < 0)
		return datagrams->fd;
	rc = datagram_socket_connect(datagrams->fd, control, join->udp_port);
	if (rc)
		return rc;
	/* The session has to differ from that of an earlier connection from the same port. */
	if (getrandom(&datagrams->session, sizeof(datagrams->session), 0) !=
		sizeof(datagrams->session))
		datagrams->session = ++machine->listen->session_last;
	datagrams->own = machine->control.own.datagrams;
	datagrams->peer = machine->control.peer.datagrams;
	datagrams->bytes_max = datagram_bytes_max(control);
	datagrams->window = max_u32(DATAGRAM_WINDOW_MIN, join->window);
	datagram_open(datagrams);
	return fabric_loop_watch(
		machine->listen->loop.epoll, EPOLL_CTL_ADD, datagrams->fd, EPOLLIN, machine);
}

static void joined_print(const struct machine *machine, const struct remote_join *join)
{
	printf("machine %s has joined as", machine->address);
	for (uint32_t i = 0; i < join->host_count; i++)
		printf("%s \"%s\"", i ? "," : "", join->hosts[i]);
	printf("\n");
	fflush(stdout);
}

static int machine_join(struct machine *machine, const struct remote_message *message)
{
	struct remote_join *join = malloc(sizeof(*join));
	char why[ATTACH_TEXT_BYTES] = "";
	int rc = join ? 0 : -ENOMEM;

	if (rc == 0 && (machine->has_joined || !remote_join_decode(message, join)))
		rc = -EBADMSG;
	if (rc) {
		free(join);
		return rc;
	}
	rc = datagrams_open(machine, join);
	if (rc)
		snprintf(why, sizeof(why), "no UDP socket: %s", strerror(-rc));
	else
		rc = machine_hosts_take(machine, join, why);
	if (rc) {
		machine_refuse(machine, -rc, why);
	} else {
		machine->has_joined = true;
		machine_welcome(machine,
			datagram_socket_window(
				machine->datagrams.fd, machine->datagrams.bytes_max));
		machine_hosts_tell(machine);
		joined_print(machine, join);
	}
	free(join);
	return 0;
}

/* --- messages --- */

static int frame_receive(struct machine *machine, const struct remote_message *message)
{
	struct remote_frame frame = {0};

	if (!remote_frame_decode(message, &frame.place, &frame.bytes, &frame.count))
		return -EBADMSG;
	machine_host_send(machine, &frame);
	return 0;
}

static int issm_receive(struct machine *machine, const struct remote_message *message)
{
	struct remote_place place;
	uint8_t is_open;

	if (!remote_fact_decode(message, &place, &is_open))
		return -EBADMSG;
	machine_host_issm(machine, &place, is_open);
	return 0;
}

/* Returns 0 or -errno, which ends the machine. */
static int message_handle(struct machine *machine, const struct remote_message *message)
{
	if (message->type == REMOTE_JOIN)
		return machine_join(machine, message);
	if (!machine->has_joined)
		return -EBADMSG;
	switch (message->type) {
	case REMOTE_FRAME:
		return frame_receive(machine, message);
	case REMOTE_ISSM:
		return issm_receive(machine, message);
	case REMOTE_ALIVE:
		return 0;
	default:
		return -EBADMSG;
	}
}

static const char *end_text(int error)
{
	switch (error) {
	case -ECONNRESET:
		return "it has closed the connection";
	case -EKEYREJECTED:
		return "it has another key";
	case -EPROTONOSUPPORT:
		return "it is no urnic, or another version";
	case -EBADMSG:
		return "it has sent a message that is malformed or not its own";
	default:
		return strerror(-error);
	}
}

/* Wake the fabric's process, if frames wait for it. */
static void hosts_flush(struct machine *machine)
{
	for (uint32_t i = 0; machine->has_joined && i < machine->host_count; i++)
		fabric_frames_flush(machine->hosts[i].channel);
}

bool machine_serve(struct machine *machine)
{
	struct remote_message message;
	int rc = remote_control_flush(&machine->control);

	if (rc == 0)
		rc = machine->error;
	if (rc == 0 && machine->is_refused && remote_control_is_flushed(&machine->control))
		rc = -ECONNRESET;
	machine->has_more = rc == 0;
	for (unsigned i = 0; machine->has_more && i < FRAMES_PER_TURN; i++) {
		rc = remote_control_receive(&machine->control, &message);
		machine->has_more = rc > 0;
		if (rc <= 0)
			break;
		machine->heard_ns = machine->listen->now_ns;
		rc = machine->is_refused ? 0 : message_handle(machine, &message);
		machine->has_more = rc == 0;
	}
	for (uint32_t i = 0; machine->has_joined && i < machine->host_count; i++)
		machine_host_events(&machine->hosts[i]);
	hosts_flush(machine);
	if (rc == 0)
		rc = control_watch(machine);
	if (rc == 0)
		return true;
	machine_end(machine, end_text(rc));
	return false;
}

bool machine_advance(struct machine *machine)
{
	const uint64_t now_ns = machine->listen->now_ns;

	if (!machine->has_joined && now_ns - machine->begun_ns > STRANGER_NS_MAX) {
		machine_end(machine, "it takes too long");
		return false;
	}
	if (!machine->has_joined)
		return true;
	if (now_ns - machine->heard_ns > REMOTE_SILENCE_NS) {
		machine_end(machine, "it is silent");
		return false;
	}
	datagram_expire(&machine->datagrams, now_ns);
	if (now_ns < machine->tell_ns)
		return true;
	machine->tell_ns = now_ns + REMOTE_ALIVE_NS;
	machine_hosts_tell(machine);
	machine_send(machine, REMOTE_ALIVE, NULL);
	return true;
}

/* --- frames --- */

static void frame_deliver(void *context, const struct remote_frame *frame)
{
	machine_host_send(context, frame);
}

uint32_t machine_frames_run(struct machine *machine)
{
	uint32_t count;

	if (!machine->has_joined)
		return 0;
	count = datagrams_receive(
		&machine->datagrams, machine->listen->now_ns, frame_deliver, machine);
	if (count)
		hosts_flush(machine);
	return count + machine_hosts_frames(machine);
}

bool machine_wait_begin(struct machine *machine)
{
	bool is_idle = true;

	if (machine->has_more)
		return false;
	for (uint32_t i = 0; machine->has_joined && i < machine->host_count; i++)
		/* A full host's frames wait for credits, for which the listener may sleep. */
		is_idle &= fabric_frames_wait_begin(machine->hosts[i].channel) ||
			machine_host_is_full(&machine->hosts[i]);
	return is_idle;
}

void machine_wait_end(struct machine *machine)
{
	for (uint32_t i = 0; machine->has_joined && i < machine->host_count; i++)
		fabric_frames_wait_end(machine->hosts[i].channel);
}

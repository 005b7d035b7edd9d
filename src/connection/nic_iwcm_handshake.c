/* SPDX-License-Identifier: BSD-2-Clause */
#include "connection/nic_iwcm_handshake.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/epoll.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/setting.h"

#define CONNECT_NS 20000000000ull
#define REQUEST_NS 10000000000ull
#define HURRY_NS   500000000ull /* in place of REQUEST_NS while other peers wait for a place */
#define REFUSED_NS 50000000ull
#define REPLY_NS   60000000000ull /* long, because the peer's program decides */
#define PAUSE_NS   100000000ull /* after accept() was refused */
/*
 * How long a connection waits for an earlier one to the same port. The earlier one takes less than
 * this, even if its host refuses every attempt.
 */
#define QUEUED_NS ((REFUSALS_MAX + 2) * REFUSED_NS)

enum {
	REFUSALS_MAX = 10, /* with REFUSED_NS between attempts, half a second; see conn_refused() */
};

/* --- policy --- */

struct mpa_policy nic_iwcm_policy(void)
{
	static atomic_bool is_logged;
	struct mpa_policy policy = {.revision = 2, .wants_crc = true, .is_peer_to_peer = true};
	const char *words = setting_text("URNIC_MPA");
	struct text_part word;

	while (words && text_item_next(&words, &word)) {
		if (text_part_is(&word, "revision=1"))
			policy.revision = 1;
		else if (text_part_is(&word, "crc=off"))
			policy.wants_crc = false;
		else if (text_part_is(&word, "markers"))
			policy.wants_markers = true;
		else if (text_part_is(&word, "peer-to-peer=off"))
			policy.is_peer_to_peer = false;
		else if (text_part_is(&word, "ready=write"))
			policy.ready |= MPA_READY_WRITE;
		else if (text_part_is(&word, "ready=read"))
			policy.ready |= MPA_READY_READ;
		else if (text_part_is(&word, "ready=send"))
			policy.ready |= MPA_READY_SEND;
		else if (!atomic_exchange(&is_logged, true))
			log_write(LOG_ERROR,
				"URNIC_MPA has '%.*s'; it may have revision=1, crc=off, markers, peer-to-peer=off, and ready=write, read or send, with commas between them; it is ignored",
				(int)min_u64(word.bytes, 40), word.text);
	}
	return policy;
}

/* --- sockets --- */

int iwcm_watch_fd(int fd, uint32_t events, int operation)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_change(iwcm_manager.epoll, operation, fd, &event)
		? log_refusal("a connection cannot be served", "epoll_ctl")
		: 0;
}

static void set_deadline(struct nic_iw_conn *conn, uint64_t wait_ns)
{
	conn->deadline_ns = clock_now_ns() + wait_ns;
	if (conn->deadline_ns < iwcm_manager.sleeps_until_ns)
		kick_raise(iwcm_manager.kick);
}

/* --- the order of connections to one port --- */

static bool is_to_same_port(const struct nic_iw_conn *a, const struct nic_iw_conn *b)
{
	return a->remote.port == b->remote.port && gid_is_equal(&a->remote.gid, &b->remote.gid);
}

/* Has the connection begun to connect, and not yet sent its request? */
static bool is_connecting(const struct nic_iw_conn *conn)
{
	return conn->state == NIC_IW_CONNECTING || conn->state == NIC_IW_REFUSED;
}

bool iwcm_queue(struct nic_iw_conn *conn)
{
	list_for_each(other, &iwcm_manager.conns, struct nic_iw_conn, node) {
		if (!is_to_same_port(other, conn) ||
			!(is_connecting(other) || other->state == NIC_IW_QUEUED))
			continue;
		conn->fd = -1;
		conn->state = NIC_IW_QUEUED;
		set_deadline(conn, QUEUED_NS);
		return true;
	}
	return false;
}

/*
 * `conn` has sent its request, or is gone. If no other connection to its port is on the way, have
 * the thread begin the next one.
 */
static void queue_advance(const struct nic_iw_conn *conn)
{
	struct nic_iw_conn *next = NULL;

	list_for_each(other, &iwcm_manager.conns, struct nic_iw_conn, node) {
		if (!is_to_same_port(other, conn))
			continue;
		if (is_connecting(other))
			return;
		if (!next && other->state == NIC_IW_QUEUED)
			next = other;
	}
	if (next)
		set_deadline(next, 0);
}

/* --- the manager's descriptors --- */

int iwcm_release_fd(struct nic_iw_conn *conn)
{
	int fd = conn->fd;

	list_remove(&conn->node);
	if (fd >= 0)
		epoll_change(iwcm_manager.epoll, EPOLL_CTL_DEL, fd, NULL);
	conn->fd = -1;
	return fd;
}

void iwcm_drop(struct nic_iw_conn *conn)
{
	struct nic_iw_listener *listener = conn->listener;

	if (conn->state == NIC_IW_NONE || conn->state == NIC_IW_OPEN)
		return;
	int fd = iwcm_release_fd(conn);

	if (fd >= 0)
		close(fd);
	conn->state = NIC_IW_NONE;
	queue_advance(conn);
	if (listener && listener->is_full) {
		listener->is_full = false;
		iwcm_watch_fd(listener->fd, EPOLLIN, EPOLL_CTL_MOD);
	}
}

void iwcm_fail(struct nic_iw_conn *conn, int error)
{
	bool has_user = !conn->listener;

	iwcm_drop(conn);
	conn->error = error;
	if (has_user)
		iwcm_manager.on_event(NIC_IW_FAILED, conn);
}

/* --- frames --- */

int iwcm_send_frame(struct nic_iw_conn *conn, int fd)
{
	uint32_t count;
	const struct iovec piece = {
		.iov_base = (void *)(uintptr_t)mpa_output(&conn->mpa, &count), .iov_len = count};
	int64_t taken = count ? port_tcp_send(fd, &piece, 1) : 0;

	if (taken < (int64_t)count)
		return taken < 0 ? (int)taken : -ENOBUFS;
	mpa_sent(&conn->mpa, count);
	return 0;
}

static void request_note(struct nic_iw_conn *conn, enum mpa_event event)
{
	/* The program decides next, so epoll reports only errors until then. */
	iwcm_watch_fd(conn->fd, 0, EPOLL_CTL_MOD);
	conn->state = NIC_IW_DECIDING;
	conn->deadline_ns = UINT64_MAX;
	if (event == MPA_REQUESTED) {
		iwcm_manager.on_event(NIC_IW_REQUESTED, conn);
		if (conn->state == NIC_IW_DECIDING) /* on_event() has not adopted the connection */
			iwcm_drop(conn);
	} else if (event == MPA_ACCEPTED) {
		iwcm_manager.on_event(NIC_IW_ACCEPTED, conn);
	} else {
		iwcm_drop(conn);
		iwcm_manager.on_event(NIC_IW_REJECTED, conn);
	}
}

static void frame_receive(struct nic_iw_conn *conn)
{
	for (;;) {
		struct iovec piece;
		enum mpa_event event;
		uint32_t room;
		int64_t bytes;

		piece.iov_base = mpa_offer(&conn->mpa, &room);
		piece.iov_len = room;
		bytes = port_tcp_receive(conn->fd, &piece, 1);
		if (bytes == -EAGAIN)
			return;
		if (bytes <= 0) {
			iwcm_fail(conn, bytes ? (int)bytes : -ECONNRESET);
			return;
		}
		event = mpa_received(&conn->mpa, (uint32_t)bytes);
		if (event == MPA_INVALID) {
			log_write(LOG_INFO, "MPA: %s", rdmap_error_sentence(conn->mpa.error));
			iwcm_send_frame(conn, conn->fd);
			iwcm_fail(conn, -EPROTO);
			return;
		}
		if (event != MPA_NOTHING) {
			request_note(conn, event);
			return;
		}
	}
}

int iwcm_connect(struct nic_iw_conn *conn)
{
	int fd = port_tcp_connect(&conn->local, &conn->remote, conn->tos);
	int error;

	if (fd < 0)
		return fd;
	error = iwcm_watch_fd(fd, EPOLLOUT, EPOLL_CTL_ADD);
	if (error) {
		close(fd);
		return error;
	}
	conn->fd = fd;
	conn->state = NIC_IW_CONNECTING;
	set_deadline(conn, CONNECT_NS);
	return 0;
}

/*
 * The peer's host refused the connection: no program listens there now. A program that accepts one
 * connection at a time (perftest) soon listens again, so try again. A host that sends no TCP reset
 * stays silent instead; then TCP repeats the SYN, with the same effect.
 */
static void conn_refused(struct nic_iw_conn *conn)
{
	close(conn->fd); /* epoll forgets a closed descriptor */
	conn->fd = -1;
	conn->state = NIC_IW_REFUSED;
	conn->refusals++;
	set_deadline(conn, REFUSED_NS);
}

static void conn_connected(struct nic_iw_conn *conn)
{
	int error = port_tcp_connected(conn->fd);

	if (error == -ECONNREFUSED && conn->refusals < REFUSALS_MAX) {
		conn_refused(conn);
		return;
	}
	if (!error)
		error = port_tcp_addresses(conn->fd, &conn->local, &conn->remote);
	if (!error)
		error = iwcm_send_frame(conn, conn->fd);
	if (!error)
		error = iwcm_watch_fd(conn->fd, EPOLLIN, EPOLL_CTL_MOD);
	if (error) {
		iwcm_fail(conn, error);
		return;
	}
	conn->state = NIC_IW_REQUESTING;
	set_deadline(conn, REPLY_NS);
	queue_advance(conn);
}

void iwcm_serve_conn(struct nic_iw_conn *conn)
{
	switch (conn->state) {
	case NIC_IW_CONNECTING:
		conn_connected(conn);
		break;
	case NIC_IW_REQUESTING:
	case NIC_IW_LISTENING:
		frame_receive(conn);
		break;
	case NIC_IW_DECIDING: /* the peer reset the connection: the program's next call fails */
		epoll_change(iwcm_manager.epoll, EPOLL_CTL_DEL, conn->fd, NULL);
		break;
	case NIC_IW_NONE:
	case NIC_IW_QUEUED:
	case NIC_IW_REFUSED:
	case NIC_IW_OPEN:
		break;
	}
}

/* --- listeners --- */

static struct nic_iw_conn *pending_find(struct nic_iw_listener *listener)
{
	for (uint32_t i = 0; i < listener->room; i++)
		if (listener->pending[i].state == NIC_IW_NONE)
			return &listener->pending[i];
	return NULL;
}

static void accept_one(struct nic_iw_listener *listener, struct nic_iw_conn *conn, int fd)
{
	const struct mpa_policy policy = nic_iwcm_policy();

	*conn = (struct nic_iw_conn){.state = NIC_IW_LISTENING, .fd = fd, .listener = listener};
	mpa_listen(&conn->mpa, &policy);
	list_append(&iwcm_manager.conns, &conn->node);
	if (port_tcp_addresses(fd, &conn->local, &conn->remote) ||
		iwcm_watch_fd(fd, EPOLLIN, EPOLL_CTL_ADD))
		iwcm_drop(conn);
	else
		set_deadline(conn, REQUEST_NS);
}

/* The listener is full: give silent peers less time to send their request. */
static void pending_shorten_deadlines(struct nic_iw_listener *listener)
{
	uint64_t end_ns = clock_now_ns() + HURRY_NS;

	for (uint32_t i = 0; i < listener->room; i++)
		if (listener->pending[i].state == NIC_IW_LISTENING)
			listener->pending[i].deadline_ns =
				min_u64(listener->pending[i].deadline_ns, end_ns);
}

/*
 * It is no failure if a connection ended before accept(). After any other error (the process may
 * have no descriptors left), epoll would report the socket again at once. So the manager does not
 * watch the socket for PAUSE_NS.
 */
static void accept_failed(struct nic_iw_listener *listener, int error)
{
	if (error == EAGAIN || error == ECONNABORTED || error == EINTR)
		return;
	listener->again_ns = clock_now_ns() + PAUSE_NS;
	iwcm_watch_fd(listener->fd, 0, EPOLL_CTL_MOD);
	errno = error;
	LOG_REFUSAL_ONCE("a connection was not accepted", "accept4");
}

uint64_t iwcm_listener_resume(struct nic_iw_listener *listener, uint64_t now_ns)
{
	if (!listener->again_ns)
		return UINT64_MAX;
	if (listener->again_ns > now_ns)
		return listener->again_ns;
	listener->again_ns = 0;
	iwcm_watch_fd(listener->fd, EPOLLIN, EPOLL_CTL_MOD);
	return UINT64_MAX;
}

void iwcm_serve_listener(struct nic_iw_listener *listener)
{
	for (;;) {
		struct nic_iw_conn *conn = pending_find(listener);
		int fd;

		if (!conn) {
			listener->is_full = true;
			iwcm_watch_fd(listener->fd, 0, EPOLL_CTL_MOD);
			pending_shorten_deadlines(listener);
			return;
		}
		fd = port_tcp_accept(listener->fd);
		if (fd < 0) {
			accept_failed(listener, -fd);
			return;
		}
		accept_one(listener, conn, fd);
	}
}

void nic_iwcm_locked_adopt(struct nic_iw_conn *conn, struct nic_iw_conn *pending)
{
	struct nic_iw_listener *listener = pending->listener;
	void *user = conn->user;

	list_remove(&pending->node);
	*conn = *pending;
	conn->user = user;
	conn->listener = NULL;
	list_init(&conn->node);
	list_append(&iwcm_manager.conns, &conn->node);
	pending->state = NIC_IW_NONE;
	if (listener->is_full) {
		listener->is_full = false;
		iwcm_watch_fd(listener->fd, EPOLLIN, EPOLL_CTL_MOD);
	}
}

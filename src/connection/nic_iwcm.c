/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: `lock`, the manager's; see lock_order.def. The thread takes no other.
 *
 * Thread: one. It sleeps in epoll until a socket is ready or the earliest deadline is due. epoll
 * reports a descriptor number, and the thread looks up its connection under the lock. If the
 * connection has closed and another one has the number, the thread reads that one to no effect.
 */
#include "connection/nic_iwcm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/text.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "os/cancel.h"
#include "os/clock.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"
#include "os/setting.h"

#define CONNECT_NS 20000000000ull
#define REQUEST_NS 10000000000ull
#define HURRY_NS   500000000ull /* instead of REQUEST_NS, while other peers wait for a free place */
#define REFUSED_NS 50000000ull
#define REPLY_NS   60000000000ull /* long, because the peer's program decides */

enum {
	EVENTS_MAX = 64,
	REFUSALS_MAX = 10, /* REFUSED_NS apart, half a second in all; see conn_refused() */
	PENDING_MIN = 16, /* least number of a listener's connections without a request */
};

static struct manager {
	bool is_running;
	int epoll;
	int kick; /* eventfd that ends the thread's sleep */
	uint64_t sleeps_until_ns; /* deadline that the thread waits for */
	nic_iw_event_fn *on_event;
	struct list conns; /* connections whose descriptors the manager has */
	struct list listeners;
} manager;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int manager_enter(void)
{
	int cancel = cancel_forbid();

	pthread_mutex_lock(&lock);
	return cancel;
}

static void manager_leave(int cancel)
{
	pthread_mutex_unlock(&lock);
	cancel_allow(cancel);
}

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

static int fd_watch(int fd, uint32_t events, int operation)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_ctl(manager.epoll, operation, fd, &event)
		? log_refusal("a connection cannot be served", "epoll_ctl")
		: 0;
}

static void manager_kick(void)
{
	kick_raise(manager.kick);
}

static void set_deadline(struct nic_iw_conn *conn, uint64_t wait_ns)
{
	conn->deadline_ns = clock_now_ns() + wait_ns;
	if (conn->deadline_ns < manager.sleeps_until_ns)
		manager_kick();
}

/* Take a connection's descriptor from the manager; the caller owns it. */
static int conn_release_fd(struct nic_iw_conn *conn)
{
	int fd = conn->fd;

	list_remove(&conn->node);
	if (fd >= 0)
		epoll_ctl(manager.epoll, EPOLL_CTL_DEL, fd, NULL);
	conn->fd = -1;
	return fd;
}

/* Close a connection that no queue pair has taken over. */
static void conn_drop(struct nic_iw_conn *conn)
{
	struct nic_iw_listener *listener = conn->listener;

	if (conn->state == NIC_IW_NONE || conn->state == NIC_IW_OPEN)
		return;
	int fd = conn_release_fd(conn);

	if (fd >= 0)
		close(fd);
	conn->state = NIC_IW_NONE;
	if (listener && listener->is_full) {
		listener->is_full = false;
		fd_watch(listener->fd, EPOLLIN, EPOLL_CTL_MOD);
	}
}

static void conn_fail(struct nic_iw_conn *conn, int error)
{
	bool has_user = !conn->listener;

	conn_drop(conn);
	conn->error = error;
	if (has_user)
		manager.on_event(NIC_IW_FAILED, conn);
}

/* --- frames --- */

/*
 * Send the MPA frame that is pending; it fits the buffer of an idle socket. Returns 0, or -errno
 * when the connection is broken.
 */
static int frame_send(struct nic_iw_conn *conn, int fd)
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
	fd_watch(conn->fd, 0, EPOLL_CTL_MOD);
	conn->state = NIC_IW_DECIDING;
	conn->deadline_ns = UINT64_MAX;
	if (event == MPA_REQUESTED) {
		manager.on_event(NIC_IW_REQUESTED, conn);
		if (conn->state == NIC_IW_DECIDING) /* on_event adopted no connection */
			conn_drop(conn);
	} else if (event == MPA_ACCEPTED) {
		manager.on_event(NIC_IW_ACCEPTED, conn);
	} else {
		conn_drop(conn);
		manager.on_event(NIC_IW_REJECTED, conn);
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
			conn_fail(conn, bytes ? (int)bytes : -ECONNRESET);
			return;
		}
		event = mpa_received(&conn->mpa, (uint32_t)bytes);
		if (event == MPA_INVALID) {
			log_write(LOG_INFO, "MPA: %s", rdmap_error_sentence(conn->mpa.error));
			frame_send(conn, conn->fd);
			conn_fail(conn, -EPROTO);
			return;
		}
		if (event != MPA_NOTHING) {
			request_note(conn, event);
			return;
		}
	}
}

static int connect_attempt(struct nic_iw_conn *conn)
{
	int fd = port_tcp_connect(&conn->local, &conn->remote, conn->tos);
	int error;

	if (fd < 0)
		return fd;
	error = fd_watch(fd, EPOLLOUT, EPOLL_CTL_ADD);
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
 * connection at a time (perftest) listens again within a moment, so try again. Hosts without TCP
 * resets stay silent instead, which has the same effect.
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
		error = frame_send(conn, conn->fd);
	if (!error)
		error = fd_watch(conn->fd, EPOLLIN, EPOLL_CTL_MOD);
	if (error) {
		conn_fail(conn, error);
		return;
	}
	conn->state = NIC_IW_REQUESTING;
	set_deadline(conn, REPLY_NS);
}

static void conn_serve(struct nic_iw_conn *conn)
{
	switch (conn->state) {
	case NIC_IW_CONNECTING:
		conn_connected(conn);
		break;
	case NIC_IW_REQUESTING:
	case NIC_IW_LISTENING:
		frame_receive(conn);
		break;
	case NIC_IW_DECIDING: /* reset by the peer: the program's next call fails */
		epoll_ctl(manager.epoll, EPOLL_CTL_DEL, conn->fd, NULL);
		break;
	case NIC_IW_NONE:
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
	list_append(&manager.conns, &conn->node);
	if (port_tcp_addresses(fd, &conn->local, &conn->remote) ||
		fd_watch(fd, EPOLLIN, EPOLL_CTL_ADD))
		conn_drop(conn);
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
 * A connection that went before accept() is no failure. Log other errors once: epoll reports them
 * again and again.
 */
static void accept_failed(int error)
{
	static atomic_bool is_logged;

	if (error == EAGAIN || error == ECONNABORTED || error == EINTR ||
		atomic_exchange(&is_logged, true))
		return;
	errno = error;
	log_refusal("a connection was not accepted", "accept4");
}

static void listener_serve(struct nic_iw_listener *listener)
{
	for (;;) {
		struct nic_iw_conn *conn = pending_find(listener);
		int fd;

		if (!conn) {
			listener->is_full = true;
			fd_watch(listener->fd, 0, EPOLL_CTL_MOD);
			pending_shorten_deadlines(listener);
			return;
		}
		fd = port_tcp_accept(listener->fd);
		if (fd < 0) {
			accept_failed(-fd);
			return;
		}
		accept_one(listener, conn, fd);
	}
}

/* --- the thread --- */

static void socket_serve(int fd)
{
	list_for_each(listener, &manager.listeners, struct nic_iw_listener, node)
		if (listener->fd == fd) {
			listener_serve(listener);
			return;
		}
	list_for_each(conn, &manager.conns, struct nic_iw_conn, node)
		if (conn->fd == fd) {
			conn_serve(conn);
			return;
		}
}

/* Drop connections whose deadline has passed. Returns the next deadline. */
static uint64_t conns_expire(void)
{
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;
	struct list *node = manager.conns.next;

	while (node != &manager.conns) {
		struct nic_iw_conn *conn = container_of(node, struct nic_iw_conn, node);

		node = node->next;
		if (conn->deadline_ns <= now_ns) {
			int error =
				conn->state == NIC_IW_REFUSED ? connect_attempt(conn) : -ETIMEDOUT;

			if (error) {
				conn_fail(conn, error);
				continue;
			}
		}
		next_ns = min_u64(next_ns, conn->deadline_ns);
	}
	return next_ns;
}

static int sleep_ms(uint64_t until_ns)
{
	uint64_t now_ns = clock_now_ns();

	if (until_ns == UINT64_MAX)
		return -1;
	return until_ns <= now_ns
		? 0
		: (int)min_u64(div_ceil_u64(until_ns - now_ns, 1000000), INT32_MAX);
}

static void *thread_main(void *unused)
{
	struct epoll_event events[EVENTS_MAX];
	int count = 0;

	(void)unused;
	own_thread_wake();
	for (;;) {
		int timeout_ms;

		pthread_mutex_lock(&lock);
		for (int i = 0; i < count; i++)
			socket_serve(events[i].data.fd);
		manager.sleeps_until_ns = conns_expire();
		timeout_ms = sleep_ms(manager.sleeps_until_ns);
		pthread_mutex_unlock(&lock);
		count = own_thread_epoll_wait(manager.epoll, events, EVENTS_MAX, timeout_ms);
		kick_clear(manager.kick);
	}
	return NULL;
}

/* --- life --- */

static int manager_start(nic_iw_event_fn *on_event)
{
	int error;

	list_init(&manager.conns);
	list_init(&manager.listeners);
	manager.on_event = on_event;
	manager.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (manager.epoll < 0)
		return log_refusal("no connection manager", "epoll_create1");
	manager.kick = kick_create("no connection manager");
	error = manager.kick < 0 ? manager.kick : fd_watch(manager.kick, EPOLLIN, EPOLL_CTL_ADD);
	if (!error)
		error = own_thread_start(NULL, "urnic-iwcm", thread_main, NULL);
	if (error) {
		close(manager.epoll);
		if (manager.kick >= 0)
			close(manager.kick);
		return error;
	}
	manager.is_running = true;
	return 0;
}

int nic_iwcm_start(nic_iw_event_fn *on_event)
{
	int cancel, error;

	nic_enter();
	error = nic_start(); /* registers the fork handlers */
	nic_leave();
	cancel = manager_enter();
	if (!error && !manager.is_running)
		error = manager_start(on_event);
	manager_leave(cancel);
	return error;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void fork_child(void)
{
	if (manager.is_running) {
		list_for_each(conn, &manager.conns, struct nic_iw_conn, node)
			close(conn->fd);
		list_for_each(listener, &manager.listeners, struct nic_iw_listener, node)
			close(listener->fd);
		close(manager.epoll);
		close(manager.kick);
	}
	memset(&manager, 0, sizeof(manager));
	pthread_mutex_unlock(&lock);
}

const struct nic_part nic_iwcm_part = {
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
};

/* --- what the program wants --- */

int nic_iwcm_listen(struct nic_iw_listener *listener, const struct port_tcp_address *local,
	bool is_ipv6_only, uint32_t backlog)
{
	int cancel, error;

	listener->room = max_u32(backlog, PENDING_MIN);
	listener->pending = calloc(listener->room, sizeof(*listener->pending));
	if (!listener->pending)
		return -ENOMEM;
	listener->is_full = false;
	listener->fd = port_tcp_listen(local, is_ipv6_only, (int)backlog);
	error = listener->fd < 0 ? listener->fd : 0;
	/* The program gets these two errors; they need no line in the log. */
	if (error && error != -EADDRINUSE && error != -EADDRNOTAVAIL) {
		errno = -error;
		log_refusal("no listener for iWARP connections", "socket, bind or listen");
	}
	if (!error) {
		cancel = manager_enter();
		list_append(&manager.listeners, &listener->node);
		error = fd_watch(listener->fd, EPOLLIN, EPOLL_CTL_ADD);
		manager_leave(cancel);
	}
	if (error) {
		if (listener->fd < 0)
			list_init(&listener->node);
		nic_iwcm_unlisten(listener);
	}
	return error;
}

void nic_iwcm_unlisten(struct nic_iw_listener *listener)
{
	int cancel;

	if (!listener->pending)
		return;
	cancel = manager_enter();
	list_remove(&listener->node);
	if (listener->fd >= 0)
		close(listener->fd);
	for (uint32_t i = 0; i < listener->room; i++) {
		listener->pending[i].listener = NULL;
		conn_drop(&listener->pending[i]);
	}
	manager_leave(cancel);
	free(listener->pending);
	listener->pending = NULL;
	listener->fd = -1;
}

int nic_iwcm_connect(struct nic_iw_conn *conn, uint8_t tos)
{
	int cancel = manager_enter(), error;

	conn->tos = tos;
	conn->error = 0;
	conn->refusals = 0;
	error = connect_attempt(conn);
	if (!error)
		list_append(&manager.conns, &conn->node);
	manager_leave(cancel);
	return error;
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
	list_append(&manager.conns, &conn->node);
	pending->state = NIC_IW_NONE;
	if (listener->is_full) {
		listener->is_full = false;
		fd_watch(listener->fd, EPOLLIN, EPOLL_CTL_MOD);
	}
}

static void stream_over(struct nic_stream_user *user)
{
	struct nic_iw_conn *conn = container_of(user, struct nic_iw_conn, stream);

	if (!atomic_exchange(&conn->is_end_reported, true))
		manager.on_event(NIC_IW_ENDED, conn);
}

int nic_iwcm_open(struct nic_iw_conn *conn, uint32_t qpn, uint32_t ifindex)
{
	const struct qp_path path = {
		.ifindex = ifindex, .local = conn->local.gid, .remote = conn->remote.gid};
	int cancel = manager_enter();
	int error = conn->state == NIC_IW_DECIDING ? frame_send(conn, conn->fd) : -EINVAL;
	int fd = -1;

	if (!error) {
		fd = conn_release_fd(conn);
		conn->state = NIC_IW_OPEN;
		atomic_store(&conn->is_end_reported, false);
	}
	manager_leave(cancel);
	if (error)
		return error == -EINVAL ? error : -ECONNRESET;
	conn->stream.over = stream_over;
	error = nic_stream_open(qpn, fd, &conn->mpa.settings, &path, &conn->stream);
	if (error) {
		mpa_terminate(&conn->mpa, RDMAP_ERROR_MPA_CATASTROPHIC);
		frame_send(conn, fd);
		close(fd);
		conn->state = NIC_IW_NONE;
	}
	return error;
}

void nic_iwcm_reject(struct nic_iw_conn *conn)
{
	int cancel = manager_enter();

	if (conn->state == NIC_IW_DECIDING) {
		frame_send(conn, conn->fd);
		conn_drop(conn);
	}
	manager_leave(cancel);
}

void nic_iwcm_disconnect(struct nic_iw_conn *conn)
{
	if (conn->state == NIC_IW_OPEN)
		nic_stream_end(&conn->stream, false);
}

void nic_iwcm_close(struct nic_iw_conn *conn)
{
	int cancel = manager_enter();

	conn_drop(conn);
	manager_leave(cancel);
	if (conn->state == NIC_IW_OPEN)
		nic_stream_end(&conn->stream, true);
	conn->state = NIC_IW_NONE;
}

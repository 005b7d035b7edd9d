/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: `lock`, the manager's; see lock_order.def.
 *
 * Thread: one. It sleeps in epoll until a socket is ready or the earliest deadline is due. Then it
 * asks epoll again, under the lock, which sockets are ready.
 */
#include "connection/nic_iwcm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "connection/nic_iwcm_handshake.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/cancel.h"
#include "os/clock.h"
#include "os/epoll.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"

enum {
	EVENTS_MAX = 64,
	PENDING_MIN = 16, /* a listener's least number of places; see nic_iwcm.h */
};

struct iwcm_manager iwcm_manager;
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

/* --- the thread --- */

static void socket_serve(int fd)
{
	list_for_each(listener, &iwcm_manager.listeners, struct nic_iw_listener, node)
		if (listener->fd == fd) {
			iwcm_serve_listener(listener);
			return;
		}
	list_for_each(conn, &iwcm_manager.conns, struct nic_iw_conn, node)
		if (conn->fd == fd) {
			iwcm_serve_conn(conn);
			return;
		}
}

/* End connections whose deadline has passed, or let them connect. Returns the next deadline. */
static uint64_t conns_expire(void)
{
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;
	struct list *node = iwcm_manager.conns.next;

	while (node != &iwcm_manager.conns) {
		struct nic_iw_conn *conn = container_of(node, struct nic_iw_conn, node);

		node = node->next;
		if (conn->deadline_ns <= now_ns) {
			bool has_turn =
				conn->state == NIC_IW_REFUSED || conn->state == NIC_IW_QUEUED;
			int error = has_turn ? iwcm_connect(conn) : -ETIMEDOUT;

			if (error) {
				iwcm_fail(conn, error);
				continue;
			}
		}
		next_ns = min_u64(next_ns, conn->deadline_ns);
	}
	return next_ns;
}

/* Watch listeners again whose pause is over. Returns when the next pause ends. */
static uint64_t listeners_resume(void)
{
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;

	list_for_each(listener, &iwcm_manager.listeners, struct nic_iw_listener, node)
		next_ns = min_u64(next_ns, iwcm_listener_resume(listener, now_ns));
	return next_ns;
}

/*
 * Serve the sockets that are ready now. The manager is locked, so no thread closes a socket, and
 * a descriptor that epoll reports is that of the ready socket, not of a later one.
 */
static void sockets_serve(void)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_sleep(iwcm_manager.epoll, events, EVENTS_MAX, 0);

	for (int i = 0; i < count; i++)
		socket_serve(events[i].data.fd);
}

static void *thread_main(void *unused)
{
	struct epoll_event unused_events[EVENTS_MAX];

	(void)unused;
	own_thread_wake();
	for (;;) {
		int timeout_ms;

		pthread_mutex_lock(&lock);
		sockets_serve();
		iwcm_manager.sleeps_until_ns = min_u64(conns_expire(), listeners_resume());
		timeout_ms = clock_ms_until(iwcm_manager.sleeps_until_ns);
		pthread_mutex_unlock(&lock);
		/*
		 * epoll puts the sockets that it reports at the end of its list. This call reports
		 * all of them, so their order stays the same, and sockets_serve() gets them in the
		 * order in which they became ready. A program may number its connections in that
		 * order.
		 */
		own_thread_epoll_wait(iwcm_manager.epoll, unused_events, EVENTS_MAX, timeout_ms);
		kick_clear(iwcm_manager.kick);
	}
	return NULL;
}

/* --- life --- */

static int manager_start(nic_iw_event_fn *on_event)
{
	int error;

	list_init(&iwcm_manager.conns);
	list_init(&iwcm_manager.listeners);
	iwcm_manager.on_event = on_event;
	iwcm_manager.epoll = epoll_open(EPOLL_CLOEXEC);
	if (iwcm_manager.epoll < 0)
		return log_refusal("no connection manager", "epoll_create1");
	iwcm_manager.kick = kick_create("no connection manager");
	error = iwcm_manager.kick < 0 ? iwcm_manager.kick
				      : iwcm_watch_fd(iwcm_manager.kick, EPOLLIN, EPOLL_CTL_ADD);
	if (!error)
		error = own_thread_start(NULL, "urnic-iwcm", thread_main, NULL);
	if (error) {
		close(iwcm_manager.epoll);
		if (iwcm_manager.kick >= 0)
			close(iwcm_manager.kick);
		return error;
	}
	iwcm_manager.is_running = true;
	return 0;
}

int nic_iwcm_start(nic_iw_event_fn *on_event)
{
	int cancel, error;

	nic_enter();
	error = nic_start(); /* registers the fork handlers, too */
	nic_leave();
	cancel = manager_enter();
	if (!error && !iwcm_manager.is_running)
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
	if (iwcm_manager.is_running) {
		list_for_each(conn, &iwcm_manager.conns, struct nic_iw_conn, node)
			close(conn->fd);
		list_for_each(listener, &iwcm_manager.listeners, struct nic_iw_listener, node)
			close(listener->fd);
		close(iwcm_manager.epoll);
		close(iwcm_manager.kick);
	}
	memset(&iwcm_manager, 0, sizeof(iwcm_manager));
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
	listener->again_ns = 0;
	listener->fd = port_tcp_listen(local, is_ipv6_only, (int)backlog);
	error = listener->fd < 0 ? listener->fd : 0;
	if (!error) {
		cancel = manager_enter();
		list_append(&iwcm_manager.listeners, &listener->node);
		error = iwcm_watch_fd(listener->fd, EPOLLIN, EPOLL_CTL_ADD);
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
		iwcm_drop(&listener->pending[i]);
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
	error = iwcm_queue(conn) ? 0 : iwcm_connect(conn);
	if (!error)
		list_append(&iwcm_manager.conns, &conn->node);
	manager_leave(cancel);
	return error;
}

static void stream_over(struct nic_stream_user *user)
{
	struct nic_iw_conn *conn = container_of(user, struct nic_iw_conn, stream);

	if (!atomic_exchange(&conn->is_end_reported, true))
		iwcm_manager.on_event(NIC_IW_ENDED, conn);
}

int nic_iwcm_open(struct nic_iw_conn *conn, uint32_t qpn, uint32_t ifindex)
{
	const struct qp_path path = {
		.ifindex = ifindex, .local = conn->local.gid, .remote = conn->remote.gid};
	int cancel = manager_enter();
	int error = conn->state == NIC_IW_DECIDING ? iwcm_send_frame(conn, conn->fd) : -EINVAL;
	int fd = -1;

	if (!error) {
		fd = iwcm_release_fd(conn);
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
		iwcm_send_frame(conn, fd);
		close(fd);
		conn->state = NIC_IW_NONE;
	}
	return error;
}

void nic_iwcm_reject(struct nic_iw_conn *conn)
{
	int cancel = manager_enter();

	if (conn->state == NIC_IW_DECIDING) {
		iwcm_send_frame(conn, conn->fd);
		iwcm_drop(conn);
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

	iwcm_drop(conn);
	manager_leave(cancel);
	if (conn->state == NIC_IW_OPEN)
		nic_stream_end(&conn->stream, true);
	conn->state = NIC_IW_NONE;
}

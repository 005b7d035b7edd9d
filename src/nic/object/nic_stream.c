/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP connections of iWARP queue pairs (nic/object/nic_stream.h).
 *
 * qp->stream_user and stream_user->qp refer to each other. A thread that changes them has the NIC
 * and the worker locked; a thread that reads them needs one of the two locks.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/text.h"
#include "nic/object/nic_object.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/setting.h"
#include "port/tcp.h"

enum { USER_TIMEOUT_S_MIN = 2, USER_TIMEOUT_S_MAX = 86400 };

/* The value of URNIC_TCP_USER_TIMEOUT in seconds (docs/environment.md); 0: the kernel's default. */
static unsigned user_timeout_choose(void)
{
	static atomic_bool is_logged;
	const char *text = setting_text("URNIC_TCP_USER_TIMEOUT");
	unsigned seconds;

	if (!text)
		return PORT_TCP_USER_TIMEOUT_S;
	if (text_number(text, 0, USER_TIMEOUT_S_MAX, &seconds) &&
		(!seconds || seconds >= USER_TIMEOUT_S_MIN))
		return seconds;
	if (!atomic_exchange(&is_logged, true))
		log_write(LOG_ERROR,
			"URNIC_TCP_USER_TIMEOUT is '%.40s'; it may be 0, or %d to %d; using %d",
			text, USER_TIMEOUT_S_MIN, USER_TIMEOUT_S_MAX, PORT_TCP_USER_TIMEOUT_S);
	return PORT_TCP_USER_TIMEOUT_S;
}

int nic_stream_make(struct nic_qp *qp)
{
	qp->stream = calloc(1, sizeof(*qp->stream));
	if (!qp->stream)
		return -ENOMEM;
	qp->stream->fd = -1;
	return 0;
}

/* The worker is locked. */
static int open_locked(struct nic_qp *qp, int fd, const struct iwarp_settings *settings,
	const struct qp_path *path)
{
	struct iwarp_qp *iwarp = iwarp_from_qp(qp->qp);
	unsigned user_timeout_s = user_timeout_choose();
	int error;

	if (qp->stream->fd >= 0)
		return -EINVAL;
	nic_impair_stream();
	if (user_timeout_s)
		port_tcp_set_user_timeout(fd, user_timeout_s);
	*qp->stream = (struct worker_stream){
		.fd = fd, .iwarp = iwarp, .silence_max_ns = user_timeout_s * 1000000000ull};
	error = worker_stream_add(qp->worker, qp->stream);
	if (!error) {
		error = iwarp_open(iwarp, settings, qp->worker->now_ns);
		if (error)
			worker_stream_remove(qp->worker, qp->stream);
	}
	if (error) {
		qp->stream->fd = -1;
		return error;
	}
	qp->qp->attr.path = *path;
	qp_path_publish(qp->qp);
	return 0;
}

int nic_stream_open(uint32_t qpn, int fd, const struct iwarp_settings *settings,
	const struct qp_path *path, struct nic_stream_user *user)
{
	struct nic_qp *qp;
	int error = -EINVAL;

	nic_enter();
	qp = nic.is_up ? nic_qp_find(qpn, QP_TYPE_IWARP) : NULL;
	if (qp) {
		worker_lock(qp->worker);
		qp->worker->now_ns = clock_now_ns();
		error = open_locked(qp, fd, settings, path);
		if (!error) {
			qp->stream_user = user;
			user->qp = qp;
			worker_send(qp->worker, true);
		}
		worker_unlock(qp->worker);
	}
	nic_leave();
	return error;
}

void nic_stream_end(struct nic_stream_user *user, bool is_abandoned)
{
	struct nic_qp *qp;

	nic_enter();
	qp = user->qp;
	if (qp) {
		worker_lock(qp->worker);
		qp->worker->now_ns = clock_now_ns();
		if (is_abandoned) {
			qp->stream_user = NULL;
			user->qp = NULL;
		}
		if (qp->qp->state != QP_ERR && qp->qp->state != QP_RESET)
			qp_set_state(qp->qp, QP_ERR, qp->worker->now_ns);
		worker_send(qp->worker, true);
		worker_unlock(qp->worker);
	}
	nic_leave();
}

void nic_stream_over(struct nic_qp *qp)
{
	worker_stream_close(qp->worker, qp->stream);
	if (qp->stream_user)
		qp->stream_user->over(qp->stream_user);
}

void nic_stream_forget(struct nic_qp *qp)
{
	struct nic_stream_user *user = qp->stream_user;

	if (qp->stream)
		worker_stream_close(qp->worker, qp->stream);
	if (!user)
		return;
	qp->stream_user = NULL;
	user->qp = NULL;
	user->over(user);
}

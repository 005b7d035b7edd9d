/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's calls. Each locks the manager, makes the call of cm/cm.h, and delivers its results.
 */
#include <time.h>

#include "connection/nic_cm.h"
#include "connection/nic_cm_manager.h"
#include "nic/nic_internal.h"
#include "os/clock.h"

/*
 * How long an acknowledgement may arrive after a DREQ that the peer sent later. The kernel receives
 * packets that were sent on different processors in either order, and a processor with eight
 * runnable threads may be a few time slices of 3 ms behind.
 */
#define LATE_ACKNOWLEDGEMENT_NS 20000000

/* The result of a call of cm/cm.h on the locked manager `cm`. */
#define MANAGER_CALL(call)                              \
	({                                              \
		int cancel_;                            \
		struct cm *cm = nic_cm_enter(&cancel_); \
		int rc_ = (call);                       \
                                                        \
		nic_cm_leave(cancel_);                  \
		rc_;                                    \
	})

int nic_cm_conn_create(struct cm_conn *conn, void *user)
{
	return MANAGER_CALL(cm_conn_create(cm, conn, user));
}

void nic_cm_release(struct cm_conn *conn)
{
	int cancel;
	struct cm *cm = nic_cm_enter(&cancel);

	cm_release(cm, conn, clock_now_ns());
	nic_cm_leave(cancel);
}

void nic_cm_listen(struct cm_listener *listener)
{
	int cancel;
	struct cm *cm = nic_cm_enter(&cancel);

	cm_listen(cm, listener);
	nic_cm_leave(cancel);
}

void nic_cm_listener_add(struct cm_listener *listener, struct cm_conn *conn)
{
	int cancel;

	nic_cm_enter(&cancel);
	cm_listener_add(listener, conn);
	nic_cm_leave(cancel);
}

void nic_cm_unlisten(struct cm_listener *listener)
{
	int cancel;
	struct cm *cm = nic_cm_enter(&cancel);
	struct cm_conn *spare;

	while ((spare = cm_listener_take(listener))) {
		cm_release(cm, spare, clock_now_ns());
		nic_cm_pump();
	}
	cm_unlisten(listener);
	nic_cm_leave(cancel);
}

int nic_cm_connect(struct cm_conn *conn, const struct cm_path *path, const struct cm_req *req)
{
	return MANAGER_CALL(cm_connect(cm, conn, path, req, clock_now_ns()));
}

int nic_cm_accept(struct cm_conn *conn, const struct cm_rep *rep)
{
	return MANAGER_CALL(cm_accept(cm, conn, rep, clock_now_ns()));
}

int nic_cm_reject(struct cm_conn *conn, const struct cm_rej *rej)
{
	return MANAGER_CALL(cm_reject(cm, conn, rej, clock_now_ns()));
}

int nic_cm_ready(struct cm_conn *conn)
{
	return MANAGER_CALL(cm_ready(cm, conn, clock_now_ns()));
}

int nic_cm_establish(struct cm_conn *conn)
{
	return MANAGER_CALL(cm_establish(cm, conn, clock_now_ns()));
}

/*
 * Drive the lane of the connection's queue pair. Returns true if the queue pair has requests that
 * the peer may still acknowledge.
 */
static bool lane_drive(const struct cm_conn *conn)
{
	struct worker *worker;
	bool has_unacknowledged = false;

	nic_enter();
	worker = nic_worker_of_slot(conn->local_qpn >> 16);
	if (worker) {
		const struct qp *qp;

		worker_lock(worker);
		worker_drain(worker);
		qp = engine_qp_find(&worker->lane, conn->local_qpn);
		has_unacknowledged = qp && (qp->state == QP_RTS || qp->state == QP_SQD) &&
			qp->sq->posted != qp->sq->completed;
		worker_unlock(worker);
	}
	nic_leave();
	return has_unacknowledged;
}

void nic_cm_drive_lane(const struct cm_conn *conn)
{
	lane_drive(conn);
}

void nic_cm_await_acknowledgements(const struct cm_conn *conn)
{
	const struct timespec pause = {.tv_nsec = 100000};
	uint64_t end_ns = clock_now_ns() + LATE_ACKNOWLEDGEMENT_NS;

	while (lane_drive(conn) && clock_now_ns() < end_ns)
		nanosleep(&pause, NULL);
}

int nic_cm_disconnect(struct cm_conn *conn)
{
	return MANAGER_CALL(cm_disconnect(cm, conn, clock_now_ns()));
}

int nic_cm_sidr_request(
	struct cm_conn *conn, const struct cm_path *path, const struct cm_sidr_req *request)
{
	return MANAGER_CALL(cm_sidr_request(cm, conn, path, request, clock_now_ns()));
}

int nic_cm_sidr_answer(struct cm_conn *conn, const struct cm_sidr_rep *answer)
{
	return MANAGER_CALL(cm_sidr_answer(cm, conn, answer, clock_now_ns()));
}

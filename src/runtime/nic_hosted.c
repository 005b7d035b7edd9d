/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/nic_hosted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/hosted.h"
#include "runtime/log.h"
#include "runtime/nic_internal.h"

/* --- giving back --- */

/* The worker is not locked. */
static void destroy(struct hosted_srq *srq)
{
	if (srq->is_reached)
		nic_host_put(container_of(srq->far.host, struct nic_host, far));
	free(srq);
}

static bool is_any(const struct hosted_srq *srq, const void *context)
{
	(void)srq;
	(void)context;
	return true;
}

static bool is_of_peer(const struct hosted_srq *srq, const void *peer)
{
	return srq->is_reached && container_of(srq->far.host, struct nic_host, far)->peer == peer;
}

/* It was withdrawn: nobody looks for it any more. */
static bool is_over(const struct hosted_srq *srq, const void *context)
{
	(void)context;
	return atomic_load(&srq->told->number) != srq->number ||
		atomic_load(&srq->told->serial) != srq->serial;
}

static void drop(struct nic_local *local,
	bool (*is_it)(const struct hosted_srq *srq, const void *context), const void *context)
{
	struct worker *worker = container_of(local->local.qp->lane, struct worker, lane);
	struct hosted_srq *srq;

	do {
		worker_lock(worker);
		srq = hosted_take(&local->local, is_it, context);
		worker_unlock(worker);
		if (srq)
			destroy(srq);
	} while (srq);
}

void nic_hosted_end(struct nic_local *local)
{
	drop(local, is_any, NULL);
}

void nic_hosted_forget_peer(const struct nic_peer *peer)
{
	list_for_each(local, &nic.locals, struct nic_local, link)
		drop(local, is_of_peer, peer);
}

/* The hosts are forgotten by who has made them. */
void nic_hosted_forget(void)
{
	struct hosted_srq *srq;

	list_for_each(local, &nic.locals, struct nic_local, link)
		while ((srq = hosted_take(&local->local, is_any, NULL)))
			free(srq);
}

/* --- answering --- */

/* A descriptor of what the peer's is about. Returns it, or -errno. */
static int descriptor_get(const struct nic_peer *peer, int32_t descriptor)
{
	int fd = peer->is_self ? dup(descriptor)
			       : (int)syscall(SYS_pidfd_getfd, peer->pidfd, descriptor, 0);

	return fd < 0 ? -errno : fd;
}

/* The process that the target tells of; it is used once more. Returns 0 or -errno. */
static int host_find(
	const struct nic_peer *target, const struct srq_host *told, struct nic_host **ret_host)
{
	int memory = descriptor_get(target, told->memory);

	return memory < 0 ? memory : nic_host_get_process(told->pid, memory, ret_host);
}

/* What of the host is needed to use its queue. Returns 0 or -errno. */
static int srq_reach(struct worker *worker, struct nic_host *host, uint32_t number,
	const struct srq_host *told, struct hosted_srq *srq)
{
	uint64_t *bell_offset;
	int error;

	if (!far_srq_init(&srq->far, &host->far, told->offset, 0, 0) ||
		srq->far.srq.number != number || srq->far.serial != told->serial)
		return -ENOENT;
	bell_offset = &host->far.bell_offset[srq->far.lane];
	error = nic_peer_reach_lane(host->peer, srq->far.lane, bell_offset);
	if (error)
		return error;
	worker_lock(worker);
	srq->seat = far_seat(&host->far, worker->lane.index, srq->far.lane);
	worker_unlock(worker);
	srq->is_reached = srq->seat;
	return srq->seat ? 0 : -ENOSPC;
}

static int srq_find(struct worker *worker, const struct nic_peer *target, uint32_t number,
	const struct srq_host *told, struct hosted_srq *srq)
{
	struct nic_host *host;
	int error = host_find(target, told, &host);

	if (error)
		return error;
	error = srq_reach(worker, host, number, told, srq);
	if (error)
		nic_host_put(host);
	return error;
}

/* What is asked for does not change before it is answered. */
static void answer(struct worker *worker)
{
	struct local_qp *asking;
	struct hosted_srq *srq;
	struct nic_local *local;
	int error;

	worker_lock(worker);
	asking = worker->local.asking;
	worker_unlock(worker);
	if (!asking)
		return;
	local = container_of(asking, struct nic_local, local);
	drop(local, is_over, NULL);
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return; /* it stays a question */
	error = srq_find(worker, local->peer, asking->asked_srqn, &asking->asked_host, srq);
	if (error)
		log_write(LOG_INFO,
			"queue pair 0x%06x goes by packets to shared receive queue 0x%06x of process %u: %s",
			asking->qp->qpn, asking->asked_srqn, asking->asked_host.pid,
			strerror(-error));
	worker_lock(worker);
	if (error && error != -ENOENT)
		qp_count(asking->qp, COUNTER_local_unreachable, 1);
	hosted_answer(asking, srq);
	worker_unlock(worker);
}

void nic_hosted_errand(void)
{
	nic_enter();
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (nic.worker[i])
			answer(nic.worker[i]);
	nic_leave();
}

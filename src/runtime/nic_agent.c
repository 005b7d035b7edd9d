/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC's side of urnicd: slots for its lanes, packets that went astray, a new urnicd after the
 * death of the old one.
 */
#include <errno.h>
#include <stdlib.h>

#include "os/clock.h"
#include "os/log.h"
#include "runtime/nic_control.h"
#include "runtime/nic_internal.h"

enum { RESUME_ATTEMPTS_MAX = 8 };

/* The slot is lost: another process has it now. What lived on it hears so. */
static void worker_fail(struct worker *worker)
{
	worker_lock(worker);
	worker->now_ns = clock_now_ns();
	for (uint32_t number = 0; number < LANE_QP_COUNT_MAX; number++) {
		struct qp *qp = worker->lane.qp_by_number[number];

		if (qp && qp->state != QP_ERR && qp->state != QP_RESET) {
			signal_raise(&worker->lane.signals, &qp->signal, SIGNAL_QP_FATAL);
			qp_set_state(qp, QP_ERR, worker->now_ns);
		}
	}
	worker_unlock(worker);
}

static struct worker *worker_of_slot(uint8_t slot)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		struct worker *worker = __atomic_load_n(&nic.worker[i], __ATOMIC_ACQUIRE);

		if (worker && worker->lane.slot == slot)
			return worker;
	}
	return NULL;
}

static void forwarded_receive(const struct agent_packet *packet)
{
	struct worker *worker = worker_of_slot(packet->head.slot);
	struct packet_origin origin = {
		.source = &packet->head.sgid,
		.destination = &packet->head.dgid,
		.traffic_class = packet->head.tos,
	};

	if (!worker)
		return;
	worker_lock(worker);
	worker->now_ns = clock_now_ns();
	engine_receive(
		&worker->lane, &origin, packet->data, packet->head.data_bytes, worker->now_ns);
	worker_send(worker, true);
	worker_unlock(worker);
}

/*
 * Slots that a new urnicd had given away before it heard of us are lost. Any request may find that
 * out, when it meets a dead urnicd.
 */
static void lost_slots_fail(void)
{
	struct agent_slots lost;

	pthread_mutex_lock(&nic_agent_lock);
	lost = nic.agent.lost;
	pthread_mutex_unlock(&nic_agent_lock);
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		struct worker *worker = __atomic_load_n(&nic.worker[i], __ATOMIC_ACQUIRE);

		if (worker && agent_slots_has(&lost, (uint8_t)worker->lane.slot))
			worker_fail(worker);
	}
}

/* urnicd died. Everything goes on; a new one is told who we are. */
static void agent_resume(void)
{
	int error = -ECONNRESET;

	pthread_mutex_lock(&nic_agent_lock);
	/* The new one may die, too, before it knows us. */
	for (unsigned i = 0; i < RESUME_ATTEMPTS_MAX && error == -ECONNRESET; i++)
		error = agent_client_resume(&nic.agent);
	if (error)
		log_write(LOG_ERROR, "urnicd has died and no new one could be started: %s",
			nic.agent.why);
	pthread_mutex_unlock(&nic_agent_lock);
	lost_slots_fail();
}

void nic_agent_ready(void)
{
	static __thread struct agent_packet packet;
	int error;

	for (;;) {
		pthread_mutex_lock(&nic_agent_lock);
		error = agent_client_receive(&nic.agent, &packet);
		pthread_mutex_unlock(&nic_agent_lock);
		if (error)
			break;
		forwarded_receive(&packet);
	}
	if (error == -ECONNRESET)
		agent_resume();
}

static void signal_deliver(struct worker *worker, struct signal *signal, uint32_t news)
{
	switch (signal->kind) {
	case SIGNAL_KIND_CQ: {
		struct nic_cq *cq = container_of(signal, struct nic_cq, cq.signal);

		if (news & SIGNAL_CQ_HELD)
			nic_cq_hold(cq, worker);
		if (news & ~(uint32_t)SIGNAL_CQ_HELD)
			cq->on_news(cq->user, news & ~(uint32_t)SIGNAL_CQ_HELD);
		break;
	}
	case SIGNAL_KIND_QP: {
		struct nic_qp *qp = container_of(signal, struct qp, signal)->user;

		if (news & SIGNAL_QP_DISCONNECTED)
			nic_stream_over(qp);
		if (news & SIGNAL_QP_ASKS)
			nic_far_ask();
		news &= ~(uint32_t)(SIGNAL_QP_DISCONNECTED | SIGNAL_QP_ASKS);
		if (news)
			qp->on_news(qp->user, news);
		if (news)
			nic_target_tell(qp, news);
		break;
	}
	case SIGNAL_KIND_SRQ: {
		struct nic_srq *srq = container_of(signal, struct nic_srq, srq.signal);

		srq->on_news(srq->user, news);
		break;
	}
	case SIGNAL_KIND_WQ: {
		struct nic_wq *wq = container_of(signal, struct nic_wq, wq.signal);

		wq->on_news(wq->user, news);
		break;
	}
	}
}

static const struct worker_hooks hooks = {
	.forward = nic_control_forward,
	.signal = signal_deliver,
	.alarm = nic_cq_alarm,
};

/* The NIC is locked. */
static int agent_connect(void)
{
	int error;

	if (nic.has_agent)
		return 0;
	error = agent_client_connect(&nic.agent);
	if (error)
		log_write(LOG_ERROR, "%s", nic.agent.why);
	else
		nic.has_agent = true;
	return error;
}

/* Make lane `index`, with a slot that is ours. The NIC is locked. Returns 0 or -errno. */
static int worker_make(uint32_t index, uint8_t slot, struct worker **ret_worker)
{
	struct worker *worker;
	int error = worker_create(
		&nic.arena, &nic.mrs, slot, index, &nic.public->lanes[index], &hooks, &worker);

	if (error)
		return error;
	worker->lane.srqs = nic.srqs;
	atomic_store_explicit(&worker->is_stamping, nic.is_stamping, memory_order_relaxed);
	error = deadline_heap_reserve(&worker->alarms, nic.moderated_count);
	if (!error)
		error = nic_local_lane_start(worker, &nic.public->lanes[index]);
	if (!error)
		error = nic_capture_lane_start(worker, &nic.public->lanes[index]);
	if (error)
		goto fail_destroy;
	error = nic_control_start();
	if (error)
		goto fail_destroy;
	error = worker_start(worker);
	if (error)
		goto fail_destroy;
	atomic_store_explicit(&nic.public->lanes[index].lane_offset, worker->lane.public_offset,
		memory_order_release);
	__atomic_store_n(&nic.worker[index], worker, __ATOMIC_RELEASE);
	*ret_worker = worker;
	return 0;

fail_destroy:
	worker_destroy(worker, false);
	return error;
}

static void slot_give_back(uint8_t slot)
{
	pthread_mutex_lock(&nic_agent_lock);
	agent_client_detach(&nic.agent, slot);
	pthread_mutex_unlock(&nic_agent_lock);
}

/* The NIC is locked. Makes lane `index` if there is none yet. */
int nic_worker_get(uint32_t index, struct worker **ret_worker)
{
	uint8_t slot;
	int error;

	if (nic.worker[index]) {
		*ret_worker = nic.worker[index];
		return 0;
	}
	error = agent_connect();
	if (error)
		return error;
	pthread_mutex_lock(&nic_agent_lock);
	error = agent_client_attach(&nic.agent, nic.memory, &slot);
	if (error)
		log_write(LOG_ERROR, "%s", nic.agent.why);
	pthread_mutex_unlock(&nic_agent_lock);
	if (error)
		return error;
	error = worker_make(index, slot, ret_worker);
	if (error)
		slot_give_back(slot);
	return error;
}

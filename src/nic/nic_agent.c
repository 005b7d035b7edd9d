/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC's side of the connection to urnicd: turns, slots for lanes, packets that urnicd forwards,
 * and the change to a new urnicd after the old one has died.
 *
 * Lock: nic_agent_lock, for the connection and the turn. A thread locks it for microseconds only,
 * and never waits with it locked. A turn is not a lock: a thread that waits for its turn has no
 * lock.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ib/rc/selective_store.h"
#include "nic/nic_control.h"
#include "nic/nic_fabric.h"
#include "nic/nic_failure.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/own_thread.h"

enum {
	RESUME_ATTEMPTS_MAX = 8,
	/* How long the control thread waits at most for the end of another thread's turn. */
	CONTROL_PAUSE_MS = 10,
};

pthread_mutex_t nic_agent_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	bool is_taken; /* a thread has the turn; guarded by nic_agent_lock */
	pthread_cond_t is_over; /* signaled when a turn ends; nic_agent_lock is its mutex */
	int cancel; /* what nic_wait_begin() returned to the thread that has the turn */
	/* A descriptor from urnicd that no object owns yet, or -1; under nic_agent_lock */
	int arriving;
} turn;
static __thread bool is_waiting; /* the calling thread is urnic's, and counts as asleep */

/* --- turns --- */

static void pause_begin(void)
{
	pthread_mutex_unlock(&nic_agent_lock);
	is_waiting = own_thread_nap();
}

static void pause_end(void)
{
	if (is_waiting)
		own_thread_wake();
	pthread_mutex_lock(&nic_agent_lock);
}

static const struct agent_pause agent_pause = {.begin = pause_begin, .end = pause_end};

void nic_agent_start(void)
{
	memset(&turn, 0, sizeof(turn));
	pthread_cond_init(&turn.is_over, NULL);
	turn.arriving = -1;
	agent_client_init(&nic.agent, &agent_pause);
}

void nic_agent_forget(void)
{
	if (turn.arriving >= 0)
		close(turn.arriving);
	agent_client_forget(&nic.agent);
}

/* Wait until no thread has the turn. nic_agent_lock is locked. Returns 0 or -ETIMEDOUT. */
static int turn_await(uint64_t timeout_ns)
{
	uint64_t until_ns = clock_now_ns() + timeout_ns;
	const struct timespec until = {
		(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
	int error = 0;

	while (turn.is_taken && !error)
		error = pthread_cond_clockwait(
			&turn.is_over, &nic_agent_lock, CLOCK_MONOTONIC, &until);
	return turn.is_taken ? -ETIMEDOUT : 0;
}

int nic_agent_log(int error)
{
	if (error)
		log_write(LOG_ERROR, "%s", nic.agent.why);
	return error;
}

int nic_turn_begin(void)
{
	int error;

	pthread_mutex_lock(&nic_agent_lock);
	error = turn_await(AGENT_ANSWER_TIMEOUT_S * 1000000000ull);
	if (!error) {
		turn.is_taken = true;
		return 0;
	}
	/*
	 * urnicd does not answer the thread that has the turn. That thread logs the reason; log the
	 * same reason for this caller.
	 */
	nic_agent_log(agent_client_fail_silent(&nic.agent));
	pthread_mutex_unlock(&nic_agent_lock);
	return error;
}

void nic_turn_end(void)
{
	turn.is_taken = false;
	pthread_cond_broadcast(&turn.is_over);
	pthread_mutex_unlock(&nic_agent_lock);
	nic_control_send_strays();
}

/* nic_agent_lock is locked. Returns true if no thread has the turn; otherwise unlocks. */
static bool turn_check(void)
{
	if (!turn.is_taken)
		return true;
	pthread_mutex_unlock(&nic_agent_lock);
	return false;
}

bool nic_turn_try(void)
{
	return !pthread_mutex_trylock(&nic_agent_lock) && turn_check();
}

bool nic_turn_try_after_wait(void)
{
	pthread_mutex_lock(&nic_agent_lock);
	return turn_check();
}

int nic_request_begin(void)
{
	int cancel = nic_wait_begin();
	int error = nic_turn_begin();

	if (!error)
		pthread_mutex_unlock(&nic_agent_lock);
	nic_wait_end(cancel);
	return error;
}

void nic_request_enter(void)
{
	turn.cancel = nic_wait_begin();
	pthread_mutex_lock(&nic_agent_lock);
}

void nic_request_leave(int fd)
{
	turn.arriving = fd;
	pthread_mutex_unlock(&nic_agent_lock);
	nic_wait_end(turn.cancel);
	turn.arriving = -1;
}

void nic_request_end(void)
{
	pthread_mutex_lock(&nic_agent_lock);
	nic_turn_end();
}

void nic_agent_unclaim(struct agent_claim *claim)
{
	pthread_mutex_lock(&nic_agent_lock);
	if (turn.is_taken) {
		agent_client_unclaim(&nic.agent, claim, false);
		pthread_mutex_unlock(&nic_agent_lock);
		return;
	}
	turn.is_taken = true;
	agent_client_unclaim(&nic.agent, claim, true);
	nic_turn_end();
}

/* --- lanes and packets --- */

static void forwarded_receive(const struct agent_packet *packet)
{
	struct worker *worker = nic_worker_of_slot(packet->head.slot);
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
 * Fail the lanes whose slots are in nic.agent.lost: a new urnicd has leased these slots to other
 * processes before this process resumed its leases. Any request may add to that set, because any
 * request may be the first one to the new urnicd.
 */
static void lost_slots_fail(void)
{
	struct agent_slots lost;
	struct worker *worker;

	pthread_mutex_lock(&nic_agent_lock);
	lost = nic.agent.lost;
	pthread_mutex_unlock(&nic_agent_lock);
	for (uint32_t i = 0; (worker = nic_worker_next(&i));)
		if (agent_slots_has(&lost, (uint8_t)worker->lane.slot))
			NIC_PARTS_CALL(lane_lost, worker);
}

/* urnicd has died: announce this process and its slots to the next urnicd. */
static void agent_resume(void)
{
	int error = -ECONNRESET;

	if (nic_turn_begin())
		return;
	/*
	 * If another thread has already resumed the leases, the loop does nothing. The loop tries
	 * again if the new urnicd dies before it has this process's leases.
	 */
	if (!agent_client_has_ended(&nic.agent))
		error = 0;
	for (unsigned i = 0; i < RESUME_ATTEMPTS_MAX && error == -ECONNRESET; i++)
		error = agent_client_resume(&nic.agent);
	if (error)
		log_write(LOG_ERROR, "urnicd has died and no new one could be started: %s",
			nic.agent.why);
	nic_turn_end();
	lost_slots_fail();
}

/* Receive the next forwarded packet. Returns what agent_client_receive() does, or -ETIMEDOUT. */
static int forwarded_next(struct agent_packet *ret_packet)
{
	int error;

	pthread_mutex_lock(&nic_agent_lock);
	/*
	 * Do not read while another thread has the turn, because the next message may be the answer
	 * to that thread. That thread also reads the packets that come before its answer.
	 */
	error = turn_await(CONTROL_PAUSE_MS * 1000000ull);
	if (!error)
		error = agent_client_receive(&nic.agent, ret_packet);
	pthread_mutex_unlock(&nic_agent_lock);
	return error;
}

void nic_agent_ready(void)
{
	static __thread struct agent_packet packet;
	int error;

	while (!(error = forwarded_next(&packet)))
		forwarded_receive(&packet);
	if (error == -ECONNRESET)
		agent_resume();
}

/* Connect to urnicd, if that was not done yet. nic_agent_lock is locked, in a turn. */
static int agent_connect(void)
{
	int error = nic.has_agent ? 0 : agent_client_begin(&nic.agent);

	nic.has_agent = !error;
	return error;
}

static int parts_lane_start(struct worker *worker, struct nic_public_lane *public)
{
	int error = 0;

	for (const struct nic_part *const *part = nic_parts; *part && !error; part++)
		if ((*part)->lane_start)
			error = (*part)->lane_start(worker, public);
	return error;
}

static int selective_start(struct lane *lane)
{
	if (!nic.is_selective_on)
		return 0;
	lane->selective = selective_store_create(SELECTIVE_STORE_PACKETS);
	return lane->selective ? 0 : -ENOMEM;
}

/*
 * Create lane `index` with `slot`, which urnicd has leased to this process. The NIC is locked.
 * Returns 0 or -errno.
 */
static int worker_make(uint32_t index, uint8_t slot, struct worker **ret_worker)
{
	struct worker *worker;
	int error = worker_create(&nic.arena, &nic.mrs, slot, index, &nic.public->lanes[index],
		&nic_worker_hooks, &worker);

	if (error)
		return error;
	worker->is_spinning_off = nic.is_spinning_off;
	worker->lane.srqs = nic.srqs;
	worker->lane.cc = nic_fabric_is_wanted() ? NULL : nic_congestion();
	worker->lane.failures = nic_failures();
	error = selective_start(&worker->lane);
	atomic_store_explicit(&worker->is_stamping, nic.is_stamping, memory_order_relaxed);
	if (!error)
		error = deadline_heap_reserve(
			&worker->alarms, nic.moderated_count + WORKER_OWN_ALARMS);
	if (!error && nic_fabric_is_wanted())
		error = nic_fabric_lane_begin(worker);
	else if (!error && nic.impair)
		error = worker_impair(worker, nic.impair);
	if (!error)
		error = parts_lane_start(worker, &nic.public->lanes[index]);
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

/*
 * Get a slot from urnicd, and create lane `index` with it. The NIC is locked, in a turn. Returns 0
 * or -errno.
 */
static int worker_lease(uint32_t index)
{
	struct worker *worker;
	uint8_t slot;
	int error;

	nic_request_enter();
	error = agent_connect();
	if (!error)
		error = agent_client_attach(&nic.agent, nic.memory, &slot);
	nic_agent_log(error);
	nic_request_leave(-1);
	if (error)
		return error;
	error = worker_make(index, slot, &worker);
	if (error) {
		pthread_mutex_lock(&nic_agent_lock);
		agent_client_detach(&nic.agent, slot);
		pthread_mutex_unlock(&nic_agent_lock);
	}
	return error;
}

/*
 * worker_lease() for a process on an InfiniBand fabric. There the process of the fabric leases the
 * slot, not urnicd.
 */
static int worker_attach(uint32_t index)
{
	struct worker *worker;
	uint8_t slot;
	int error = nic_fabric_lane_open(index, &slot);

	if (error)
		return error;
	error = worker_make(index, slot, &worker);
	if (error)
		nic_fabric_lane_close(index);
	return error;
}

int nic_worker_get(uint32_t index, struct worker **ret_worker)
{
	int error = 0;

	if (!nic.worker[index]) {
		error = nic_request_begin();
		if (error)
			return error;
		if (!nic.worker[index])
			error = nic_fabric_is_wanted() ? worker_attach(index) : worker_lease(index);
		nic_request_end();
	}
	if (!error)
		*ret_worker = nic.worker[index];
	return error;
}

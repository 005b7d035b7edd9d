/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process's NIC: its memory, its lanes, and the life of its objects.
 *
 * Locks, in order: nic_lock (set-up), a worker's lock, agent_lock (the connection to urnicd).
 */
#include "runtime/nic.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/arith.h"
#include "runtime/agent_client.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/nic_public.h"
#include "runtime/worker.h"

/* Address space of NIC memory. Pages that are never touched cost nothing. */
#define NIC_MEMORY_BYTES (64ull << 30)

enum {
	NIC_LANES_DEFAULT_MAX = 4,
	NIC_POLL_TRIES = 20, /* polls that meet a locked lane before they give up the CPU */
};

struct nic_cq {
	struct cq cq;
	nic_cq_news_fn *on_news;
	void *user;
	uint64_t epoch;
	uint32_t home; /* lane of queue pairs that send into it */
	uint32_t failed_tries; /* of polls to get the lane, in a row; a hint */
	_Atomic uint32_t lane_mask; /* lanes that push into it: those a poll drives */
};

struct nic_qp {
	struct qp *qp;
	struct nic_cq *send_cq;
	struct worker *worker;
	nic_qp_news_fn *on_news;
	void *user;
	uint64_t epoch;
	struct nic_route route;
	bool has_path;
};

struct nic {
	bool is_up;
	int memory; /* memfd */
	struct arena arena;
	struct mr_table mrs;
	struct nic_public *public;
	uint32_t lane_count; /* how many there may be */
	uint32_t next_home;
	struct worker *worker[NIC_LANES_MAX];
	bool has_agent;
	struct agent_client agent;
	struct worker *agent_watcher; /* whose thread looks at urnicd's descriptor */
};

static pthread_mutex_t nic_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t agent_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nic nic;
/* Which NIC of this process's history objects belong to: a fork begins a new one. */
static uint64_t nic_epoch = 1;

/*
 * --- random numbers ------------------------------------------------------------------------------
 * ------------------------
 */

static uint64_t random_u64(void)
{
	uint64_t value = 0;

	while (getrandom(&value, sizeof(value), 0) != sizeof(value))
		assert(errno == EINTR);
	return value;
}

/*
 * --- fork ----------------------------------------------------------------------------------------
 * --------------------------
 */

static void for_each_worker(void (*act)(struct worker *worker))
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (nic.worker[i])
			act(nic.worker[i]);
}

/* So that the child finds nothing half done. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&nic_lock);
	for_each_worker(worker_lock);
	pthread_mutex_lock(&agent_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&agent_lock);
	for_each_worker(worker_unlock);
	pthread_mutex_unlock(&nic_lock);
}

/*
 * The child has no NIC. The parent's memory must not be touched through what the child inherited,
 * so zeros are laid over it: stray polls and posts on old objects find empty queues of no depth. /
 */
static void fork_child(void)
{
	if (nic.is_up) {
		for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
			if (nic.worker[i])
				worker_destroy(nic.worker[i], true);
		if (nic.has_agent)
			agent_client_forget(&nic.agent);
		close(nic.memory);
		void *zeros = mmap(nic.arena.base, NIC_MEMORY_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (zeros == MAP_FAILED)
			abort(); /* going on would corrupt the parent */
		memset(&nic, 0, sizeof(nic));
	}
	nic_epoch++;
	pthread_mutex_unlock(&agent_lock);
	pthread_mutex_unlock(&nic_lock);
}

static void fork_watch(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/*
 * --- starting ------------------------------------------------------------------------------------
 * --------------------------
 */

static uint32_t lane_count_choose(void)
{
	const char *text = getenv("URNIC_LANES");
	cpu_set_t cpus;
	uint32_t count = 1;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		count = (uint32_t)CPU_COUNT(&cpus);
	count = min_u32(max_u32(count, 1), NIC_LANES_DEFAULT_MAX);
	if (text) {
		char *end;
		unsigned long asked = strtoul(text, &end, 10);

		if (*text == '\0' || *end != '\0' || asked < 1 || asked > NIC_LANES_MAX)
			log_write(LOG_ERROR, "URNIC_LANES is '%s'; it may be 1 to %d; using %u",
				text, NIC_LANES_MAX, count);
		else
			count = (uint32_t)asked;
	}
	return count;
}

static int memory_open(void)
{
	void *base;

	nic.memory = memfd_create("urnic", MFD_CLOEXEC);
	if (nic.memory < 0)
		return -errno;
	if (ftruncate(nic.memory, (off_t)NIC_MEMORY_BYTES))
		goto fail_close;
	base = mmap(NULL, NIC_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		nic.memory, 0);
	if (base == MAP_FAILED)
		goto fail_close;
	arena_init(&nic.arena, base, NIC_MEMORY_BYTES);
	return 0;

fail_close:;
	int error = -errno;
	close(nic.memory);
	log_write(LOG_ERROR,
		"no address space for NIC memory (%s): raise the limit on virtual memory (ulimit -v)",
		strerror(-error));
	return error;
}

/* The NIC is locked. */
static int nic_start(void)
{
	static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
	uint64_t offset;
	int error;

	if (nic.is_up)
		return 0;
	pthread_once(&fork_once, fork_watch);
	error = memory_open();
	if (error)
		return error;
	offset = arena_alloc(&nic.arena, sizeof(struct nic_public));
	assert(offset == NIC_PUBLIC_OFFSET);
	error = mr_table_init(&nic.mrs, &nic.arena, MR_SLOT_COUNT_MAX, random_u64(), random_u64());
	if (error) {
		munmap(nic.arena.base, NIC_MEMORY_BYTES);
		close(nic.memory);
		return error;
	}
	nic.public = arena_at(&nic.arena, offset);
	nic.public->magic = NIC_PUBLIC_MAGIC;
	nic.public->version = NIC_PUBLIC_VERSION;
	nic.public->pid = (uint32_t)getpid();
	nic.lane_count = lane_count_choose();
	nic.is_up = true;
	return 0;
}

/*
 * --- urnicd --------------------------------------------------------------------------------------
 * ---------------------------
 */

/* A packet for another slot reached us: its owner gets it by way of urnicd. */
static void forward(uint8_t slot, const struct port_udp_packet *packet)
{
	struct agent_forward head = {
		.sgid = *packet->sgid,
		.dgid = *packet->dgid,
		.data_bytes = packet->data_bytes,
		.source_port = packet->source_port,
		.tos = packet->tos,
		.slot = slot,
	};

	if (packet->data_bytes > AGENT_PACKET_BYTES_MAX)
		return;
	pthread_mutex_lock(&agent_lock);
	agent_client_forward(&nic.agent, &head, packet->data);
	pthread_mutex_unlock(&agent_lock);
}

/* The slot is lost: another process has it now. What lived on it hears so. */
static void worker_fail(struct worker *worker)
{
	worker_lock(worker);
	for (uint32_t number = 0; number < LANE_QP_COUNT_MAX; number++) {
		struct qp *qp = worker->lane.qp_by_number[number];

		if (qp && qp->state != QP_ERR && qp->state != QP_RESET) {
			signal_raise(&worker->lane.signals, &qp->signal, SIGNAL_QP_FATAL);
			qp_set_state(qp, QP_ERR, worker->now_ns);
		}
	}
	worker_signals(worker);
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

	if (!worker)
		return;
	worker_lock(worker);
	worker->now_ns = clock_now_ns();
	engine_receive(&worker->lane, &packet->head.sgid, &packet->head.dgid, packet->data,
		packet->head.data_bytes, worker->now_ns);
	worker_send(worker, true);
	worker_signals(worker);
	worker_unlock(worker);
}

/* urnicd died. Everything goes on; a new one is told who we are. */
static void agent_resume(void)
{
	struct agent_slots lost;

	pthread_mutex_lock(&agent_lock);
	int error = agent_client_resume(&nic.agent);
	if (error)
		log_write(LOG_ERROR, "urnicd has died and no new one could be started: %s",
			nic.agent.why);
	else
		worker_watch_agent(nic.agent_watcher, agent_client_fd(&nic.agent));
	lost = nic.agent.lost;
	pthread_mutex_unlock(&agent_lock);
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (nic.worker[i] && agent_slots_has(&lost, (uint8_t)nic.worker[i]->lane.slot))
			worker_fail(nic.worker[i]);
}

static void agent_ready(void)
{
	static __thread struct agent_packet packet;
	int error;

	for (;;) {
		pthread_mutex_lock(&agent_lock);
		error = agent_client_receive(&nic.agent, &packet);
		pthread_mutex_unlock(&agent_lock);
		if (error)
			break;
		forwarded_receive(&packet);
	}
	if (error == -ECONNRESET)
		agent_resume();
}

/*
 * --- lanes ---------------------------------------------------------------------------------------
 * ----------------------------
 */

static void signal_deliver(struct signal *signal, uint32_t news)
{
	switch (signal->kind) {
	case SIGNAL_KIND_CQ: {
		struct nic_cq *cq = container_of(signal, struct nic_cq, cq.signal);

		cq->on_news(cq->user, news);
		break;
	}
	case SIGNAL_KIND_QP: {
		struct nic_qp *qp = container_of(signal, struct qp, signal)->user;

		qp->on_news(qp->user, news);
		break;
	}
	}
}

static const struct worker_hooks hooks = {
	.forward = forward,
	.signal = signal_deliver,
	.agent_ready = agent_ready,
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

/* The NIC is locked. Makes lane `index` if there is none yet. */
static int worker_get(uint32_t index, struct worker **ret_worker)
{
	struct worker *worker;
	uint8_t slot;
	int error;

	if (nic.worker[index]) {
		*ret_worker = nic.worker[index];
		return 0;
	}
	error = agent_connect();
	if (error)
		return error;
	pthread_mutex_lock(&agent_lock);
	error = agent_client_attach(&nic.agent, nic.memory, &slot);
	pthread_mutex_unlock(&agent_lock);
	if (error) {
		log_write(LOG_ERROR, "%s", nic.agent.why);
		return error;
	}
	error = worker_create(
		&nic.arena, &nic.mrs, slot, index, &nic.public->lanes[index], &hooks, &worker);
	if (error)
		goto fail_detach;
	if (!nic.agent_watcher) {
		error = worker_watch_agent(worker, agent_client_fd(&nic.agent));
		if (error)
			goto fail_destroy;
		nic.agent_watcher = worker;
	}
	error = worker_start(worker);
	if (error)
		goto fail_destroy;
	atomic_store_explicit(&nic.public->lanes[index].lane_offset, worker->lane.public_offset,
		memory_order_release);
	__atomic_store_n(&nic.worker[index], worker, __ATOMIC_RELEASE);
	*ret_worker = worker;
	return 0;

fail_destroy:
	if (nic.agent_watcher == worker)
		nic.agent_watcher = NULL;
	worker_destroy(worker, false);
fail_detach:
	pthread_mutex_lock(&agent_lock);
	agent_client_detach(&nic.agent, slot);
	pthread_mutex_unlock(&agent_lock);
	return error;
}

/*
 * --- memory regions ------------------------------------------------------------------------------
 * ------------------------------
 */

int nic_mr_register(const struct mr_region *region, uint32_t *ret_key)
{
	int error;

	pthread_mutex_lock(&nic_lock);
	error = nic_start();
	if (!error)
		error = mr_table_add(&nic.mrs, region, (uint8_t)random_u64(), ret_key);
	if (!error)
		nic.public->mr_count = mr_table_count(&nic.mrs);
	pthread_mutex_unlock(&nic_lock);
	return error;
}

/* Who copies does so with a lane locked: once each lock was ours, nobody does any more. */
static void worker_pass(struct worker *worker)
{
	worker_lock(worker);
	worker_unlock(worker);
}

int nic_mr_deregister(uint32_t key, uint32_t pd)
{
	bool was_there;

	pthread_mutex_lock(&nic_lock);
	was_there = nic.is_up && mr_table_remove(&nic.mrs, key, pd);
	if (was_there) {
		for_each_worker(worker_pass);
		nic.public->mr_count = mr_table_count(&nic.mrs);
	}
	pthread_mutex_unlock(&nic_lock);
	return was_there ? 0 : -EINVAL;
}

/*
 * --- completion queues ---------------------------------------------------------------------------
 * --------------------------------
 */

int nic_cq_create(uint32_t capacity, nic_cq_news_fn *on_news, void *user, struct nic_cq **ret_cq)
{
	struct nic_cq *cq = calloc(1, sizeof(*cq));
	int error;

	if (!cq)
		return -ENOMEM;
	pthread_mutex_lock(&nic_lock);
	error = nic_start();
	if (!error)
		error = cq_init(&cq->cq, &nic.arena, capacity);
	if (!error) {
		cq->on_news = on_news;
		cq->user = user;
		cq->epoch = nic_epoch;
		cq->home = nic.next_home++ % nic.lane_count;
	}
	pthread_mutex_unlock(&nic_lock);
	if (error)
		free(cq);
	else
		*ret_cq = cq;
	return error;
}

void nic_cq_destroy(struct nic_cq *cq)
{
	pthread_mutex_lock(&nic_lock);
	if (cq->epoch == nic_epoch) {
		for_each_worker(worker_pass); /* a signal of it may be on its way */
		cq_done(&cq->cq, &nic.arena);
	}
	pthread_mutex_unlock(&nic_lock);
	free(cq);
}

uint32_t nic_cq_capacity(const struct nic_cq *cq)
{
	return cq->cq.ring->capacity;
}

/*
 * Do in this thread what the lane can do now. Nobody waits: a locked lane is being driven. But its
 * driver may have lost its CPU, perhaps to this very thread, which polls: after a row of attempts,
 * give it back.
 */
static void drive(struct worker *worker, struct nic_cq *cq)
{
	static __thread uint32_t failed_tries;

	if (!worker_try_lock(worker)) {
		if (++failed_tries >= NIC_POLL_TRIES) {
			failed_tries = 0;
			sched_yield();
		}
		return;
	}
	failed_tries = 0;
	worker_poll(worker, &cq->cq);
	worker_signals(worker);
	worker_unlock(worker);
}

static void drive_all(struct nic_cq *cq)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	for (; lanes; lanes &= lanes - 1)
		drive(nic.worker[__builtin_ctz(lanes)], cq);
}

static bool is_armed(const struct nic_cq *cq)
{
	return atomic_load_explicit(&cq->cq.ring->arm, memory_order_relaxed) != CQ_ARM_NONE;
}

/* Tell the lanes' threads that somebody polls. An armed queue's owner is about to sleep. */
static void note_poll(struct nic_cq *cq)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	if (is_armed(cq))
		return;
	for (; lanes; lanes &= lanes - 1)
		worker_note_poll(nic.worker[__builtin_ctz(lanes)]);
}

uint32_t nic_cq_poll(struct nic_cq *cq, uint32_t count, struct cqe *out)
{
	uint32_t taken = cq_poll(&cq->cq, &nic.arena, count, out);

	if (cq->epoch != nic_epoch)
		return taken;
	note_poll(cq);
	if (taken)
		return taken;
	drive_all(cq);
	return cq_poll(&cq->cq, &nic.arena, count, out);
}

void nic_cq_arm(struct nic_cq *cq, enum cq_arm arm)
{
	if (cq->epoch == nic_epoch)
		cq_arm(&cq->cq, arm);
}

/*
 * --- queue pairs ---------------------------------------------------------------------------------
 * ---------------------------------
 */

int nic_qp_create(const struct nic_qp_init *init, struct nic_qp **ret_qp)
{
	struct nic_qp *qp = calloc(1, sizeof(*qp));
	struct qp_init inner = {
		.type = init->type,
		.pd = init->pd,
		.send_cq = &init->send_cq->cq,
		.recv_cq = &init->recv_cq->cq,
		.caps = init->caps,
		.is_all_signaled = init->is_all_signaled,
		.owner = init->ifindex,
		.user = qp,
	};
	int error;

	if (!qp)
		return -ENOMEM;
	qp->send_cq = init->send_cq;
	qp->on_news = init->on_news;
	qp->user = init->user;
	qp->epoch = nic_epoch;
	pthread_mutex_lock(&nic_lock);
	error = worker_get(init->send_cq->home, &qp->worker);
	if (!error) {
		worker_lock(qp->worker);
		error = engine_qp_create(&qp->worker->lane, &inner, random_u64(), &qp->qp);
		worker_unlock(qp->worker);
	}
	if (!error) {
		uint32_t lane = 1u << init->send_cq->home;

		atomic_fetch_or_explicit(&init->send_cq->lane_mask, lane, memory_order_release);
		atomic_fetch_or_explicit(&init->recv_cq->lane_mask, lane, memory_order_release);
	}
	pthread_mutex_unlock(&nic_lock);
	if (error)
		free(qp);
	else
		*ret_qp = qp;
	return error;
}

void nic_qp_destroy(struct nic_qp *qp)
{
	pthread_mutex_lock(&nic_lock);
	if (qp->epoch == nic_epoch) {
		worker_lock(qp->worker);
		/* What the program has seen complete here, an adapter has acknowledged by now. */
		worker_send(qp->worker, true);
		if (qp->has_path)
			port_udp_path_close(qp->worker->port, qp->qp->attr.path.id);
		engine_qp_destroy(qp->qp);
		worker_unlock(qp->worker);
	}
	pthread_mutex_unlock(&nic_lock);
	free(qp);
}

uint32_t nic_qp_number(const struct nic_qp *qp)
{
	return qp->qp->qpn;
}

/*
 * Make sure that the worker receives on the route's local address. The NIC is locked, the worker is
 * not.
 */
static int address_open(struct worker *worker, const struct nic_route *route)
{
	struct agent_address address = {
		.gid = route->local,
		.scope_ifindex = gid_is_link_local(&route->local) ? route->ifindex : 0,
	};
	int index, socket;

	worker_lock(worker);
	index = worker_address_find(worker, &address.gid, address.scope_ifindex);
	worker_unlock(worker);
	if (index >= 0)
		return index;

	pthread_mutex_lock(&agent_lock);
	int error = agent_client_open(&nic.agent, (uint8_t)worker->lane.slot, &address, &socket);
	pthread_mutex_unlock(&agent_lock);
	if (error) {
		log_write(LOG_ERROR, "%s", nic.agent.why);
		return error;
	}
	worker_lock(worker);
	index = worker_address_add(worker, &address.gid, address.scope_ifindex, socket);
	worker_unlock(worker);
	return index;
}

static int path_open(
	struct nic_qp *qp, const struct nic_route *route, uint32_t dest_qpn, uint32_t *ret_path)
{
	int index = address_open(qp->worker, route);
	int error;

	if (index < 0)
		return index;
	struct port_udp_path settings = {
		.address = (uint8_t)index,
		.destination_slot = (uint8_t)(dest_qpn >> 16),
		.dscp = route->traffic_class >> 2,
		.hop_limit = route->hop_limit,
		.remote = route->remote,
	};
	worker_lock(qp->worker);
	error = port_udp_path_open(qp->worker->port, &settings, ret_path);
	worker_unlock(qp->worker);
	return error;
}

/*
 * The worker is locked. The path that `attr` names is in use; the one that was before is not any
 * more.
 */
static void path_replace(struct nic_qp *qp, const struct nic_route *route, uint32_t old_path)
{
	if (qp->has_path)
		port_udp_path_close(qp->worker->port, old_path);
	qp->has_path = true;
	qp->route = *route;
}

static int modify_with_path(struct nic_qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *asked, const struct nic_route *route)
{
	struct qp_attr attr = *asked;
	uint32_t dest_qpn = mask & ATTR_DEST_QPN ? asked->dest_qpn : qp->qp->attr.dest_qpn;
	int error = path_open(qp, route, dest_qpn, &attr.path.id);

	if (error)
		return error;
	attr.path.local = route->local;
	attr.path.remote = route->remote;
	worker_lock(qp->worker);
	uint32_t old_path = qp->qp->attr.path.id;
	qp->worker->now_ns = clock_now_ns();
	error = qp_modify(qp->qp, to, mask, &attr, qp->worker->now_ns);
	if (error)
		port_udp_path_close(qp->worker->port, attr.path.id);
	else
		path_replace(qp, route, old_path);
	worker_signals(qp->worker);
	worker_unlock(qp->worker);
	return error;
}

static int modify_plain(
	struct nic_qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	int error;

	worker_lock(qp->worker);
	uint32_t old_path = qp->qp->attr.path.id;
	qp->worker->now_ns = clock_now_ns();
	error = qp_modify(qp->qp, to, mask, attr, qp->worker->now_ns);
	if (!error && to == QP_RESET && qp->has_path) {
		port_udp_path_close(qp->worker->port, old_path);
		qp->has_path = false;
	}
	worker_signals(qp->worker);
	worker_unlock(qp->worker);
	return error;
}

int nic_qp_modify(struct nic_qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr,
	const struct nic_route *route)
{
	int error;

	pthread_mutex_lock(&nic_lock);
	if (qp->epoch != nic_epoch)
		error = -EIO;
	else if (mask & ATTR_AV)
		error = modify_with_path(qp, to, mask, attr, route);
	else
		error = modify_plain(qp, to, mask, attr);
	pthread_mutex_unlock(&nic_lock);
	return error;
}

void nic_qp_query(struct nic_qp *qp, enum qp_state *ret_state, struct qp_attr *ret_attr,
	struct nic_route *ret_route)
{
	pthread_mutex_lock(&nic_lock);
	if (qp->epoch != nic_epoch) {
		*ret_state = QP_ERR;
		memset(ret_attr, 0, sizeof(*ret_attr));
		memset(ret_route, 0, sizeof(*ret_route));
	} else {
		worker_lock(qp->worker);
		*ret_state = qp->qp->state;
		*ret_attr = qp->qp->attr;
		*ret_route = qp->route;
		worker_unlock(qp->worker);
	}
	pthread_mutex_unlock(&nic_lock);
}

int nic_qp_post_send(
	struct nic_qp *qp, const struct send_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	struct worker *worker = qp->worker;
	int error;

	*ret_posted = 0;
	if (qp->epoch != nic_epoch)
		return -EINVAL;
	worker_lock(worker);
	worker->now_ns = clock_now_ns();
	error = engine_post_send(qp->qp, wrs, count, ret_posted, worker->now_ns);
	worker_send(worker, true);
	worker_wake(worker);
	worker_signals(worker);
	worker_unlock(worker);
	if (!is_armed(qp->send_cq)) /* it will poll, and a post drives as well as a poll */
		worker_note_poll(worker);
	return error;
}

/*
 * Requests that were posted while the queue pair went to the error state must be flushed like those
 * before them.
 */
static void recv_flush(struct nic_qp *qp)
{
	worker_lock(qp->worker);
	if (qp->qp->state == QP_ERR)
		qp_flush(qp->qp, qp->worker->now_ns);
	worker_signals(qp->worker);
	worker_unlock(qp->worker);
}

int nic_qp_post_recv(
	struct nic_qp *qp, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	int error = 0;
	uint32_t posted;

	*ret_posted = 0;
	if (qp->epoch != nic_epoch)
		return -EINVAL;
	for (posted = 0; posted < count; posted++) {
		error = qp_post_recv(qp->qp, &wrs[posted]);
		if (error)
			break;
	}
	*ret_posted = posted;
	atomic_thread_fence(
		memory_order_seq_cst); /* the posts before the state, as the flusher does it the other way round */
	if (atomic_load_explicit(&qp->qp->public->state, memory_order_relaxed) == QP_ERR)
		recv_flush(qp);
	return error;
}

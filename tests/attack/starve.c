/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long calls wait for a lock that other threads of the program take again and again.
 *
 *   starve [OPTIONS] -w MAX-MS [-n POLLING-THREADS]
 *   starve [OPTIONS] -w turns
 *
 * The first measures set-up calls. The polling threads are pairs, with a completion queue each and
 * a connection: each keeps DEPTH writes under way and polls for their completions, so the lane's
 * lock is hardly ever free. Meanwhile the main thread makes and destroys a completion queue, a
 * queue pair and a region once a millisecond, for MEASURE_MS. It prints how long the calls took,
 * with and without the time that they waited for a processor.
 *
 * Where other programs run, they may preempt the thread that has a lane's lock for longer than any
 * limit. So the limit is for the fastest 99 of 100 calls: starvation would delay many calls. The
 * program fails when these take longer.
 *
 * The second counts turns, whatever time they take. Eight threads enter the critical region of a
 * queue pair (ibv_wr_start) again and again, and stay in it for HOLD_NS each time. The main thread
 * enters the same region. The region's lock is of the kind that lanes have. All nine threads run on
 * one processor, so a thread that waits for the lock cannot poll it. The program fails when, in
 * more than STARVED_MAX of ENTRIES calls, the main thread lets more than TURNS_MAX turns of the
 * others pass, which is four turns of each.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "e2e/peer.h"

enum {
	THREADS_DEFAULT = 8,
	MEASURE_MS = 2000,
	CALLS_MAX = 65536,
	CALLS_PER_ROUND = 7,
	DEPTH = 16, /* writes that a polling thread has under way */
	WRITE_BYTES = 4096,
	HOLDERS = 8,
	HOLD_NS = 200000, /* of CPU time */
	ENTRIES = 50,
	TURNS_MAX = 4 * HOLDERS,
	STARVED_MAX = 5,
	LATE = 75, /* exit status: as in tests/e2e/common.sh */
};

struct poller {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *memory; /* to write to */
	pthread_t thread;
};

/* Times in nanoseconds of a call, and of its thread. */
struct times {
	uint64_t now;
	uint64_t off_processor; /* ready to run, and not running, ever */
};

static _Atomic bool is_over;
static uint64_t call_ns[CALLS_MAX], waited_ns[CALLS_MAX]; /* without and with the processor's */
static uint32_t call_count;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct times times_now(void)
{
	static int fd = -1;
	unsigned long long ran_ns, off_ns = 0;
	char text[64] = {0};

	if (fd < 0)
		fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (pread(fd, text, sizeof(text) - 1, 0) <= 0 ||
		sscanf(text, "%llu %llu", &ran_ns, &off_ns) != 2)
		off_ns = 0; /* the kernel does not say: then all is the call's */
	return (struct times){now_ns(), off_ns};
}

static void *poll_on(void *argument)
{
	struct poller *poller = argument;
	struct ibv_sge sge = peer_sge(poller->memory, 0, WRITE_BYTES);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)poller->memory->addr + WRITE_BYTES, poller->memory->rkey},
	};
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	int under_way = 0;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		for (; under_way < DEPTH; under_way++)
			peer_post_send(poller->qp, &wr);
		under_way -= ibv_poll_cq(poller->cq, 1, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	}
	return NULL;
}

static struct times note(struct times before)
{
	struct times after = times_now();
	uint64_t took_ns = after.now - before.now;
	uint64_t off_ns = after.off_processor - before.off_processor;

	waited_ns[call_count] = took_ns;
	call_ns[call_count++] = off_ns < took_ns ? took_ns - off_ns : 0;
	return times_now();
}

static void set_up_once(struct peer *peer, struct ibv_mr *memory)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct times times = times_now();
	struct ibv_cq *cq = ibv_create_cq(peer->context, 16, NULL, NULL, 0);
	CHECK(cq, "ibv_create_cq");
	times = note(times);
	struct ibv_qp *qp = peer_qp_create(peer, cq, 4, 1, 0);
	times = note(times);
	CHECK(!ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp");
	times = note(times);
	struct ibv_mr *mr = ibv_reg_mr(peer->pd, memory->addr, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "ibv_reg_mr");
	times = note(times);
	CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	times = note(times);
	CHECK(!ibv_destroy_qp(qp), "ibv_destroy_qp");
	times = note(times);
	CHECK(!ibv_destroy_cq(cq), "ibv_destroy_cq");
	note(times);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double sorted_ms(const uint64_t *ns, uint32_t percent)
{
	uint64_t place = (uint64_t)(call_count - 1) * percent / 100;

	return (double)ns[place] / 1e6;
}

/*
 * The scheduler prefers a thread that wakes up, so a waiting thread often gets the processor while
 * the lock is free. A thread of class SCHED_BATCH does less often.
 */
static void be_batch(void)
{
	const struct sched_param param = {.sched_priority = 0};

	CHECK(!pthread_setschedparam(pthread_self(), SCHED_BATCH, &param), "SCHED_BATCH");
}

/* Returns what 99 of 100 calls took at most. */
static double measure_ms(
	struct poller *pollers, uint32_t count, struct peer *peer, struct ibv_mr *memory)
{
	atomic_store(&is_over, false);
	call_count = 0;
	for (uint32_t i = 0; i < count; i++)
		CHECK(!pthread_create(&pollers[i].thread, NULL, poll_on, &pollers[i]), "a thread");
	be_batch();
	for (uint64_t end_ms = peer_now_ms() + MEASURE_MS;
		peer_now_ms() < end_ms && call_count <= CALLS_MAX - CALLS_PER_ROUND;
		peer_sleep_ms(1))
		set_up_once(peer, memory);
	atomic_store(&is_over, true);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(pollers[i].thread, NULL);
	qsort(call_ns, call_count, sizeof(call_ns[0]), compare);
	qsort(waited_ns, call_count, sizeof(waited_ns[0]), compare);
	printf("set-up, %u threads, %u calls: median %.3f ms, 99 %% %.3f ms, max %.3f ms; "
	       "with waiting for a processor %.3f, %.3f, %.3f ms\n",
		count, call_count, sorted_ms(call_ns, 50), sorted_ms(call_ns, 99),
		sorted_ms(call_ns, 100), sorted_ms(waited_ns, 50), sorted_ms(waited_ns, 99),
		sorted_ms(waited_ns, 100));
	return sorted_ms(call_ns, 99);
}

static int set_up_calls(struct peer *peer, uint32_t count, double max_ms)
{
	struct poller *pollers = calloc(count, sizeof(*pollers));
	struct ibv_mr *memory = peer_memory(peer, 2 * (size_t)WRITE_BYTES);
	CHECK(pollers, "memory");

	for (uint32_t i = 0; i < count; i++) {
		pollers[i].cq = peer_cq_create(peer, 4 * DEPTH, NULL);
		pollers[i].qp = peer_qp_create(peer, pollers[i].cq, 2 * DEPTH, 1, 0);
		pollers[i].memory = memory;
		if (i % 2)
			peer_qp_join(peer, pollers[i - 1].qp, pollers[i].qp);
	}
	return measure_ms(pollers, count, peer, memory) <= max_ms ? 0 : LATE;
}

/* --- turns --- */

static _Atomic uint64_t turns;

static struct ibv_qp_ex *extended_qp(struct peer *peer)
{
	struct ibv_cq *cq = peer_cq_create(peer, 16, NULL);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.pd = peer->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(peer->context, &init);

	CHECK(qp, "ibv_create_qp_ex");
	return ibv_qp_to_qp_ex(qp);
}

static uint64_t own_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *enter_on(void *argument)
{
	struct ibv_qp_ex *qp = argument;

	while (!atomic_load(&is_over)) {
		uint64_t until_ns = own_cpu_ns() + HOLD_NS;

		ibv_wr_start(qp);
		while (own_cpu_ns() < until_ns)
			;
		atomic_fetch_add(&turns, 1);
		ibv_wr_abort(qp);
	}
	return NULL;
}

/* Wait for the critical region. Returns how many turns of other threads pass meanwhile. */
static uint64_t enter_once(struct ibv_qp_ex *qp)
{
	uint64_t before = atomic_load(&turns), after;

	while (atomic_load(&turns) == before)
		peer_sleep_ms(1);
	before = atomic_load(&turns);
	ibv_wr_start(qp);
	after = atomic_load(&turns);
	ibv_wr_abort(qp);
	return after - before;
}

/* Keep the calling thread, and those that it makes, on one processor. */
static void use_one_processor(void)
{
	cpu_set_t all, one;
	int first = 0;

	CHECK(!sched_getaffinity(0, sizeof(all), &all), "sched_getaffinity");
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
}

static int turns_of_others(struct peer *peer)
{
	struct ibv_qp_ex *qp = extended_qp(peer);
	uint64_t let_pass, most = 0;
	uint32_t entries = 0, starved = 0;
	pthread_t holders[HOLDERS];

	use_one_processor();
	for (uint32_t i = 0; i < HOLDERS; i++)
		CHECK(!pthread_create(&holders[i], NULL, enter_on, qp), "a thread");
	be_batch();
	while (entries < ENTRIES && starved <= STARVED_MAX) {
		let_pass = enter_once(qp);
		most = let_pass > most ? let_pass : most;
		starved += let_pass > TURNS_MAX;
		entries++;
	}
	atomic_store(&is_over, true);
	for (uint32_t i = 0; i < HOLDERS; i++)
		pthread_join(holders[i], NULL);
	printf("%u calls that waited: %u let more than %u turns of %u threads pass, the most %u\n",
		entries, starved, (unsigned)TURNS_MAX, (unsigned)HOLDERS, (unsigned)most);
	return starved <= STARVED_MAX ? 0 : LATE;
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer peer = {.socket = -1};

	peer_parse(&options, argc, argv);
	CHECK(options.what, "-w says what");
	peer_open(&peer, &options);
	if (!strcmp(options.what, "turns"))
		return turns_of_others(&peer);
	return set_up_calls(
		&peer, options.count ? options.count : THREADS_DEFAULT, strtod(options.what, NULL));
}

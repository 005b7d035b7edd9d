/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long set-up calls take while other threads of the program poll.
 *
 *   starve [-d DEVICE] [-n POLLING-THREADS] [-w MAX-MS]
 *
 * The polling threads are pairs, with a completion queue each and a connection: one writes a word
 * and polls until that is done, again and again, the other only polls. Meanwhile the main thread
 * makes and destroys a completion queue, a queue pair and a region once a millisecond, for
 * MEASURE_MS. It prints how long the calls took, with and without the time that they waited for a
 * processor.
 *
 * Where other programs run, they may preempt the thread that has a lane's lock for longer than any
 * limit. So the limit is for the fastest 99 of 100 calls: starvation would delay many calls. The
 * program fails when these take longer.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "e2e/peer.h"

enum {
	THREADS_DEFAULT = 8,
	MEASURE_MS = 2000,
	CALLS_MAX = 65536,
	CALLS_PER_ROUND = 7,
	LATE = 75, /* exit status: as in tests/e2e/common.sh */
};

struct poller {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *memory; /* to write to; NULL: it only polls */
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
	struct ibv_sge sge = {.length = 8};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	bool is_pending = false;

	if (poller->memory) {
		sge = peer_sge(poller->memory, 0, 8);
		wr.wr.rdma.remote_addr = (uintptr_t)poller->memory->addr + 64;
		wr.wr.rdma.rkey = poller->memory->rkey;
	}
	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		if (poller->memory && !is_pending)
			peer_post_send(poller->qp, &wr);
		is_pending = !ibv_poll_cq(poller->cq, 1, &wc);
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
	return (double)ns[(uint64_t)(call_count - 1) * percent / 100] / 1e6;
}

/* Returns what 99 of 100 calls took at most. */
static double measure_ms(
	struct poller *pollers, uint32_t count, struct peer *peer, struct ibv_mr *memory)
{
	atomic_store(&is_over, false);
	call_count = 0;
	for (uint32_t i = 0; i < count; i++)
		CHECK(!pthread_create(&pollers[i].thread, NULL, poll_on, &pollers[i]), "a thread");
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

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer peer = {.socket = -1};

	peer_parse(&options, argc, argv);
	peer_open(&peer, &options);
	uint32_t count = options.count ? options.count : THREADS_DEFAULT;
	struct poller *pollers = calloc(count, sizeof(*pollers));
	struct ibv_mr *memory = peer_memory(&peer, 4096);
	CHECK(pollers, "memory");

	for (uint32_t i = 0; i < count; i++) {
		pollers[i].cq = peer_cq_create(&peer, 64, NULL);
		pollers[i].qp = peer_qp_create(&peer, pollers[i].cq, 16, 1, 0);
		pollers[i].memory = i % 2 ? memory : NULL;
		if (i % 2)
			peer_qp_join(&peer, pollers[i - 1].qp, pollers[i].qp);
	}
	double calls_ms = measure_ms(pollers, count, &peer, memory);

	if (!options.what || calls_ms <= strtod(options.what, NULL))
		return 0;
	return LATE;
}

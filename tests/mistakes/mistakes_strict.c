/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that urnic forgives: each exits with 0 on lenient devices. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "mistake.h"

static struct ibv_qp *qp_of(const struct mistake *m, struct ibv_qp_cap cap, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = m->cq, .recv_cq = m->cq, .cap = cap, .qp_type = type};

	return ibv_create_qp(m->pd, &init);
}

void mistake_lists_of_eight_entries(struct mistake *m)
{
	MUST(qp_of(m, (struct ibv_qp_cap){10, 10, 8, 1, 0}, IBV_QPT_RC));
}

void mistake_queue_of_five_thousand(struct mistake *m)
{
	MUST(qp_of(m, (struct ibv_qp_cap){10, 5000, 1, 1, 0}, IBV_QPT_RC));
}

void mistake_long_inline_data(struct mistake *m)
{
	MUST(qp_of(m, (struct ibv_qp_cap){10, 10, 1, 1, 128}, IBV_QPT_RC));
}

void mistake_two_million_completions(struct mistake *m)
{
	MUST(ibv_create_cq(m->context, 2000000, NULL, NULL, 0));
}

void mistake_many_reads_at_once(struct mistake *m)
{
	m->settings.max_rd_atomic = 17;
	mistake_connect(m);
}

void mistake_atomic_counter(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *target = mistake_register(
		m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_ATOMIC_FETCH_AND_ADD, mistake_entry(m->memory, 8, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

void mistake_unreliable_connection(struct mistake *m)
{
	MUST(qp_of(m, (struct ibv_qp_cap){10, 10, 1, 1, 0}, IBV_QPT_UC));
}

void mistake_shared_receive_queue(struct mistake *m)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 10, .max_sge = 1}};

	MUST(ibv_create_srq(m->pd, &init));
}

void mistake_region_on_demand(struct mistake *m)
{
	MUST(ibv_reg_mr(m->pd, m->memory, REGION_BYTES, IBV_ACCESS_ON_DEMAND));
}

void mistake_window_of_type_2(struct mistake *m)
{
	MUST(ibv_alloc_mw(m->pd, IBV_MW_TYPE_2));
}

void mistake_region_registered_again(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->memory, NULL, 0);

	MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
}

/* Without the capability that exempts root from the limit. */
void mistake_more_memory_than_may_be_locked(struct mistake *m)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	size_t bytes = (size_t)256 * (size_t)sysconf(_SC_PAGESIZE);
	struct rlimit limit = {64 * (rlim_t)sysconf(_SC_PAGESIZE), RLIM_INFINITY};
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(memory != MAP_FAILED && !syscall(SYS_capget, &header, data));
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
	MUST(!syscall(SYS_capset, &header, data));
	MUST(!getrlimit(RLIMIT_MEMLOCK, &limit));
	limit.rlim_cur = 64 * (rlim_t)sysconf(_SC_PAGESIZE);
	MUST(!setrlimit(RLIMIT_MEMLOCK, &limit));
	MUST(ibv_reg_mr(m->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE));
}

void mistake_thread_domain(struct mistake *m)
{
	struct ibv_td_init_attr init = {0};

	MUST(ibv_alloc_td(m->context, &init));
}

/* The sender has no retries, and the receive request comes after the message. */
void mistake_receive_posted_late(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	int got = 0;

	m->settings.rnr_retry = 0;
	mistake_connect(m);
	MUST(!mistake_post(
		m, IBV_WR_SEND, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey), 0, 0));
	for (int i = 0; i < 1000 && !got; i++)
		got = ibv_poll_cq(m->cq, 1, &wc);
	MUST(wc.status == IBV_WC_SUCCESS);
	MUST(!mistake_receive(m, mistake_entry(m->target_memory, MESSAGE_BYTES, target->lkey)));
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

void mistake_depth_taken_for_granted(struct mistake *m)
{
	struct ibv_qp_init_attr init = {
		.send_cq = m->cq,
		.recv_cq = m->cq,
		.cap = {10, 10, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};

	MUST(ibv_create_qp(m->pd, &init));
	if (init.cap.max_send_wr == 10)
		return;
	printf("cap.max_send_wr is %u after a request for 10\n", init.cap.max_send_wr);
	exit(1);
}

/* --- the last byte of a WRITE ------------------------------------------------------------- */

enum { ROUNDS = 50000, PAYLOAD_BYTES = 1024 };

static struct {
	_Atomic uint32_t watched; /* the round whose last byte the watcher waits for */
	_Atomic uint32_t seen; /* the last round whose last byte was there */
	_Atomic uint32_t holes; /* rounds whose first byte was not there by then */
	volatile uint8_t *memory;
} watch;

static void *last_byte_watch(void *argument)
{
	(void)argument;
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		while (watch.watched < round)
			;
		while (watch.memory[PAYLOAD_BYTES - 1] != (uint8_t)round)
			;
		if (watch.memory[0] != (uint8_t)round)
			watch.holes++;
		watch.seen = round;
	}
	return NULL;
}

/* A second thread waits for the last byte, and takes all others for present. */
void mistake_last_byte_polled(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(
		m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	pthread_t watcher;

	mistake_connect(m);
	watch.memory = (uint8_t *)m->target_memory;
	memset(m->target_memory, 0, PAYLOAD_BYTES);
	MUST(!pthread_create(&watcher, NULL, last_byte_watch, NULL));
	for (uint32_t round = 1; round <= ROUNDS && !watch.holes; round++) {
		memset(m->memory, (uint8_t)round, PAYLOAD_BYTES);
		watch.watched = round;
		MUST(!mistake_post(m, IBV_WR_RDMA_WRITE,
			mistake_entry(m->memory, PAYLOAD_BYTES, own->lkey),
			(uintptr_t)m->target_memory, target->rkey));
		MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
		while (watch.seen < round)
			;
	}
	if (!watch.holes)
		return;
	puts("the last byte was there before the first");
	exit(1);
}

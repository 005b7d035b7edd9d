/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that use memory, queues and objects in the wrong order. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mistake.h"

enum { TARGET_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* Post a WRITE of MESSAGE_BYTES. */
static void write_once(struct mistake *m, const struct ibv_mr *own, const struct ibv_mr *target)
{
	MUST(!mistake_post(m, IBV_WR_RDMA_WRITE, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
}

void mistake_source_written_before_completion(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	memset(m->memory, 1, MESSAGE_BYTES);
	write_once(m, own, target); /* wrong: source_written_before_completion */
	m->memory[MESSAGE_BYTES / 2] = 2;
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

void mistake_second_entry_written_before_completion(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_sge entries[] = {
		mistake_entry(m->memory, MESSAGE_BYTES, own->lkey),
		mistake_entry(m->memory + MESSAGE_BYTES, MESSAGE_BYTES, own->lkey),
	};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = entries,
		.num_sge = 2,
		.wr.rdma = {.remote_addr = (uintptr_t)m->target_memory, .rkey = target->rkey}};
	struct ibv_send_wr *bad;

	mistake_connect(m);
	ibv_post_send(m->sender, &wr, &bad); /* wrong: second_entry_written_before_completion */
	m->memory[2 * MESSAGE_BYTES - 1]++;
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

/* Post a WRITE of 64 bytes without a signal. Returns the post's result. */
static int write_unsignaled(
	struct mistake *m, const struct ibv_mr *own, const struct ibv_mr *target)
{
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, own->lkey);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &entry,
		.num_sge = 1,
		.wr.rdma = {.remote_addr = (uintptr_t)m->target_memory, .rkey = target->rkey}};
	struct ibv_send_wr *bad;

	return ibv_post_send(m->sender, &wr, &bad);
}

/* Post a WRITE of the whole page, and write it in the meantime. */
static void write_page(struct mistake *m, int access)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, access);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_RDMA_WRITE, mistake_entry(m->memory, REGION_BYTES, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
}

void mistake_source_page_written(struct mistake *m)
{
	write_page(m, 0);
	m->memory[77] = 1; /* wrong: source_page_written */
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

void mistake_source_page_that_peers_may_write(struct mistake *m)
{
	write_page(m, TARGET_ACCESS);
	m->memory[77] = 1; /* wrong: source_page_that_peers_may_write */
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

/* Post a receive request for the target's whole page. */
static void receive_page(struct mistake *m)
{
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	MUST(!mistake_receive(m, mistake_entry(m->target_memory, REGION_BYTES, target->lkey)));
}

void mistake_receive_buffer_read(struct mistake *m)
{
	volatile char *memory = m->target_memory;

	signal(SIGSEGV, SIG_DFL); /* as a program without a handler of its own may do */
	memory[REGION_BYTES - 1] = 0;
	receive_page(m);
	MUST(memory[REGION_BYTES - 1] == 0); /* wrong: receive_buffer_read */
}

void mistake_receive_buffer_written(struct mistake *m)
{
	receive_page(m);
	m->target_memory[0] = 1; /* wrong: receive_buffer_written */
}

void mistake_read_target_read(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	volatile char *memory = m->memory;

	memory[0] = 0;
	/* The peer does not answer, so the READ is under way. */
	m->settings.target_qpn = 1;
	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_RDMA_READ, mistake_entry(m->memory, REGION_BYTES, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
	MUST(memory[0] == 0); /* wrong: read_target_read */
}

void mistake_unsignaled_source_written(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	MUST(!write_unsignaled(m, own, target)); /* wrong: unsignaled_source_written */
	m->memory[0]++;
	write_once(m, own, target);
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

void mistake_source_freed_before_completion(struct mistake *m)
{
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_mr *own;

	m->memory = malloc(REGION_BYTES);
	own = mistake_register(m, m->memory, NULL, 0);
	mistake_connect(m);
	write_once(m, own, target);
	free(m->memory); /* wrong: source_freed_before_completion */
	MUST(mistake_poll(m->cq).wr_id == 1);
}

void mistake_receive_buffer_freed(struct mistake *m)
{
	struct ibv_mr *own;

	m->memory = malloc(REGION_BYTES);
	own = mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	mistake_connect(m);
	MUST(!mistake_receive(m, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey)));
	free(m->memory); /* wrong: receive_buffer_freed */
}

/* The only region begins within a chunk of the heap. */
void mistake_chunk_around_a_region_freed(struct mistake *m)
{
	struct ibv_mr *own;
	char *chunk = malloc(2 * REGION_BYTES);

	m->memory = chunk + MESSAGE_BYTES;
	own = mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	mistake_connect(m);
	MUST(!mistake_receive(m, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey)));
	free(chunk); /* wrong: chunk_around_a_region_freed */
}

static char *memory_map(void)
{
	char *memory = mmap(
		NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(memory != MAP_FAILED);
	return memory;
}

void mistake_source_unmapped_before_completion(struct mistake *m)
{
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_mr *own;

	m->memory = memory_map();
	own = mistake_register(m, m->memory, NULL, 0);
	mistake_connect(m);
	write_once(m, own, target);
	munmap(m->memory, REGION_BYTES); /* wrong: source_unmapped_before_completion */
	MUST(mistake_poll(m->cq).wr_id == 1);
}

void mistake_source_deregistered_in_use(struct mistake *m)
{
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);

	mistake_connect(m);
	write_once(m, own, target);
	MUST(!ibv_dereg_mr(own)); /* wrong: source_deregistered_in_use */
	MUST(mistake_poll(m->cq).wr_id == 1);
}

void mistake_receive_buffer_deregistered(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);

	mistake_connect(m);
	MUST(!mistake_receive(m, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey)));
	MUST(!ibv_dereg_mr(own)); /* wrong: receive_buffer_deregistered */
}

void mistake_registered_but_shorter(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	m->memory += REGION_BYTES - MESSAGE_BYTES / 2;
	write_once(m, own, target); /* wrong: registered_but_shorter */
	MUST(mistake_poll(m->cq).status == IBV_WC_LOC_PROT_ERR);
}

void mistake_receive_registered_but_shorter(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge entry = mistake_entry(m->memory, REGION_BYTES + 1, own->lkey);

	mistake_connect(m);
	MUST(!mistake_receive(m, entry)); /* wrong: receive_registered_but_shorter */
}

void mistake_posted_after_deregistration(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, own->lkey);

	mistake_connect(m);
	MUST(!ibv_dereg_mr(own));
	mistake_post(m, IBV_WR_SEND, entry, 0, 0); /* wrong: posted_after_deregistration */
	MUST(mistake_poll(m->cq).status == IBV_WC_LOC_PROT_ERR);
}

void mistake_registered_but_unmapped(struct mistake *m)
{
	struct ibv_mr *own;
	struct ibv_sge entry;

	m->memory = memory_map();
	own = mistake_register(m, m->memory, NULL, 0);
	entry = mistake_entry(m->memory, MESSAGE_BYTES, own->lkey);
	mistake_connect(m);
	munmap(m->memory, REGION_BYTES);
	mistake_post(m, IBV_WR_SEND, entry, 0, 0); /* wrong: registered_but_unmapped */
}

void mistake_nothing_signaled(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	while (!write_unsignaled(m, own, target)) /* wrong: nothing_signaled */
		;
}

void mistake_nothing_polled(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, own->lkey);

	mistake_connect(m);
	while (!mistake_post(m, IBV_WR_SEND, entry, 0, 0)) /* wrong: nothing_polled */
		;
}

void mistake_queue_overrun(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_async_event event;

	m->cq = ibv_create_cq(m->context, 1, NULL, NULL, 0);
	m->sender = mistake_qp(m, IBV_QPT_RC, m->cq);
	m->target = mistake_qp(m, IBV_QPT_RC, m->cq);
	MUST(m->cq && m->sender && m->target);
	mistake_connect(m);
	for (int i = 0; i <= m->cq->cqe && i < SEND_DEPTH; i++)
		write_once(m, own, target);
	do
		MUST(!ibv_get_async_event(m->context, &event)); /* wrong: queue_overrun */
	while (event.event_type != IBV_EVENT_CQ_ERR);
}

static void *leave_program(void *unused)
{
	(void)unused;
	sleep(10);
	exit(0);
}

void mistake_waits_without_request(struct mistake *m)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(m->context);
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	MUST(channel && ibv_create_cq(m->context, 1, NULL, channel, 0));
	/* No event ends this wait. */
	MUST(!pthread_create(&thread, NULL, leave_program, NULL));
	ibv_get_cq_event(channel, &cq, &context); /* wrong: waits_without_request */
}

void mistake_posts_after_destruction(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, own->lkey);

	mistake_connect(m);
	MUST(!ibv_destroy_qp(m->sender));
	mistake_post(m, IBV_WR_SEND, entry, 0, 0); /* wrong: posts_after_destruction */
}

void mistake_polls_after_destruction(struct mistake *m)
{
	struct ibv_cq *cq = ibv_create_cq(m->context, 1, NULL, NULL, 0);
	struct ibv_wc wc;

	MUST(cq && !ibv_destroy_cq(cq));
	MUST(ibv_poll_cq(cq, 1, &wc) < 0); /* wrong: polls_after_destruction */
}

void mistake_posts_extended_after_destruction(struct mistake *m)
{
	struct ibv_qp_ex *extended = mistake_qp_extended(m);

	MUST(!ibv_destroy_qp(&extended->qp_base));
	ibv_wr_start(extended); /* wrong: posts_extended_after_destruction */
}

void mistake_polls_extended_after_destruction(struct mistake *m)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(m->context, &attr);

	MUST(cq && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	MUST(ibv_start_poll(cq, &none) != 0); /* wrong: polls_extended_after_destruction */
}

void mistake_changed_after_destruction(struct mistake *m)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	MUST(!ibv_destroy_qp(m->sender));
	ibv_modify_qp(m->sender, &attr, IBV_QP_STATE); /* wrong: changed_after_destruction */
}

void mistake_child_posts(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, own->lkey);
	int status;
	pid_t child;

	mistake_connect(m);
	child = fork();
	if (child == 0) {
		mistake_post(m, IBV_WR_SEND, entry, 0, 0); /* wrong: child_posts */
		exit(0);
	}
	MUST(waitpid(child, &status, 0) == child);
}

/* Wait until the queue pair is in the error state, by the library's function, not the checker's. */
static void error_await(struct ibv_qp *qp)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY);
	__typeof__(&ibv_query_qp) query = (__typeof__(query))dlsym(library, "ibv_query_qp");
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	do
		MUST(!query(qp, &attr, IBV_QP_STATE, &init));
	while (attr.qp_state != IBV_QPS_ERR);
}

void mistake_error_overlooked(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);

	m->sender = mistake_qp(m, IBV_QPT_RC, m->cq); /* wrong: error_overlooked */
	mistake_connect(m);
	MUST(!mistake_post(
		m, IBV_WR_SEND, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey + 1), 0, 0));
	error_await(m->sender);
}

/* The queue pair has had requests, and waits for the next connection. */
void right_resets_after_use(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	mistake_connect(m);
	write_once(m, own, target);
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
	MUST(!ibv_modify_qp(m->sender, &attr, IBV_QP_STATE));
}

/* The address by which requests name a region stays, where only its rights change. */
void right_changes_rights(struct mistake *m)
{
	static const uint64_t starts[] = {0, 7 * REGION_BYTES};
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	for (int i = 0; i < 2; i++) {
		struct ibv_mr *own = i == 0
			? mistake_register(m, m->memory, NULL, IBV_ACCESS_ZERO_BASED)
			: ibv_reg_mr_iova(m->pd, m->memory, REGION_BYTES, starts[i], 0);

		MUST(own &&
			!ibv_rereg_mr(
				own, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, TARGET_ACCESS));
		MUST(!mistake_post(m, IBV_WR_RDMA_WRITE,
			mistake_entry((void *)(uintptr_t)starts[i], MESSAGE_BYTES, own->lkey),
			(uintptr_t)m->target_memory, target->rkey));
		MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
	}
}

void mistake_domain_leaked(struct mistake *m)
{
	MUST(ibv_alloc_pd(m->context)); /* wrong: domain_leaked */
}

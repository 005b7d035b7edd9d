/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that give registered memory away, or a copy of it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mistake.h"

enum {
	CHILD_SECONDS_MAX = 30,
	TARGET_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

/* Post a WRITE of this memory, which is registered for it. */
static struct ibv_mr *source_post(struct mistake *m, char *memory)
{
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_mr *own = mistake_register(m, memory, NULL, 0);

	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_RDMA_WRITE, mistake_entry(memory, MESSAGE_BYTES, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
	return own;
}

static char *pages_map(int count)
{
	char *memory = mmap(NULL, (size_t)count * REGION_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(memory != MAP_FAILED);
	return memory;
}

static char *segment_attach(void)
{
	int id = shmget(IPC_PRIVATE, REGION_BYTES, IPC_CREAT | 0600);
	char *memory = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

	MUST(memory != (char *)-1 && !shmctl(id, IPC_RMID, NULL));
	return memory;
}

void mistake_source_reallocated(struct mistake *m)
{
	char *memory = malloc(REGION_BYTES);

	MUST(memory);
	source_post(m, memory);
	memory = realloc(memory, 2 * REGION_BYTES); /* wrong: source_reallocated */
	MUST(memory && mistake_poll(m->cq).wr_id == 1);
}

void mistake_source_moved(struct mistake *m)
{
	char *memory = pages_map(1), *place = pages_map(1), *moved;

	source_post(m, memory);
	moved = mremap(memory, REGION_BYTES, REGION_BYTES, /* wrong: source_moved */
		MREMAP_MAYMOVE | MREMAP_FIXED, place);
	MUST(moved == place && mistake_poll(m->cq).wr_id == 1);
}

/* The second page is taken, so the first has to move. */
void mistake_source_grown(struct mistake *m)
{
	char *memory = pages_map(2), *moved;

	source_post(m, memory);
	moved = mremap(memory, REGION_BYTES, 2 * REGION_BYTES, /* wrong: source_grown */
		MREMAP_MAYMOVE);
	MUST(moved != memory && mistake_poll(m->cq).wr_id == 1);
}

void mistake_source_cut_off(struct mistake *m)
{
	char *memory = pages_map(2), *left;

	source_post(m, memory + REGION_BYTES);
	left = mremap(memory, 2 * REGION_BYTES, REGION_BYTES, 0); /* wrong: source_cut_off */
	MUST(left == memory && mistake_poll(m->cq).wr_id == 1);
}

void mistake_source_replaced(struct mistake *m)
{
	char *memory = pages_map(1), *other = pages_map(1);

	source_post(m, memory);
	other = mremap(other, REGION_BYTES, REGION_BYTES, /* wrong: source_replaced */
		MREMAP_MAYMOVE | MREMAP_FIXED, memory);
	MUST(other == memory && mistake_poll(m->cq).wr_id == 1);
}

void mistake_source_detached(struct mistake *m)
{
	char *memory = segment_attach();

	source_post(m, memory);
	MUST(!shmdt(memory)); /* wrong: source_detached */
	MUST(mistake_poll(m->cq).wr_id == 1);
}

void mistake_source_mapped_over(struct mistake *m)
{
	char *memory = pages_map(1), *other;

	source_post(m, memory);
	other = mmap(memory, REGION_BYTES, /* wrong: source_mapped_over */
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	MUST(other == memory && mistake_poll(m->cq).wr_id == 1);
}

/* Memory beside that of a request. */
void right_maps_elsewhere(struct mistake *m)
{
	char *memory = pages_map(2);

	source_post(m, memory);
	MUST(mmap(memory + REGION_BYTES, REGION_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + REGION_BYTES);
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

/* Can the kernel write there for the program? */
static bool is_writable(char *memory)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	bool is = read(zero, memory, 1) == 1;

	MUST(is || errno == EFAULT);
	close(zero);
	return is;
}

/* Post a WRITE of all of the memory, registered for it, with full pages. */
static void source_post_whole(struct mistake *m, char *memory)
{
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_mr *own = mistake_register(m, memory, NULL, IBV_ACCESS_LOCAL_WRITE);

	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_RDMA_WRITE, mistake_entry(memory, REGION_BYTES, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
}

/* A protection that the program sets stays. */
void right_makes_source_read_only(struct mistake *m)
{
	char *memory = pages_map(1);

	source_post_whole(m, memory);
	MUST(!mprotect(memory, REGION_BYTES, PROT_READ));
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
	MUST(!is_writable(memory));
	MUST(!mprotect(memory, REGION_BYTES, PROT_READ | PROT_WRITE));
	MUST(is_writable(memory));
}

void right_makes_read_only_memory_a_source(struct mistake *m)
{
	char *memory = pages_map(1);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	struct ibv_mr *own = mistake_register(m, memory, NULL, IBV_ACCESS_LOCAL_WRITE);

	mistake_connect(m);
	MUST(!mprotect(memory, REGION_BYTES, PROT_READ));
	MUST(!mistake_post(m, IBV_WR_RDMA_WRITE, mistake_entry(memory, REGION_BYTES, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
	MUST(!is_writable(memory));
}

/* Memory that no request uses; what realloc() returns has the contents. */
void right_moves_memory(struct mistake *m)
{
	char *chunk = malloc(REGION_BYTES), *pages = pages_map(1), *segment = segment_attach();
	struct ibv_mr *own;

	MUST(chunk);
	memset(chunk, 7, REGION_BYTES);
	own = source_post(m, chunk);
	MUST(mistake_register(m, pages, NULL, 0) && mistake_register(m, segment, NULL, 0));
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
	chunk = realloc(chunk, 2 * REGION_BYTES);
	MUST(chunk && chunk[0] == 7 && chunk[REGION_BYTES - 1] == 7);
	MUST(!ibv_dereg_mr(own));
	chunk = realloc(chunk, REGION_BYTES / 2);
	MUST(chunk && chunk[REGION_BYTES / 2 - 1] == 7);
	free(chunk);
	pages = mremap(pages, REGION_BYTES, 2 * REGION_BYTES, MREMAP_MAYMOVE);
	MUST(pages != MAP_FAILED && !munmap(pages, 2 * REGION_BYTES) && !shmdt(segment));
}

/* The page behind is free, so the mapping grows where it is. */
void right_grows_in_place(struct mistake *m)
{
	char *memory = pages_map(2);

	source_post(m, memory);
	MUST(!munmap(memory + REGION_BYTES, REGION_BYTES));
	/* Another thread may have mapped something there, at first. */
	while (mremap(memory, REGION_BYTES, 2 * REGION_BYTES, 0) != memory)
		sched_yield();
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}

/* A thread that begins a request and leaves it open across a fork of the other. */
struct builder {
	struct ibv_qp_ex *qp;
	pthread_barrier_t begun, forked;
};

static void *request_build(void *argument)
{
	struct builder *builder = argument;

	ibv_wr_start(builder->qp);
	pthread_barrier_wait(&builder->begun);
	pthread_barrier_wait(&builder->forked);
	ibv_wr_abort(builder->qp);
	return NULL;
}

static void builder_make(struct builder *builder, const struct mistake *m)
{
	builder->qp = mistake_qp_extended(m);
	MUST(!pthread_barrier_init(&builder->begun, NULL, 2) &&
		!pthread_barrier_init(&builder->forked, NULL, 2));
}

/* Post a receive request, for one region of the heap, to a shared queue. */
static char *receive_shared(const struct mistake *m)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(m->pd, &attr);
	char *memory = malloc(REGION_BYTES);
	struct ibv_mr *mr = mistake_register(m, memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge entry = mistake_entry(memory, MESSAGE_BYTES, mr->lkey);
	struct ibv_recv_wr wr = {.sg_list = &entry, .num_sge = 1}, *bad;

	MUST(srq && !ibv_post_srq_recv(srq, &wr, &bad));
	return memory;
}

/* The child frees its copy. A thread that is not in the child has locked a queue. */
void right_child_frees_memory(struct mistake *m)
{
	char *memory = receive_shared(m);
	struct builder builder;
	pthread_t thread;
	int status;
	pid_t child;

	builder_make(&builder, m);
	MUST(!pthread_create(&thread, NULL, request_build, &builder));
	pthread_barrier_wait(&builder.begun);
	child = fork();
	if (child == 0) {
		alarm(CHILD_SECONDS_MAX);
		free(memory);
		exit(0);
	}
	pthread_barrier_wait(&builder.forked);
	MUST(waitpid(child, &status, 0) == child && status == 0);
	MUST(!pthread_join(thread, NULL));
}

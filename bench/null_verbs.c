/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of a program itself: verbs that do only what is indispensable.
 *
 *     NULL_VERBS=DIRECTORY LD_PRELOAD=libnull_verbs.so PROGRAM ARGS
 *
 * The verbs library underneath does the set-up. Then posting (ibv_wr_*, as in perftest) copies into
 * the other process's memory and counts the request, and polling returns a completion for each
 * counted request. There are no checks, locks, errors or full queues. A process has one queue pair,
 * and a message has SLOT_BYTES at most. So no verbs library can exceed these rates on this machine.
 * Both processes get the same DIRECTORY, empty and on a tmpfs, in which they find each other's
 * memory.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova2

#define EXPORT __attribute__((visibility("default")))

enum { PAGE_BYTES = 4096, RING = 1024, SLOT_BYTES = 48 };

/*
 * A message to a queue pair. A file named by the number of that queue pair has RING messages. A
 * message is one cache line, the only line that has to travel between the processors.
 */
struct slot {
	alignas(64) _Atomic uint64_t sequence; /* number of the message, from 1; written last */
	uint32_t bytes;
	uint8_t data[SLOT_BYTES];
};

struct receive {
	uint64_t wr_id;
	void *to;
};

struct request {
	enum { OPERATION_WRITE, OPERATION_READ, OPERATION_FETCH_ADD, OPERATION_SEND } operation;
	uint32_t key; /* the rkey; 0: none */
	uint64_t address;
	uint64_t add;
};

static struct {
	struct request request; /* the request whose data the program names next */
	uint32_t key; /* rkey of the memory that `shift` is for; 0: none is mapped yet */
	uint8_t *shift; /* added to an address of the other process, it gives the address here */
	uint32_t dest_qpn;
	struct slot *far, *near;
	uint64_t sent, received; /* how many messages */
	struct ibv_cq *send_cq, *recv_cq;
	uint64_t send_id[RING];
	uint32_t send_head, send_tail;
	struct receive receive[RING];
	uint32_t receive_head, receive_tail;
} state;

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static void *real(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	if (!symbol)
		fail(name);
	return symbol;
}

/* --- files --- */

static int file_open(char kind, uint32_t number, int flags)
{
	const char *directory = getenv("NULL_VERBS");
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%c%08x", directory ? directory : "/dev/shm", kind, number);
	fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(path);
	return fd;
}

static void *file_map(void *at, int fd, size_t bytes, off_t offset)
{
	void *base = mmap(at, bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_POPULATE | (at ? MAP_FIXED : 0), fd, offset);

	if (base == MAP_FAILED)
		fail("mmap");
	close(fd);
	return base;
}

/*
 * Replace all pages of a region by pages of a file, so that the other process can map them. The
 * first page of the file has the address of the region's first page.
 */
static struct ibv_mr *share(struct ibv_mr *mr)
{
	uintptr_t start = (uintptr_t)mr->addr & ~(uintptr_t)(PAGE_BYTES - 1);
	size_t bytes = (uintptr_t)mr->addr + mr->length - start;
	int fd = file_open('m', mr->rkey, O_CREAT);

	bytes = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	if (pwrite(fd, &start, sizeof(start), 0) != (ssize_t)sizeof(start) ||
		pwrite(fd, (void *)start, bytes, PAGE_BYTES) != (ssize_t)bytes)
		fail("pwrite");
	file_map((void *)start, fd, bytes, PAGE_BYTES);
	return mr;
}

static uint8_t *place(uint32_t key, uint64_t address)
{
	if (state.key != key) {
		int fd = file_open('m', key, 0);
		struct stat status;
		uint8_t *base;

		if (fstat(fd, &status))
			fail("fstat");
		base = file_map(NULL, fd, (size_t)status.st_size, 0);
		state.shift = base + PAGE_BYTES - *(const uint64_t *)(const void *)base;
		state.key = key;
	}
	return state.shift + address;
}

static struct slot *slots_map(uint32_t qpn)
{
	int fd = file_open('q', qpn, O_CREAT);

	if (ftruncate(fd, sizeof(struct slot) * RING))
		fail("ftruncate");
	return file_map(NULL, fd, sizeof(struct slot) * RING, 0);
}

/* --- the data path --- */

static void message_send(const void *from, size_t bytes)
{
	struct slot *slot;

	if (!state.far)
		state.far = slots_map(state.dest_qpn);
	slot = &state.far[state.sent++ % RING];
	slot->bytes = (uint32_t)bytes;
	memcpy(slot->data, from, bytes < SLOT_BYTES ? bytes : SLOT_BYTES);
	atomic_store_explicit(&slot->sequence, state.sent, memory_order_release);
}

static void execute(const struct request *request, void *own, size_t bytes)
{
	uint8_t *far;

	if (request->operation == OPERATION_SEND) {
		message_send(own, bytes);
		return;
	}
	far = place(request->key, request->address);
	if (request->operation == OPERATION_WRITE)
		memcpy(far, own, bytes);
	else if (request->operation == OPERATION_READ)
		memcpy(own, far, bytes);
	else
		*(uint64_t *)own = atomic_fetch_add((_Atomic uint64_t *)(void *)far, request->add);
}

static void wr_start(struct ibv_qp_ex *qp)
{
	(void)qp;
}

static void wr_begin(struct ibv_qp_ex *qp, struct request request)
{
	state.request = request;
	if (qp->wr_flags & IBV_SEND_SIGNALED)
		state.send_id[state.send_head++ % RING] = qp->wr_id;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address)
{
	wr_begin(qp, (struct request){OPERATION_WRITE, rkey, address, 0});
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address)
{
	wr_begin(qp, (struct request){OPERATION_READ, rkey, address, 0});
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint64_t add)
{
	wr_begin(qp, (struct request){OPERATION_FETCH_ADD, rkey, address, add});
}

static void wr_send(struct ibv_qp_ex *qp)
{
	wr_begin(qp, (struct request){OPERATION_SEND, 0, 0, 0});
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t address, uint32_t bytes)
{
	(void)qp;
	(void)lkey;
	execute(&state.request, (void *)(uintptr_t)address, bytes);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *own, size_t bytes)
{
	(void)qp;
	execute(&state.request, own, bytes);
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	(void)qp;
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	(void)qp;
	(void)bad_wr;
	for (; wr; wr = wr->next)
		state.receive[state.receive_head++ % RING] =
			(struct receive){wr->wr_id, (void *)(uintptr_t)wr->sg_list->addr};
	return 0;
}

static void complete(struct ibv_wc *wc, uint64_t wr_id, enum ibv_wc_opcode opcode, uint32_t bytes)
{
	wc->wr_id = wr_id;
	wc->status = IBV_WC_SUCCESS;
	wc->opcode = opcode;
	wc->byte_len = bytes;
	wc->wc_flags = 0;
}

static bool message_take(struct ibv_wc *wc)
{
	const struct slot *slot = &state.near[state.received % RING];
	const struct receive *receive = &state.receive[state.receive_tail % RING];

	if (state.receive_tail == state.receive_head ||
		atomic_load_explicit(&slot->sequence, memory_order_acquire) != state.received + 1)
		return false;
	memcpy(receive->to, slot->data, slot->bytes < SLOT_BYTES ? slot->bytes : SLOT_BYTES);
	complete(wc, receive->wr_id, IBV_WC_RECV, slot->bytes);
	state.received++;
	state.receive_tail++;
	return true;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	int taken = 0;

	while (cq == state.send_cq && taken < count && state.send_tail != state.send_head)
		complete(&wc[taken++], state.send_id[state.send_tail++ % RING], IBV_WC_SEND, 0);
	while (cq == state.recv_cq && taken < count && message_take(&wc[taken]))
		taken++;
	return taken;
}

/* --- set-up --- */

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*open_device)(struct ibv_device *) = real("ibv_open_device");
	struct ibv_context *context = open_device(device);

	if (context) {
		context->ops.post_recv = post_recv;
		context->ops.poll_cq = poll_cq;
	}
	return context;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct ibv_qp_ex *(*to_ex)(struct ibv_qp *) = real("ibv_qp_to_qp_ex");
	struct ibv_qp_ex *ex = to_ex(qp);

	if (ex) {
		ex->wr_start = wr_start;
		ex->wr_rdma_write = wr_rdma_write;
		ex->wr_rdma_read = wr_rdma_read;
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
		ex->wr_send = wr_send;
		ex->wr_set_sge = wr_set_sge;
		ex->wr_set_inline_data = wr_set_inline_data;
		ex->wr_complete = wr_complete;
	}
	return ex;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int) = real("ibv_reg_mr");

	return share(reg_mr(pd, address, bytes, access));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova, unsigned int access)
{
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int) =
		real("ibv_reg_mr_iova2");

	return share(reg_mr(pd, address, bytes, iova, access));
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int) = real("ibv_modify_qp");

	state.send_cq = qp->send_cq;
	state.recv_cq = qp->recv_cq;
	if (!state.near)
		state.near = slots_map(qp->qp_num);
	if (mask & IBV_QP_DEST_QPN)
		state.dest_qpn = attr->dest_qp_num;
	return modify_qp(qp, attr, mask);
}

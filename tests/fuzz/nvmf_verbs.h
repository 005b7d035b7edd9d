/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_FUZZ_NVMF_VERBS_H
#define URNIC_TESTS_FUZZ_NVMF_VERBS_H

/*
 * Verbs and rdma_cm in memory, for one queue pair at a time that a harness drives: it queues events
 * of connections, delivers SENDs, and completes work requests in the order in which they were
 * posted. Each access to memory is compared with the registered regions, and touches it. A program
 * includes this file once, and links no other verbs library.
 */

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FAKE_QUEUES = 4, FAKE_REQUESTS = 4096, FAKE_EVENTS = 16, FAKE_MRS = 32 };

struct fake_request {
	uint64_t wr_id;
	uint8_t *bytes;
	uint32_t length;
	enum ibv_wr_opcode opcode;
	bool is_signaled;
};

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc wcs[FAKE_REQUESTS];
	unsigned taken, added;
	bool is_armed;
};

struct fake_qp {
	struct ibv_qp qp;
	struct ibv_qp_cap cap;
	struct rdma_cm_id *id;
	struct fake_request receives[FAKE_REQUESTS], sends[FAKE_REQUESTS];
	unsigned receives_taken, receives_added, sends_taken, sends_added;
};

static struct ibv_device fake_device;
static struct ibv_context fake_context = {.device = &fake_device};
static struct fake_qp *fake_qps[FAKE_QUEUES];
static struct ibv_mr *fake_mrs[FAKE_MRS];
static uint32_t fake_keys;
static struct rdma_cm_event *fake_events[FAKE_EVENTS];
static unsigned fake_events_taken, fake_events_added;
static int fake_events_fd;

/* --- memory --- */

static void fake_check(uint64_t address, uint32_t length, uint32_t lkey)
{
	for (int i = 0; i < FAKE_MRS; i++) {
		const struct ibv_mr *mr = fake_mrs[i];
		uint64_t begin = mr ? (uintptr_t)mr->addr : 0;

		if (mr && mr->lkey == lkey && address >= begin && length <= mr->length &&
			address - begin <= mr->length - length)
			return;
	}
	abort();
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));
	uint32_t key = ++fake_keys;

	(void)iova, (void)access;
	*mr = (struct ibv_mr){.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = length,
		.lkey = key,
		.rkey = key};
	for (int i = 0; i < FAKE_MRS; i++) {
		if (!fake_mrs[i]) {
			fake_mrs[i] = mr;
			return mr;
		}
	}
	abort();
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	for (int i = 0; i < FAKE_MRS; i++)
		if (fake_mrs[i] == mr)
			fake_mrs[i] = NULL;
	free(mr);
	return 0;
}

/* --- completions --- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	channel->context = context;
	channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *fake = calloc(1, sizeof(*fake));

	(void)comp_vector;
	fake->cq.context = context;
	fake->cq.cqe = cqe;
	fake->cq.cq_context = cq_context;
	fake->cq.channel = channel;
	return &fake->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	(void)cq, (void)nevents;
}

static struct fake_cq *fake_cq_of(struct ibv_cq *cq)
{
	return (struct fake_cq *)(void *)cq;
}

static int fake_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wcs)
{
	struct fake_cq *fake = fake_cq_of(cq);
	int count = 0;

	while (count < entries && fake->taken != fake->added)
		wcs[count++] = fake->wcs[fake->taken++ % FAKE_REQUESTS];
	return count;
}

static void fake_signal(int fd)
{
	uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	fake_cq_of(cq)->is_armed = true;
	return 0;
}

/* One event of one armed queue. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	uint64_t count;

	*cq = NULL;
	*cq_context = NULL;
	return read(channel->fd, &count, sizeof(count)) == sizeof(count) ? 0 : -1;
}

static void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct fake_cq *fake = fake_cq_of(cq);

	/* A queue must have room for all that is posted. */
	if (fake->added - fake->taken >= (unsigned)cq->cqe)
		abort();
	fake->wcs[fake->added++ % FAKE_REQUESTS] = *wc;
	if (fake->is_armed)
		fake_signal(cq->channel->fd);
	fake->is_armed = false;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "failure";
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){.max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16};
	return 0;
}

/* --- work requests --- */

static struct fake_qp *fake_qp_of(struct ibv_qp *qp)
{
	return (struct fake_qp *)(void *)qp;
}

static void fake_touch(const uint8_t *bytes, uint32_t length)
{
	volatile uint8_t sum = 0;

	for (uint32_t i = 0; i < length; i += 64)
		sum ^= bytes[i];
	if (length)
		sum ^= bytes[length - 1];
	(void)sum;
}

static int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct fake_qp *qp = fake_qp_of(base);

	(void)bad_wr;
	if (qp->receives_added - qp->receives_taken >= qp->cap.max_recv_wr)
		abort();
	fake_check(wr->sg_list->addr, wr->sg_list->length, wr->sg_list->lkey);
	qp->receives[qp->receives_added++ % FAKE_REQUESTS] =
		(struct fake_request){.wr_id = wr->wr_id,
			.bytes = (uint8_t *)(uintptr_t)wr->sg_list->addr,
			.length = wr->sg_list->length};
	return 0;
}

static int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct fake_qp *qp = fake_qp_of(base);

	(void)bad_wr;
	for (; wr; wr = wr->next) {
		if (qp->sends_added - qp->sends_taken >= qp->cap.max_send_wr)
			abort();
		fake_check(wr->sg_list->addr, wr->sg_list->length, wr->sg_list->lkey);
		qp->sends[qp->sends_added++ % FAKE_REQUESTS] =
			(struct fake_request){.wr_id = wr->wr_id,
				.bytes = (uint8_t *)(uintptr_t)wr->sg_list->addr,
				.length = wr->sg_list->length,
				.opcode = wr->opcode,
				.is_signaled = wr->send_flags & IBV_SEND_SIGNALED};
	}
	return 0;
}

/* The peer's SEND. False: there is no receive request. A SEND that is too long fails. */
static bool fake_deliver(struct fake_qp *qp, const uint8_t *bytes, uint32_t length, unsigned flags)
{
	struct fake_request *receive;
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .wc_flags = flags, .byte_len = length};

	if (qp->receives_taken == qp->receives_added)
		return false;
	receive = &qp->receives[qp->receives_taken++ % FAKE_REQUESTS];
	wc.wr_id = receive->wr_id;
	if (length > receive->length)
		wc.status = IBV_WC_LOC_LEN_ERR;
	else if (length)
		memcpy(receive->bytes, bytes, length);
	fake_complete(qp->qp.recv_cq, &wc);
	return true;
}

/*
 * Complete the oldest SEND, READ or WRITE. What a READ brings is `bytes`, again and again; NULL if
 * it fails. False: nothing is posted.
 */
static bool fake_finish(struct fake_qp *qp, const uint8_t *bytes, uint32_t count)
{
	struct fake_request *request;
	struct ibv_wc wc = {.status = bytes ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR};

	if (qp->sends_taken == qp->sends_added)
		return false;
	request = &qp->sends[qp->sends_taken++ % FAKE_REQUESTS];
	wc.wr_id = request->wr_id;
	if (request->opcode != IBV_WR_RDMA_READ)
		fake_touch(request->bytes, request->length);
	for (uint32_t i = 0; bytes && request->opcode == IBV_WR_RDMA_READ && i < request->length;
		i++)
		request->bytes[i] = bytes[i % count];
	if (request->is_signaled || !bytes)
		fake_complete(qp->qp.send_cq, &wc);
	return true;
}

/* --- connections --- */

static void fake_init(void)
{
	fake_context.ops.poll_cq = fake_poll_cq;
	fake_context.ops.req_notify_cq = fake_req_notify_cq;
	fake_context.ops.post_send = fake_post_send;
	fake_context.ops.post_recv = fake_post_recv;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = calloc(1, sizeof(*channel));

	fake_events_fd = channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
	while (fake_events_taken != fake_events_added)
		free(fake_events[fake_events_taken++ % FAKE_EVENTS]);
}

/* The harness queues an event, if there is room; its private data is copied behind it. */
static void fake_event(struct rdma_cm_id *id, struct rdma_cm_id *listen_id,
	enum rdma_cm_event_type type, int status, const void *private_data, uint8_t bytes)
{
	struct rdma_cm_event *event;

	if (fake_events_added - fake_events_taken >= FAKE_EVENTS)
		return;
	event = calloc(1, sizeof(*event) + bytes);
	event->id = id;
	event->listen_id = listen_id;
	event->event = type;
	event->status = status;
	event->param.conn.initiator_depth = 4;
	event->param.conn.private_data_len = bytes;
	if (bytes) {
		event->param.conn.private_data = event + 1;
		memcpy(event + 1, private_data, bytes);
	}
	fake_events[fake_events_added++ % FAKE_EVENTS] = event;
	fake_signal(fake_events_fd);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	uint64_t count;

	if (fake_events_taken == fake_events_added) {
		(void)!read(channel->fd, &count, sizeof(count));
		errno = EAGAIN;
		return -1;
	}
	*event = fake_events[fake_events_taken++ % FAKE_EVENTS];
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space ps)
{
	*id = calloc(1, sizeof(**id));
	(*id)->channel = channel;
	(*id)->context = context;
	(*id)->ps = ps;
	(*id)->verbs = &fake_context;
	return 0;
}

/* Events of an identifier that is gone are dropped, as rdma_cm does. */
int rdma_destroy_id(struct rdma_cm_id *id)
{
	unsigned kept = fake_events_taken;

	for (unsigned i = fake_events_taken; i != fake_events_added; i++) {
		struct rdma_cm_event *event = fake_events[i % FAKE_EVENTS];

		if (event->id == id)
			free(event);
		else
			fake_events[kept++ % FAKE_EVENTS] = event;
	}
	fake_events_added = kept;
	free(id);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = calloc(1, sizeof(*qp));

	(void)pd;
	qp->qp.context = &fake_context;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->cap = attr->cap;
	qp->id = id;
	id->qp = &qp->qp;
	for (int i = 0; i < FAKE_QUEUES; i++) {
		if (!fake_qps[i]) {
			fake_qps[i] = qp;
			return 0;
		}
	}
	abort();
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	for (int i = 0; i < FAKE_QUEUES; i++)
		if (fake_qps[i] && &fake_qps[i]->qp == id->qp)
			fake_qps[i] = NULL;
	free(id->qp);
	id->qp = NULL;
}

/* The queue pair of an identifier that is not gone. */
static inline struct fake_qp *fake_qp_find(const struct rdma_cm_id *id)
{
	for (int i = 0; i < FAKE_QUEUES; i++)
		if (fake_qps[i] && fake_qps[i]->id == id)
			return fake_qps[i];
	return NULL;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_RDMA_HOST_H
#define URNIC_TESTS_SUPPORT_NVMF_RDMA_HOST_H

/*
 * A host of NVMe/RDMA on bare verbs. A test uses it to send what a hostile host may send. The host
 * never waits: the test calls host_poll() again and again beside the target. Include it after
 * cmocka.h.
 */

#include <rdma/rdma_cma.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/rdma/rdma_private.h"

enum { HOST_BYTES = 16 << 20, HOST_ENTRIES = 64 };

static struct {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *bytes; /* responses, from 4096 on capsules, from 1 MiB on data */
	uint8_t private_data[64];
	uint8_t private_bytes;
	uint8_t read_depth; /* RDMA READs that it serves at once */
	bool is_connected, is_over;
	int reject; /* -1: none */
	unsigned responses, sent, failed;
	uint16_t last_status, last_cid;
	uint32_t invalidated;
} host;

static uint8_t *host_data(void)
{
	return host.bytes + (1 << 20);
}

static void host_receive(unsigned index)
{
	struct ibv_sge sge = {(uintptr_t)host.bytes + index * 16, 16, host.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

	(void)ibv_post_recv(host.id->qp, &wr, &bad);
}

static void host_address_resolved(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = {2 * HOST_ENTRIES, HOST_ENTRIES, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	assert_non_null(host.pd = ibv_alloc_pd(host.id->verbs));
	assert_non_null(host.cq = ibv_create_cq(host.id->verbs, 512, NULL, NULL, 0));
	assert_non_null(
		host.mr = ibv_reg_mr(host.pd, host.bytes, HOST_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
	attr.send_cq = attr.recv_cq = host.cq;
	assert_int_equal(rdma_create_qp(host.id, host.pd, &attr), 0);
	for (unsigned i = 0; i < HOST_ENTRIES; i++)
		host_receive(i);
	assert_int_equal(rdma_resolve_route(host.id, 20000), 0);
}

static void host_route_resolved(void)
{
	struct rdma_conn_param param = {
		.private_data = host.private_data,
		.private_data_len = host.private_bytes,
		.responder_resources = host.read_depth,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	assert_int_equal(rdma_connect(host.id, &param), 0);
}

static void host_event(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;

	switch ((int)event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		host_address_resolved();
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		host_route_resolved();
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		host.is_connected = true;
		break;
	case RDMA_CM_EVENT_REJECTED:
		host.reject = param->private_data_len >= RDMA_REJECT_BYTES
			? le16_get((const uint8_t *)param->private_data + 2)
			: 0;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		host.is_over = true;
		break;
	default:
		break;
	}
}

static void host_completed(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		host.failed++;
		host.is_over = true;
	} else if (wc->wr_id >= HOST_ENTRIES) {
		host.sent++;
	} else {
		const uint8_t *cqe = host.bytes + wc->wr_id * 16;

		assert_int_equal(wc->byte_len, 16);
		host.last_cid = le16_get(cqe + 12);
		host.last_status = le16_get(cqe + 14) >> 1 & 0x7ff;
		host.invalidated = wc->wc_flags & IBV_WC_WITH_INV ? wc->invalidated_rkey : 0;
		host.responses++;
		host_receive((unsigned)wc->wr_id);
	}
}

static void host_poll(void)
{
	struct rdma_cm_event *event;
	struct ibv_wc wc;

	while (rdma_get_cm_event(host.channel, &event) == 0) {
		host_event(event);
		rdma_ack_cm_event(event);
	}
	while (host.cq && ibv_poll_cq(host.cq, 1, &wc) == 1)
		host_completed(&wc);
}

#endif

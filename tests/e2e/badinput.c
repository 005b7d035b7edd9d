/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that must be refused, between two processes (badinput.def).
 *
 * The client sends each bad request, with a good one behind it. A refused request changes nothing
 * at the server. Then both bring their queue pairs back to RTS, and the same good request succeeds.
 *
 * With -w report the program judges nothing: each side prints what it saw, to compare
 * implementations.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "peer.h"

enum {
	BYTES = 8192, /* of the server's region; of several packets */
	MESSAGE_BYTES = 4104,
	EVENT_MS = 5000,
	REPORT_MS = 300,
	WR_BAD = 1,
	WR_BEHIND,
	WR_AFTER,
	WR_RECEIVE,
	WR_RECOVERED,
	SEED = 11,
	NONE = -1,
	IBV_WC_NONE = NONE,
	IBV_EVENT_NONE = NONE,
};

enum flaw {
	RKEY_UNKNOWN,
	RKEY_STALE, /* of a region that was deregistered */
	RANGE_END, /* one byte too far */
	RANGE_START, /* one byte too early */
	RANGE_WRAP, /* the sum of address and length overflows */
	REGION_ACCESS, /* without remote rights */
	QP_ACCESS, /* the queue pair has none, the region has */
	REGION_PD, /* of another protection domain */
	MISALIGNED,
	RECEIVE_SHORT, /* by a byte */
	RECEIVE_LKEY,
	RECEIVE_NONE,
	LOCAL_LKEY,
	LOCAL_RANGE,
	LOCAL_READ_ONLY,
	EMPTY, /* nothing is moved, so no key is looked at (IBTA C9-88) */
};

static const struct bad {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum flaw flaw;
	int status;
	int receive_status;
	int event;
} bads[] = {
#define BAD(operation, flaw, status, receive_status, event)                                        \
	{#operation " " #flaw, IBV_WR_##operation, flaw, IBV_WC_##status, IBV_WC_##receive_status, \
		IBV_EVENT_##event},
#include "badinput.def"
#undef BAD
};

struct meeting {
	struct peer *peer;
	const struct bad *bad;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *memory; /* of BYTES */
	struct peer_buffer remote; /* what the client is told */
	struct ibv_pd *other_pd;
	struct ibv_mr *special; /* the flawed region; NULL when the flaw is another */
};

static bool fails_at_server(const struct bad *bad)
{
	return bad->event != NONE ||
		(bad->receive_status != IBV_WC_SUCCESS && bad->receive_status != NONE);
}

/* --- the server ------------------------------------------------------------------------------ */

/* Register the flawed region, if that is the flaw, and say what the client shall use. */
static struct peer_buffer server_buffer(struct meeting *meeting)
{
	struct peer_buffer buffer = peer_buffer_of(meeting->memory);
	struct ibv_pd *pd = meeting->bad->flaw == REGION_PD ? meeting->other_pd : meeting->peer->pd;
	int access = meeting->bad->flaw == REGION_ACCESS ? IBV_ACCESS_LOCAL_WRITE
							 : peer_link_full.access;

	meeting->special = ibv_reg_mr(pd, meeting->memory->addr, BYTES, access);
	CHECK(meeting->special, "no memory region: %s", strerror(errno));
	if (meeting->bad->flaw == REGION_ACCESS || meeting->bad->flaw == REGION_PD ||
		meeting->bad->flaw == RKEY_STALE)
		buffer.rkey = meeting->special->rkey;
	if (meeting->bad->flaw == RKEY_STALE) {
		CHECK(!ibv_dereg_mr(meeting->special), "the region stays");
		meeting->special = NULL;
	}
	return buffer;
}

static void server_post(struct meeting *meeting)
{
	size_t bytes = meeting->bad->flaw == RECEIVE_SHORT ? MESSAGE_BYTES - 1 : MESSAGE_BYTES;
	struct ibv_sge sge = peer_sge(meeting->memory, 0, bytes);
	struct ibv_recv_wr wr = {.wr_id = WR_RECEIVE, .sg_list = &sge, .num_sge = 1}, *bad;

	if (meeting->bad->flaw == RECEIVE_NONE)
		return;
	if (meeting->bad->flaw == RECEIVE_LKEY)
		sge.lkey ^= 0x5500;
	CHECK(!ibv_post_recv(meeting->qp, &wr, &bad), "%s: no receive request", meeting->bad->name);
}

static void server_event(struct meeting *meeting)
{
	struct pollfd fd = {.fd = meeting->peer->context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (meeting->bad->event == NONE) {
		CHECK(!poll(&fd, 1, 0), "%s: an event without a reason", meeting->bad->name);
		return;
	}
	CHECK(poll(&fd, 1, EVENT_MS) == 1, "%s: no event", meeting->bad->name);
	CHECK(!ibv_get_async_event(meeting->peer->context, &event), "no event to get");
	CHECK((int)event.event_type == meeting->bad->event && event.element.qp == meeting->qp,
		"%s: event %d (%s)", meeting->bad->name, event.event_type,
		ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

static void server_look(struct meeting *meeting)
{
	const struct bad *bad = meeting->bad;
	enum ibv_qp_state wanted = fails_at_server(bad) ? IBV_QPS_ERR : IBV_QPS_RTS;
	enum ibv_qp_state state = peer_qp_state(meeting->qp);

	server_event(meeting);
	CHECK(state == wanted, "%s: the server's queue pair is in state %d", bad->name, state);
	if (fails_at_server(bad)) {
		struct ibv_wc wc = peer_completion(meeting->cq);

		CHECK(wc.wr_id == WR_RECEIVE && (int)wc.status == bad->receive_status &&
				wc.qp_num == meeting->qp->qp_num,
			"%s: the receive request ends with status %d (%s)", bad->name, wc.status,
			ibv_wc_status_str(wc.status));
	}
	peer_no_completion(meeting->cq, 0);
	/* A message that is refused at its last packet may have left its beginning. */
	if (bad->flaw != RECEIVE_SHORT && bad->flaw != RECEIVE_NONE)
		peer_pattern_check(meeting->memory->addr, BYTES, SEED, bad->name);
}

/* --- the client ------------------------------------------------------------------------------ */

static struct ibv_send_wr request(const struct meeting *meeting, enum ibv_wr_opcode opcode,
	uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	bool is_atomic =
		opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	*sge = peer_sge(meeting->memory, 0, is_atomic ? 8 : MESSAGE_BYTES);
	if (is_atomic) {
		wr.wr.atomic.remote_addr = meeting->remote.address;
		wr.wr.atomic.rkey = meeting->remote.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = meeting->remote.address;
		wr.wr.rdma.rkey = meeting->remote.rkey;
	}
	return wr;
}

/* Aim an RDMA or atomic request elsewhere. */
static void aim(struct ibv_send_wr *wr, int64_t offset, uint32_t rkey_change)
{
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr->wr.atomic.remote_addr += (uint64_t)offset;
		wr->wr.atomic.rkey ^= rkey_change;
	} else {
		wr->wr.rdma.remote_addr += (uint64_t)offset;
		wr->wr.rdma.rkey ^= rkey_change;
	}
}

static void spoil(const struct meeting *meeting, struct ibv_send_wr *wr)
{
	uint64_t address = meeting->remote.address;

	switch (meeting->bad->flaw) {
	case RKEY_UNKNOWN:
		aim(wr, 0, 0x01010101);
		break;
	case EMPTY:
		aim(wr, 0, 0x01010101);
		wr->num_sge = 0;
		break;
	case RANGE_END:
		aim(wr, BYTES - MESSAGE_BYTES + 1, 0);
		break;
	case RANGE_START:
		aim(wr, -1, 0);
		break;
	case RANGE_WRAP:
		aim(wr, (int64_t)(UINT64_MAX - 7 - address), 0);
		break;
	case MISALIGNED:
		aim(wr, 4, 0);
		break;
	case LOCAL_LKEY:
		wr->sg_list->lkey ^= 0x5500;
		break;
	case LOCAL_RANGE:
		wr->sg_list->addr += BYTES - MESSAGE_BYTES + 1;
		break;
	case LOCAL_READ_ONLY:
		wr->sg_list->lkey = meeting->special->lkey;
		break;
	case RKEY_STALE:
	case REGION_ACCESS:
	case QP_ACCESS:
	case REGION_PD:
	case RECEIVE_SHORT:
	case RECEIVE_LKEY:
	case RECEIVE_NONE:
		break; /* the server's part */
	}
}

static void expect(const struct meeting *meeting, uint64_t wr_id, int status)
{
	struct ibv_wc wc = peer_completion(meeting->cq);

	CHECK(wc.wr_id == wr_id && (int)wc.status == status && wc.qp_num == meeting->qp->qp_num,
		"%s: request %d ends with status %d (%s), vendor %u", meeting->bad->name,
		(int)wc.wr_id, wc.status, ibv_wc_status_str(wc.status), wc.vendor_err);
}

static void client_ask(struct meeting *meeting)
{
	bool is_good = meeting->bad->status == IBV_WC_SUCCESS;
	struct ibv_sge sge, sge_behind;
	struct ibv_send_wr wr = request(meeting, meeting->bad->opcode, WR_BAD, &sge);
	struct ibv_send_wr behind = request(meeting, IBV_WR_RDMA_READ, WR_BEHIND, &sge_behind);

	meeting->special = ibv_reg_mr(meeting->peer->pd, meeting->memory->addr, BYTES, 0);
	CHECK(meeting->special, "no memory region: %s", strerror(errno));
	spoil(meeting, &wr);
	wr.next = &behind;
	peer_post_send(meeting->qp, &wr);
	expect(meeting, WR_BAD, meeting->bad->status);
	expect(meeting, WR_BEHIND, is_good ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	enum ibv_qp_state state = peer_qp_state(meeting->qp);
	CHECK(state == (is_good ? IBV_QPS_RTS : IBV_QPS_ERR),
		"%s: the client's queue pair is in state %d", meeting->bad->name, state);
	/* In the error state requests are taken, and end. */
	if (!is_good) {
		behind.wr_id = WR_AFTER;
		peer_post_send(meeting->qp, &behind);
		expect(meeting, WR_AFTER, IBV_WC_WR_FLUSH_ERR);
	}
	peer_no_completion(meeting->cq, 0);
}

/* --- report: what another implementation makes of it ------------------------------------------ */

/* The status of the next completion, or that there is none in `ms` milliseconds. */
static const char *status_within(struct meeting *meeting, unsigned ms)
{
	struct ibv_wc wc;

	return peer_completion_within(meeting->cq, ms, &wc) ? ibv_wc_status_str(wc.status) : "none";
}

static const char *state_name(const struct meeting *meeting)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return names[peer_qp_state(meeting->qp)];
}

static void client_report(struct meeting *meeting)
{
	struct ibv_sge sge, sge_behind;
	struct ibv_send_wr wr = request(meeting, meeting->bad->opcode, WR_BAD, &sge), *refused;
	struct ibv_send_wr behind = request(meeting, IBV_WR_RDMA_READ, WR_BEHIND, &sge_behind);
	int error;

	meeting->special = ibv_reg_mr(meeting->peer->pd, meeting->memory->addr, BYTES, 0);
	CHECK(meeting->special, "no memory region: %s", strerror(errno));
	spoil(meeting, &wr);
	wr.next = &behind;
	error = ibv_post_send(meeting->qp, &wr, &refused);
	if (error) {
		printf("%s\trefused when posted: %s\n", meeting->bad->name, strerror(error));
		return;
	}
	const char *status = status_within(meeting, EVENT_MS);
	printf("%s\t%s; behind it %s; %s\n", meeting->bad->name, status,
		status_within(meeting, REPORT_MS), state_name(meeting));
}

static void server_report(struct meeting *meeting)
{
	struct pollfd fd = {.fd = meeting->peer->context->async_fd, .events = POLLIN};
	const char *status = status_within(meeting, REPORT_MS);
	struct ibv_async_event event;
	const char *event_name = "no event";

	if (poll(&fd, 1, 0) == 1 && !ibv_get_async_event(meeting->peer->context, &event)) {
		event_name = ibv_event_type_str(event.event_type);
		ibv_ack_async_event(&event);
	}
	printf("%s\treceive %s; %s; %s\n", meeting->bad->name, status, state_name(meeting),
		event_name);
}

/* --- both ------------------------------------------------------------------------------------ */

static void recover(struct meeting *meeting)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(meeting, IBV_WR_SEND, WR_RECOVERED, &sge);

	CHECK(!ibv_modify_qp(meeting->qp, &reset, IBV_QP_STATE), "no way back to RESET");
	peer_barrier(meeting->peer);
	peer_qp_connect(meeting->peer, meeting->qp, &peer_link_full);
	if (peer_is_server(meeting->peer))
		peer_post_recv(meeting->qp, WR_RECOVERED, meeting->memory, 0, MESSAGE_BYTES);
	peer_barrier(meeting->peer);
	if (!peer_is_server(meeting->peer))
		peer_post_send(meeting->qp, &wr);
	expect(meeting, WR_RECOVERED, IBV_WC_SUCCESS);
}

static void run(struct peer *peer, const struct bad *bad)
{
	struct meeting meeting = {.peer = peer, .bad = bad};
	struct peer_link link = peer_link_full;
	struct peer_buffer ours = {0};
	bool is_server = peer_is_server(peer);
	bool is_report = peer->options.what && !strcmp(peer->options.what, "report");

	if (bad->flaw == QP_ACCESS)
		link.access = IBV_ACCESS_LOCAL_WRITE;
	meeting.other_pd = ibv_alloc_pd(peer->context);
	meeting.cq = peer_cq_create(peer, 16, NULL);
	meeting.qp = peer_qp_create(peer, meeting.cq, 4, 1, 0);
	meeting.memory = peer_memory(peer, BYTES);
	peer_pattern_fill(meeting.memory->addr, BYTES, is_server ? SEED : SEED + 1);
	if (is_server)
		ours = server_buffer(&meeting);
	peer_exchange(peer, &ours, &meeting.remote, sizeof(ours));
	peer_qp_connect(peer, meeting.qp, &link);
	if (is_server)
		server_post(&meeting);
	peer_barrier(peer);
	if (!is_server)
		is_report ? client_report(&meeting) : client_ask(&meeting);
	peer_barrier(peer);
	if (is_server)
		is_report ? server_report(&meeting) : server_look(&meeting);
	if (!is_report)
		recover(&meeting);

	CHECK(!ibv_destroy_qp(meeting.qp) && !ibv_destroy_cq(meeting.cq), "objects stay");
	CHECK(!meeting.special || !ibv_dereg_mr(meeting.special), "the region stays");
	CHECK(!ibv_dealloc_pd(meeting.other_pd), "the protection domain stays");
	peer_memory_free(meeting.memory);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer peer;

	peer_parse(&options, argc, argv);
	options.rnr_retry = 2;
	peer_open(&peer, &options);
	peer_meet(&peer);
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++)
		run(&peer, &bads[i]);
	peer_close(&peer);
	printf("%zu bad requests\n", sizeof(bads) / sizeof(bads[0]));
	return 0;
}

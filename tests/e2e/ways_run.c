/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "ways_end.h"

enum { GAP_BYTES = 16 };

static unsigned other(const struct ways *ways)
{
	return 1 - ways->end;
}

/* --- receive requests --- */

static void receive_post(struct ways *ways, uint32_t index, const struct ways_request *request)
{
	struct ibv_sge list[WAYS_PIECES_MAX];
	struct ibv_recv_wr *bad, wr = {.wr_id = index, .sg_list = list};
	size_t offset = (size_t)index * WAYS_STRIDE;
	uint32_t pieces = request->receive_pieces;

	for (uint32_t i = 0; i < pieces; i++) {
		list[i] = peer_sge(ways->received_mr, offset, request->receive_piece[i]);
		if (request->wrong == WRONG_RECEIVE_KEY)
			list[i].lkey ^= 0x100;
		offset += request->receive_piece[i] + GAP_BYTES;
	}
	if (request->wrong == WRONG_SHORT_RECEIVE) {
		pieces = 1;
		list[0].length = request->bytes / 2;
	}
	wr.num_sge = (int)pieces;
	CHECK(!(ways->srq ? ibv_post_srq_recv(ways->srq, &wr, &bad)
			  : ibv_post_recv(ways->qp, &wr, &bad)),
		"a receive request is refused");
}

static void limit_set(struct ways *ways, uint32_t limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	if (ways->srq)
		CHECK(!ibv_modify_srq(ways->srq, &attr, IBV_SRQ_LIMIT), "no limit");
}

/* Those for the other end's requests of a step; returns how many. */
static uint32_t receives_post(struct ways *ways, const struct ways_step *step)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < step->of[other(ways)].count; i++) {
		const struct ways_request *request = &step->of[other(ways)].request[i];

		if (request->wrong == WRONG_NO_RECEIVE)
			break;
		if (request->takes_receive) {
			receive_post(ways, i, request);
			count++;
		}
	}
	return count;
}

static uint32_t receives_before_wrong(const struct ways *ways, const struct ways_step *step)
{
	uint32_t wrong = ways_wrong_index(step, other(ways)), count = 0;

	for (uint32_t i = 0; i < wrong; i++)
		count += step->of[other(ways)].request[i].takes_receive;
	return count;
}

/* --- requests --- */

static void send_post(struct ways *ways, uint32_t index, const struct ways_request *request)
{
	const struct ibv_mr *mr =
		request->wrong == WRONG_LOCAL_RIGHTS ? ways->local_read_only : ways->local_mr;
	struct ibv_sge list[WAYS_PIECES_MAX];
	struct ibv_send_wr wr = {
		.wr_id = index,
		.sg_list = list,
		.num_sge = (int)request->pieces,
		.opcode = request->opcode,
		.send_flags = request->flags,
		.imm_data = request->imm,
		.qp_type.xrc.remote_srqn = ways->their_srqn,
	};
	uint64_t remote = ways->theirs.address + request->remote_offset;
	uint32_t rkey = request->wrong == WRONG_WINDOW ? ways->theirs.stale_window
						       : ways->theirs.key[request->key];
	size_t offset = (size_t)index * WAYS_STRIDE;

	for (uint32_t i = 0; i < request->pieces; i++) {
		list[i] = peer_sge(mr, offset, request->piece[i]);
		if (request->wrong == WRONG_LOCAL_KEY)
			list[i].lkey ^= 0x100;
		offset += request->piece[i] + GAP_BYTES;
	}
	if (request->wrong == WRONG_BOUNDS)
		remote = ways->theirs.address + WAYS_AREA_BYTES - request->bytes + 1;
	if (ways->ah) {
		wr.wr.ud.ah = ways->ah;
		wr.wr.ud.remote_qpn = ways->their_qpn;
		wr.wr.ud.remote_qkey = WAYS_QKEY;
		peer_post_send(ways->qp, &wr);
		return;
	}
	switch ((int)request->opcode) {
	case IBV_WR_SEND_WITH_INV:
		wr.invalidate_rkey = rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = request->compare_add;
		wr.wr.atomic.swap = request->swap;
		break;
	default:
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	peer_post_send(ways->qp, &wr);
}

static void send_wait(struct ways *ways, uint32_t last)
{
	struct ibv_wc wc;

	do {
		wc = peer_completion(ways->send_cq);
		ways_show(ways, "send", &wc);
	} while (wc.wr_id != last);
}

static void requests_execute(struct ways *ways, const struct ways_step *step)
{
	uint32_t count = step->of[ways->end].count;

	for (uint32_t i = 0; i < count; i++) {
		send_post(ways, i, &step->of[ways->end].request[i]);
		if (step->of[ways->end].is_one_by_one)
			send_wait(ways, i);
	}
}

/* --- windows --- */

static void window_execute(struct ways *ways, struct ibv_send_wr *wr)
{
	wr->send_flags = IBV_SEND_SIGNALED;
	wr->wr_id = UINT64_MAX;
	peer_post_send(ways->qp, wr);
	peer_success(ways->send_cq);
}

static void window_invalidate(struct ways *ways, struct ibv_mw *window)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = window->rkey};

	window_execute(ways, &wr);
}

static void window_bind(struct ways *ways, struct ibv_mw *window)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw.mw = window,
		.bind_mw.rkey = ibv_inc_rkey(window->rkey),
		.bind_mw.bind_info =
			{
				.mr = ways->target_mr,
				.addr = (uintptr_t)ways->target + WAYS_WINDOW_OFFSET,
				.length = WAYS_WINDOW_BYTES,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
			},
	};

	window_execute(ways, &wr);
	window->rkey = wr.bind_mw.rkey;
}

static void keys_exchange(struct ways *ways, const struct ways_step *step)
{
	struct ways_keys ours = {
		.address = (uintptr_t)ways->target,
		.key = {[KEY_REGION] = ways->target_mr->rkey,
			[KEY_READ_ONLY] = ways->read_only->rkey,
			[KEY_WRITE_ONLY] = ways->write_only->rkey,
			[KEY_FOREIGN] = ways->foreign->rkey,
			[KEY_NONE] = ways->target_mr->rkey ^ 0x100},
	};

	if (step->of[other(ways)].has_window) {
		if (ways->is_window_bound)
			window_invalidate(ways, ways->window);
		window_bind(ways, ways->window);
		ways->is_window_bound = true;
	}
	if (!ways->is_xrc && ways_wrong_index(step, other(ways)) < step->of[other(ways)].count) {
		window_bind(ways, ways->stale);
		window_invalidate(ways, ways->stale);
	}
	ours.key[KEY_WINDOW] = ways->window->rkey;
	ours.stale_window = ways->stale->rkey;
	peer_exchange(ways->peer, &ours, &ways->theirs, sizeof(ours));
}

/* --- a step --- */

static bool has_wrong(const struct ways_step *step, unsigned end)
{
	return ways_wrong_index(step, end) < step->of[end].count;
}

/* Of the queue pair that receives. */
static void rights_end(struct ways *ways)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE};

	if (ways->is_xrc)
		ways_receiver_restrict(ways->receiver);
	else
		CHECK(!ibv_modify_qp(ways->qp, &attr, IBV_QP_ACCESS_FLAGS), "rights stay");
}

static void prepare(struct ways *ways, const struct ways_step *step)
{
	uint32_t wrong = ways_wrong_index(step, other(ways));

	keys_exchange(ways, step);
	peer_pattern_fill(ways->local, WAYS_AREA_BYTES, ways->seed * 16 + ways->number);
	if (has_wrong(step, other(ways)) &&
		step->of[other(ways)].request[wrong].wrong == WRONG_QP_RIGHTS)
		rights_end(ways);
	if (step->arm[ways->end] != ARM_NOT)
		CHECK(!ibv_req_notify_cq(ways->receive_cq, step->arm[ways->end] == ARM_SOLICITED),
			"not armed");
}

static void receives_wait(struct ways *ways, uint32_t count)
{
	for (; count; count--) {
		struct ibv_wc wc = peer_completion(ways->receive_cq);

		if (wc.wc_flags & IBV_WC_WITH_INV)
			ways->is_window_bound = false;
		ways_show(ways, "receive", &wc);
	}
}

/* What completes with the queue pair, which is in the error state. */
static void rest_flushed(struct ways *ways, uint32_t count)
{
	struct ibv_wc wc;

	if (!ways->srq)
		receives_wait(ways, count);
	while (ways->srq && ibv_poll_cq(ways->receive_cq, 1, &wc) == 1)
		ways_show(ways, "receive", &wc); /* it was taken; others may have the rest */
}

/* Returns whether the connection is over. */
static bool step_run(struct ways *ways, const struct ways_step *step)
{
	bool is_late = step->receive_late_ms && step->of[other(ways)].count;
	bool is_active = step->of[ways->end].count != 0;
	bool is_spoilt = has_wrong(step, 0) || has_wrong(step, 1);
	uint32_t posted = 0, done = receives_before_wrong(ways, step);
	enum ibv_qp_state state;

	prepare(ways, step);
	if (!is_late) {
		posted = receives_post(ways, step);
		limit_set(ways, step->srq_limit[ways->end]);
	}
	peer_barrier(ways->peer);
	if (is_late && step->of[ways->end].is_one_by_one) {
		peer_sleep_ms(step->receive_late_ms);
		posted = receives_post(ways, step);
		is_late = false;
	}
	if (is_active)
		requests_execute(ways, step);
	if (is_late) {
		peer_sleep_ms(step->receive_late_ms);
		posted = receives_post(ways, step);
	}
	if (is_active && !step->of[ways->end].is_one_by_one)
		send_wait(ways, step->of[ways->end].count - 1);
	receives_wait(ways, done);
	peer_barrier(ways->peer);
	state = ways->is_xrc ? ways_show_receiver(ways) : peer_qp_state(ways->qp);
	if (is_spoilt && state == IBV_QPS_ERR)
		rest_flushed(ways, posted - done);
	ways_show_rest(ways);
	return is_spoilt;
}

/* --- a program --- */

static void connection_end(struct ways *ways, const struct ways_program *program)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	peer_barrier(ways->peer);
	if (ways->srq) { /* what is left in it goes with it */
		ways_queues_destroy(ways);
		ways_queues_create(ways, program);
	} else {
		CHECK(!ibv_modify_qp(ways->qp, &attr, IBV_QP_STATE), "no reset");
	}
	ways->is_window_bound = false;
}

/* A message comes before the queue pair is ready to send: it says so. */
static void rtr_begin(struct ways *ways, const struct ways_program *program)
{
	const struct peer_link link = {
		peer_link_full.access, program->rd_atomic, program->rd_atomic};
	const struct ways_request request = {
		.opcode = IBV_WR_SEND,
		.flags = IBV_SEND_SIGNALED,
		.bytes = 8,
		.piece = {8},
		.pieces = 1,
		.receive_piece = {8},
		.receive_pieces = 1,
	};
	uint32_t psn;

	ways->peer->options.rnr_retry = program->rnr_retry;
	ways->peer->options.mtu_bytes = program->mtu_bytes;
	psn = peer_qp_to_rtr(ways->peer, ways->qp, &link);
	if (ways->end == 0) {
		peer_qp_to_rts(ways->peer, ways->qp, psn, &link);
		peer_barrier(ways->peer);
		send_post(ways, 0, &request);
		send_wait(ways, 0);
	} else {
		receive_post(ways, 0, &request);
		peer_barrier(ways->peer);
		receives_wait(ways, 1);
		ways_show_rest(ways);
		peer_qp_to_rts(ways->peer, ways->qp, psn, &link);
	}
	peer_barrier(ways->peer);
}

static void program_begin(struct ways *ways, const struct ways_program *program, uint64_t seed)
{
	struct peer *peer = ways->peer;

	ways->seed = seed;
	ways->number = 0;
	ways->is_window_bound = false;
	ways->send_cq = peer_cq_create(peer, 2 * WAYS_QUEUE_DEPTH, NULL);
	ways->receive_cq = peer_cq_create(peer, 2 * WAYS_QUEUE_DEPTH, ways->channel);
	ways_queues_create(ways, program);
	CHECK(ways->window = ibv_alloc_mw(peer->pd, IBV_MW_TYPE_2), "no window");
	CHECK(ways->stale = ibv_alloc_mw(peer->pd, IBV_MW_TYPE_2), "no window");
	memset(ways->target, 0, WAYS_AREA_BYTES);
	memset(ways->received, 0, WAYS_AREA_BYTES);
	if (program->begins_in_rtr)
		rtr_begin(ways, program);
	else
		ways_connection_begin(ways, program);
}

static void program_end(struct ways *ways)
{
	struct ibv_wc wc;

	CHECK(!ibv_poll_cq(ways->send_cq, 1, &wc) && !ibv_poll_cq(ways->receive_cq, 1, &wc),
		"one completion more: request %" PRIu64 ", status %d", wc.wr_id, wc.status);
	peer_barrier(ways->peer);
	CHECK(!ways->ah || !ibv_destroy_ah(ways->ah), "the address handle stays");
	ways->ah = NULL;
	ways_queues_destroy(ways);
	CHECK(!ibv_destroy_cq(ways->send_cq) && !ibv_destroy_cq(ways->receive_cq), "objects stay");
	CHECK(!ibv_dealloc_mw(ways->window) && !ibv_dealloc_mw(ways->stale), "windows stay");
}

void ways_run(struct ways *ways, const struct ways_program *program, uint64_t seed)
{
	alarm(6 * PEER_TIMEOUT_S);
	program_begin(ways, program, seed);
	for (uint32_t i = 0; i < program->steps; i++) {
		ways->number = i + 1;
		if (!step_run(ways, &program->step[i]))
			continue;
		connection_end(ways, program);
		ways_connection_begin(ways, program);
	}
	program_end(ways);
}

/* --- what programs share --- */

static uint8_t *area(void)
{
	uint8_t *area = aligned_alloc(4096, (WAYS_AREA_BYTES + 4095) / 4096 * 4096);

	CHECK(area, "no memory");
	return memset(area, 0, WAYS_AREA_BYTES);
}

static struct ibv_mr *region(struct ibv_pd *pd, uint8_t *memory, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, WAYS_AREA_BYTES, access);

	CHECK(mr, "no memory region: %s", strerror(errno));
	return mr;
}

struct ways *ways_open(struct peer *peer, struct ways_receiver *receiver)
{
	const int full = peer_link_full.access | IBV_ACCESS_MW_BIND;
	struct ways *ways = calloc(1, sizeof(*ways));
	int fd = peer->context->async_fd;

	CHECK(ways, "no memory");
	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "events block");
	ways->peer = peer;
	ways->receiver = receiver;
	ways->domain = xrc_domain(peer, receiver->domain);
	ways->end = !peer_is_server(peer);
	CHECK(ways->channel = ibv_create_comp_channel(peer->context), "no channel");
	CHECK(ways->other_pd = ibv_alloc_pd(peer->context), "no other domain");
	ways->target = area();
	ways->local = area();
	ways->received = area();
	ways->target_mr = region(peer->pd, ways->target, full);
	ways->read_only = region(peer->pd, ways->target, IBV_ACCESS_REMOTE_READ);
	ways->write_only =
		region(peer->pd, ways->target, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ways->foreign = region(ways->other_pd, ways->target, full);
	ways->local_mr = region(peer->pd, ways->local, IBV_ACCESS_LOCAL_WRITE);
	ways->local_read_only = region(peer->pd, ways->local, 0);
	ways->received_mr = region(peer->pd, ways->received, IBV_ACCESS_LOCAL_WRITE);
	return ways;
}

void ways_close(struct ways *ways)
{
	struct ibv_mr *const mrs[] = {ways->target_mr, ways->read_only, ways->write_only,
		ways->foreign, ways->local_mr, ways->local_read_only, ways->received_mr};

	for (size_t i = 0; i < sizeof(mrs) / sizeof(mrs[0]); i++)
		CHECK(!ibv_dereg_mr(mrs[i]), "memory regions stay");
	CHECK(!ibv_close_xrcd(ways->domain) && !ibv_dealloc_pd(ways->other_pd) &&
			!ibv_destroy_comp_channel(ways->channel),
		"objects stay");
	free(ways->target);
	free(ways->local);
	free(ways->received);
	free(ways);
}

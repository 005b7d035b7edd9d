/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs as a program calls it: posting, polling, and the completions, between two connected
 * queue pairs of this process on the loopback interface, in a network namespace of their own.
 */
#include <errno.h>
#include <pthread.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_ends.h"

/* --- posting ------------------------------------------------------------------------------ */

static void post_in_a_state_that_takes_none_is_refused(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr send = send_make(IBV_WR_SEND, &sge);
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad_send = NULL;
	struct ibv_recv_wr *bad_recv = NULL;

	(void)state;
	assert_int_equal(ibv_post_recv(a.qp, &recv, &bad_recv), EINVAL);
	assert_ptr_equal(bad_recv, &recv);
	assert_int_equal(ibv_post_send(a.qp, &send, &bad_send), EINVAL);
	assert_ptr_equal(bad_send, &send);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(ibv_post_recv(a.qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(a.qp, &send, &bad_send), EINVAL);
}

static void post_names_the_first_request_that_is_refused(void **state)
{
	struct ibv_sge sge[3] = {whole(&a, 1), whole(&a, 1), whole(&a, 1)};
	struct ibv_send_wr wr[3];
	struct ibv_send_wr *bad;

	(void)state;
	for (int i = 0; i < 3; i++) {
		wr[i] = send_make(IBV_WR_RDMA_WRITE, sge);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 3;
	assert_int_equal(ibv_post_send(a.qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	completion_is(&a, IBV_WC_SUCCESS);

	wr[1].num_sge = -1;
	assert_int_equal(ibv_post_send(a.qp, &wr[1], &bad), EINVAL);
	wr[1].num_sge = 1;
	wr[1].opcode = (enum ibv_wr_opcode)99;
	assert_int_equal(ibv_post_send(a.qp, &wr[1], &bad), EINVAL);
	wr[1].opcode = IBV_WR_SEND;
	wr[1].send_flags = IBV_SEND_INLINE;
	sge[0].length = 65;
	assert_int_equal(ibv_post_send(a.qp, &wr[1], &bad), EINVAL);
}

static void post_to_a_full_queue_is_refused(void **state)
{
	struct ibv_recv_wr wr[DEPTH + 2];
	struct ibv_recv_wr *bad;

	(void)state;
	for (int i = 0; i < DEPTH + 2; i++)
		wr[i] = (struct ibv_recv_wr){.next = i < DEPTH + 1 ? &wr[i + 1] : NULL};
	assert_int_equal(ibv_post_recv(a.qp, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[DEPTH]);
}

/* --- transfers ---------------------------------------------------------------------------- */

static void send_with_immediate_arrives_with_all_its_words(void **state)
{
	struct ibv_sge sge = whole(&a, 5000);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND_WITH_IMM, &sge);
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 5000; i++)
		a.buffer[i] = (uint8_t)(i * 7);
	wr.imm_data = htobe32(0x01020304);
	post_recv(&b, BUFFER_BYTES);
	post_send(&wr);
	wc = poll_one(&a);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.wr_id, 9);
	wc = poll_one(&b);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, 5000);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 0x01020304);
	assert_memory_equal(a.buffer, b.buffer, 5000);
}

static void write_read_and_atomics_move_what_they_should(void **state)
{
	struct ibv_sge sge = whole(&a, 3000);
	struct ibv_send_wr wr = send_make(IBV_WR_RDMA_WRITE, &sge);
	uint64_t old;

	(void)state;
	memset(a.buffer, 0x5a, 3000);
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	assert_memory_equal(a.buffer, b.buffer, 3000);

	memset(b.buffer, 0xa5, 3000);
	wr.opcode = IBV_WR_RDMA_READ;
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	assert_memory_equal(a.buffer, b.buffer, 3000);

	*(uint64_t *)(void *)b.buffer = 40;
	sge.length = 8;
	wr = send_make(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
	wr.wr.atomic.remote_addr = (uintptr_t)b.buffer;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	memcpy(&old, a.buffer, 8);
	assert_int_equal(old, 40);
	assert_int_equal(*(uint64_t *)(void *)b.buffer, 42);
}

/* --- faults ------------------------------------------------------------------------------- */

static void write_with_a_wrong_key_is_a_remote_access_error(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_RDMA_WRITE, &sge);
	struct ibv_async_event event;

	(void)state;
	wr.wr.rdma.rkey ^= 0x100;
	post_send(&wr);
	completion_is(&a, IBV_WC_REM_ACCESS_ERR);
	state_is(a.qp, IBV_QPS_ERR);
	state_is(b.qp, IBV_QPS_ERR);
	/*
	 * The responder's program gets an event, and its queue pair stays until the program
	 * acknowledges it.
	 */
	do {
		event = async_take();
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, b.qp);
}

static void write_with_a_wrong_lkey_is_a_local_protection_error(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_RDMA_WRITE, &sge);

	(void)state;
	sge.lkey = b.mr->lkey;
	post_send(&wr);
	completion_is(&a, IBV_WC_LOC_PROT_ERR);
	state_is(a.qp, IBV_QPS_ERR);
	state_is(b.qp, IBV_QPS_RTS);
}

static void send_longer_than_the_receive_is_an_error_on_both_sides(void **state)
{
	struct ibv_sge sge = whole(&a, 3000);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);

	(void)state;
	post_recv(&b, 2999);
	post_send(&wr);
	completion_is(&b, IBV_WC_LOC_LEN_ERR);
	completion_is(&a, IBV_WC_REM_INV_REQ_ERR);
	state_is(b.qp, IBV_QPS_ERR);
}

static void requests_after_the_error_are_flushed_in_order(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr[3];
	struct ibv_send_wr *bad;

	(void)state;
	for (int i = 0; i < 3; i++) {
		wr[i] = send_make(IBV_WR_RDMA_WRITE, &sge);
		wr[i].wr_id = (uint64_t)i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[0].wr.rdma.remote_addr += BUFFER_BYTES;
	post_recv(&a, 10);
	assert_int_equal(ibv_post_send(a.qp, wr, &bad), 0);
	completion_is(&a, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = 1; i < 3; i++) {
		struct ibv_wc wc = poll_one(&a);

		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, i);
	}
	completion_is(&a, IBV_WC_WR_FLUSH_ERR);
	/* And so are those that come later. */
	post_send(&wr[2]);
	completion_is(&a, IBV_WC_WR_FLUSH_ERR);
}

static void send_to_a_peer_without_receives_ends_in_rnr(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);

	(void)state;
	post_send(&wr);
	completion_is(&a, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* --- events ------------------------------------------------------------------------------- */

static void channel_tells_of_the_completion_it_was_armed_for(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);
	struct ibv_cq *cq;
	void *cq_context;

	(void)state;
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	post_recv(&b, 10);
	post_send(&wr);
	assert_true(is_readable(b.channel->fd, TIMEOUT_S * 1000));
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, b.cq);
	assert_ptr_equal(cq_context, &b);
	ibv_ack_cq_events(cq, 1);
	completion_is(&b, IBV_WC_SUCCESS);
	completion_is(&a, IBV_WC_SUCCESS);

	/* A queue that is armed once raises one event. */
	post_recv(&b, 10);
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	completion_is(&b, IBV_WC_SUCCESS);
	assert_false(is_readable(b.channel->fd, 0));
}

static void channel_armed_for_solicited_ones_passes_others_over(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);
	struct ibv_cq *cq;
	void *cq_context;

	(void)state;
	assert_int_equal(ibv_req_notify_cq(b.cq, 1), 0);
	post_recv(&b, 10);
	post_recv(&b, 10);
	post_send(&wr);
	completion_is(&b, IBV_WC_SUCCESS);
	assert_false(is_readable(b.channel->fd, 0));
	wr.send_flags |= IBV_SEND_SOLICITED;
	post_send(&wr);
	assert_true(is_readable(b.channel->fd, TIMEOUT_S * 1000));
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), 0);
	ibv_ack_cq_events(cq, 1);
	completion_is(&b, IBV_WC_SUCCESS);
}

static void *destroy_cq_in_thread(void *argument)
{
	return (void *)(intptr_t)ibv_destroy_cq(argument);
}

static void queue_waits_for_its_events_to_be_acknowledged(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);
	struct timespec soon;
	struct ibv_cq *cq;
	void *cq_context;
	void *result;
	pthread_t thread;

	(void)state;
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	post_recv(&b, 10);
	post_send(&wr);
	assert_true(is_readable(b.channel->fd, TIMEOUT_S * 1000));
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), 0);
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy_cq_in_thread, b.cq), 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 50000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	assert_int_equal(pthread_timedjoin_np(thread, &result, &soon), ETIMEDOUT);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	/* What the tear-down takes apart. */
	b.cq = ibv_create_cq(context, 1, &b, b.channel, 0);
	b.qp = qp_make(&b, (struct ibv_qp_cap){1, 1, 1, 1, 0});
}

static void queue_that_overruns_tells_and_stops(void **state)
{
	struct ibv_cq *small = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct end end = {.pd = a.pd, .cq = small};
	struct ibv_recv_wr recv[DEPTH] = {0};
	struct ibv_recv_wr *bad;
	struct ibv_async_event event;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(small);
	qp = qp_make(&end, (struct ibv_qp_cap){1, DEPTH, 1, 1, 0});
	assert_non_null(qp);
	assert_int_equal(to_init(qp), 0);
	assert_true(small->cqe < DEPTH);
	for (int i = 0; i + 1 < DEPTH; i++)
		recv[i].next = &recv[i + 1];
	assert_int_equal(ibv_post_recv(qp, recv, &bad), 0);
	/* All are flushed into a queue that has room for one. */
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	do {
		event = async_take();
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, small);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(small), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNCONNECTED(post_in_a_state_that_takes_none_is_refused),
		CONNECTED(post_names_the_first_request_that_is_refused),
		CONNECTED(post_to_a_full_queue_is_refused),
		CONNECTED(send_with_immediate_arrives_with_all_its_words),
		CONNECTED(write_read_and_atomics_move_what_they_should),
		CONNECTED(write_with_a_wrong_key_is_a_remote_access_error),
		CONNECTED(write_with_a_wrong_lkey_is_a_local_protection_error),
		CONNECTED(send_longer_than_the_receive_is_an_error_on_both_sides),
		CONNECTED(requests_after_the_error_are_flushed_in_order),
		CONNECTED(send_to_a_peer_without_receives_ends_in_rnr),
		CONNECTED(channel_tells_of_the_completion_it_was_armed_for),
		CONNECTED(channel_armed_for_solicited_ones_passes_others_over),
		CONNECTED(queue_waits_for_its_events_to_be_acknowledged),
		UNCONNECTED(queue_that_overruns_tells_and_stops),
	};
	int netns = netns_enter_new();

	if (netns < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Senders that share a link of 40 Gbit/s, by DCQCN and by Swift: a star with a microsecond a link,
 * whose switch has a fluid queue that marks packets. The bounds of DCQCN's queue are what others
 * have measured packet by packet: 38, 79, 124 and 127 KB for 2, 4, 8 and 16 senders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "congestion/cc_flow.h"

enum {
	LINE_KBPS = 40000000,
	PACKET_BYTES = 1048,
	SENDERS_MAX = 16,
	KMIN_BYTES = 5000,
	KMAX_BYTES = 200000,
	PMAX_PERCENT = 1,
	LINK_NS = 1000,
	ANSWERS_MAX = 64, /* on their way to a sender; a power of two */
	ACK_PACKETS = 16, /* that one acknowledgement of Swift is for */
};

#define MS 1000000u

struct sender {
	struct cc_flow flow; /* the sender's half */
	struct cc_flow peer; /* the receiver's: the spacing of CNPs */
	uint64_t next_ns;
	uint64_t sent_bytes; /* in the second half of the time */
	uint32_t packets;
	/* CNPs, or acknowledgements with their round trips. */
	struct {
		uint64_t at_ns;
		uint64_t rtt_ns;
	} answers[ANSWERS_MAX];
	uint32_t answer_head, answer_tail;
};

static struct cc_params params;
static struct sender senders[SENDERS_MAX];
static uint32_t sender_count;
static uint64_t queue_bits, queue_ns; /* the queue's length at a time; in bits * 1000000 */
static uint64_t queue_sum_bytes, queue_peak_bytes, arrivals, draws;

static uint64_t queue_bytes_at(uint64_t now_ns)
{
	uint64_t drained = (now_ns - queue_ns) * LINE_KBPS;

	queue_bits -= min_u64(drained, queue_bits);
	queue_ns = now_ns;
	return queue_bits / 8000000;
}

static bool is_marked(uint64_t queue_bytes)
{
	uint64_t draw = mix_u64(++draws * 0x9e3779b97f4a7c15u) % (100 * (KMAX_BYTES - KMIN_BYTES));

	if (queue_bytes > KMAX_BYTES)
		return true;
	return queue_bytes > KMIN_BYTES && draw < (queue_bytes - KMIN_BYTES) * PMAX_PERCENT;
}

static void answer_later(struct sender *sender, uint64_t at_ns, uint64_t rtt_ns)
{
	uint32_t place = sender->answer_tail++ % ANSWERS_MAX;

	assert_true(sender->answer_tail - sender->answer_head <= ANSWERS_MAX);
	sender->answers[place].at_ns = at_ns;
	sender->answers[place].rtt_ns = rtt_ns;
}

static void answers_take(struct sender *sender, uint64_t now_ns)
{
	while (sender->answer_head != sender->answer_tail) {
		uint32_t place = sender->answer_head % ANSWERS_MAX;
		uint64_t at_ns = sender->answers[place].at_ns;

		if (at_ns > now_ns)
			return;
		sender->answer_head++;
		if (params.algorithm == CC_DCQCN)
			cc_flow_on_cnp(&sender->flow, at_ns);
		else
			cc_flow_on_ack(
				&sender->flow, sender->answers[place].rtt_ns, ACK_PACKETS, at_ns);
	}
}

/* A packet of the sender leaves, and reaches the queue at the same time. */
static void packet_send(struct sender *sender, bool is_counted)
{
	uint64_t now_ns = sender->next_ns, queue_bytes = queue_bytes_at(now_ns);
	uint64_t arrival_ns = now_ns + 2 * LINK_NS + queue_bytes * 8000000 / LINE_KBPS;
	uint32_t rate_kbps;

	if (params.algorithm == CC_DCQCN && is_marked(queue_bytes) &&
		cc_flow_on_mark(&sender->peer, arrival_ns))
		answer_later(sender, arrival_ns + 2 * LINK_NS, 0);
	if (params.algorithm == CC_SWIFT && ++sender->packets % ACK_PACKETS == 0)
		answer_later(sender, arrival_ns + 2 * LINK_NS, arrival_ns + 2 * LINK_NS - now_ns);
	queue_bits += UINT64_C(8000000) * PACKET_BYTES;
	answers_take(sender, now_ns);
	cc_flow_on_sent(&sender->flow, PACKET_BYTES, now_ns);
	rate_kbps = cc_flow_rate_kbps(&sender->flow, now_ns);
	sender->next_ns += UINT64_C(8000000) * PACKET_BYTES / (rate_kbps ? rate_kbps : LINE_KBPS);
	if (!is_counted)
		return;
	sender->sent_bytes += PACKET_BYTES;
	queue_sum_bytes += queue_bytes;
	queue_peak_bytes = max_u64(queue_peak_bytes, queue_bytes);
	arrivals++;
}

/* `count` senders begin at once; the second half of the time counts. */
static void senders_run(uint32_t count, uint64_t time_ns)
{
	memset(senders, 0, sizeof(senders));
	sender_count = count;
	queue_bits = queue_ns = queue_sum_bytes = queue_peak_bytes = arrivals = draws = 0;
	for (uint32_t i = 0; i < count; i++) {
		senders[i].flow = (struct cc_flow){
			.params = &params, .line_kbps = LINE_KBPS, .packet_bytes = PACKET_BYTES};
		senders[i].peer = senders[i].flow;
		senders[i].next_ns = i;
	}
	for (;;) {
		struct sender *next = &senders[0];

		for (uint32_t i = 1; i < count; i++)
			if (senders[i].next_ns < next->next_ns)
				next = &senders[i];
		if (next->next_ns >= time_ns)
			return;
		packet_send(next, next->next_ns >= time_ns / 2);
	}
}

/* Jain's fairness in ten thousandths, and the sum of the rates in Mbit/s. */
static uint64_t fairness(void)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < sender_count; i++) {
		sum += (double)senders[i].sent_bytes;
		squares += (double)senders[i].sent_bytes * (double)senders[i].sent_bytes;
	}
	return (uint64_t)(10000 * sum * sum / (sender_count * squares));
}

static uint64_t sum_mbps(uint64_t time_ns)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < sender_count; i++)
		bytes += senders[i].sent_bytes;
	return bytes * 8 * 1000 / (time_ns / 2);
}

static void show(void)
{
	print_message(
		"%u senders: %u Mbit/s, Jain %u/10000, queue %u bytes on average, %u at most\n",
		sender_count, (unsigned)sum_mbps(60 * MS), (unsigned)fairness(),
		(unsigned)(queue_sum_bytes / arrivals), (unsigned)queue_peak_bytes);
}

static void dcqcn_shares_a_link_fairly_with_a_short_queue(void **state)
{
	static const uint32_t queue_bytes[] = {38000, 79000, 124000, 127000};

	(void)state;
	cc_params_init(&params, CC_DCQCN, CC_PRESET_SIGCOMM15);
	params.rp_min_rate = 100;
	for (uint32_t i = 0; i < 4; i++) {
		senders_run(2u << i, 60 * MS);
		show();
		assert_in_range(fairness(), 9800, 10000);
		assert_in_range(sum_mbps(60 * MS), 38000, 40100);
		assert_in_range(queue_sum_bytes / arrivals, 5000, queue_bytes[i]);
	}
}

static void swift_shares_a_link_fairly_near_its_target_delay(void **state)
{
	(void)state;
	cc_params_init(&params, CC_SWIFT, CC_PRESET_SIGCOMM15);
	params.swift_base_delay = 25;
	params.swift_range_delay = 50;
	for (uint32_t i = 0; i < 3; i++) {
		senders_run(2u << i, 60 * MS);
		show();
		assert_in_range(fairness(), 9800, 10000);
		assert_in_range(sum_mbps(60 * MS), 32000, 40100);
		/* 75 us of the line. */
		assert_in_range(queue_sum_bytes / arrivals, 5000, 375000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dcqcn_shares_a_link_fairly_with_a_short_queue),
		cmocka_unit_test(swift_shares_a_link_fairly_near_its_target_delay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

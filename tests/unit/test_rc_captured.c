/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests from a capture of the Linux kernel's rxe (tests/data/pcap) are sent to urnic's
 * responder, which gives the same answers, packet by packet.
 *
 * The test translates queue pair number, PSNs, keys and addresses of the requests to those of its
 * own queue pair. In the captures the server's region is TARGET_BYTES long, and its bytes count up.
 * The private data of the server's REP has the region's address. A key is the region's, or wrong on
 * purpose, or else that of a memory window.
 */
#include <string.h>

#include "base/arith.h"
#include "memory/mw.h"
#include "support/pcap.h"
#include "support/rc_script.h"
#include "wire/bytes.h"
#include "wire/cm/cm_message.h"
#include "wire/cm/gsi_packet.h"

enum {
	TARGET_BYTES = 64 << 10,
	TARGET = SCRIPT_MEMORY_BYTES - TARGET_BYTES, /* its end is the end of our region */
	KEY_WRONG = 0x5500, /* what a key was made wrong with */
	RECEIVE_BYTES = 16 << 10,
	ANSWERS_MAX = 64,
	RNR_MS = 1,
};

/* A packet of the server's, in terms of the connection. */
struct answer {
	enum opcode opcode;
	int32_t psn; /* after the first request's */
	struct aeth aeth;
	uint64_t original; /* of an atomic */
	uint32_t payload_bytes;
	uint8_t payload[4096];
};

struct recording {
	struct pcap pcap;
	uint32_t client_qpn;
	uint32_t server_qpn;
	uint64_t address; /* of the server's region */
	uint32_t key;
	bool has_first;
	struct psn first; /* PSN of the first request */
	uint32_t window; /* the key of the last memory window, 0: none */
	uint32_t window_here;
};

static struct recording capture;
static struct answer theirs[ANSWERS_MAX], ours[ANSWERS_MAX];
static uint32_t their_count, our_count;

static void answer_note(
	struct answer *list, uint32_t *count, const struct packet *packet, struct psn first)
{
	struct answer *answer = &list[(*count)++];

	assert_true(*count <= ANSWERS_MAX);
	*answer = (struct answer){
		.opcode = packet->info->opcode,
		.psn = psn_diff(packet->bth.psn, first),
		.payload_bytes = packet->payload_bytes,
	};
	if (packet->info->headers & HEADER_AETH)
		answer->aeth = packet->aeth;
	if (packet->info->headers & HEADER_ATOMICACKETH)
		answer->original = packet->atomicacketh.original;
	if (packet->payload_bytes)
		memcpy(answer->payload, packet->payload, packet->payload_bytes);
}

static void ours_take(void)
{
	size_t bytes;
	struct packet_run run = {.buffer = script.wire};

	while ((bytes = engine_next_packet(&script.lane, true, &run, script.now_ns)) != 0) {
		assert_int_equal(packet_decode(&script.packet, script.wire, bytes), PACKET_OK);
		answer_note(ours, &our_count, &script.packet, (struct psn){SCRIPT_RQ_PSN});
		if (script.packet.aeth.kind == AETH_RNR_NAK)
			script_post_receive(&script, RECEIVE_BYTES);
	}
}

/* A window over the whole region, as the server bound one at this point. */
static uint32_t window_make(void)
{
	uint32_t key, posted;
	struct cqe cqe;

	assert_int_equal(mw_add(&script.mrs, SCRIPT_PD, MR_KIND_WINDOW_2, 1, &key), 0);
	struct send_wr wr = {
		.opcode = WR_BIND_MW,
		.flags = SEND_SIGNALED,
		.rkey = key,
		.remote_address = (uintptr_t)script.memory + TARGET,
		.bind = {.bytes = TARGET_BYTES,
			.region_key = script.key,
			.access = MR_REMOTE_WRITE},
	};
	assert_int_equal(engine_post_send(script.qp, &wr, 1, &posted, script.now_ns), 0);
	ours_take();
	do {
		cqe = script_completion(&script);
		assert_int_equal(cqe.status, WC_SUCCESS);
	} while (cqe.opcode != WC_BIND_MW);
	return key;
}

static uint32_t key_here(uint32_t key)
{
	if (key == capture.key)
		return script.key;
	if (key == (capture.key ^ KEY_WRONG))
		return script.key ^ KEY_WRONG;
	if (key != capture.window) {
		capture.window = key;
		capture.window_here = window_make();
	}
	return capture.window_here;
}

static uint64_t address_here(uint64_t address)
{
	return (uintptr_t)script.memory + TARGET + (address - capture.address);
}

static void request_replay(struct packet *packet)
{
	uint32_t headers = packet->info->headers;

	if (!capture.has_first) {
		capture.has_first = true;
		capture.first = packet->bth.psn;
	}
	packet->bth.dest_qpn = qpn_from(script.qp->qpn);
	packet->bth.psn = psn_add(
		(struct psn){SCRIPT_RQ_PSN}, (uint32_t)psn_diff(packet->bth.psn, capture.first));
	if (headers & HEADER_RETH) {
		packet->reth.rkey = key_here(packet->reth.rkey);
		packet->reth.va = address_here(packet->reth.va);
	}
	if (headers & HEADER_ATOMICETH) {
		packet->atomiceth.rkey = key_here(packet->atomiceth.rkey);
		packet->atomiceth.va = address_here(packet->atomiceth.va);
	}
	if (headers & HEADER_IETH)
		packet->ieth.rkey = key_here(packet->ieth.rkey);
	script_pass(&script, RNR_MS * SCRIPT_MS);
	script_send(&script, packet);
	ours_take();
}

static void message_take(const struct cm_message *message)
{
	if (message->attribute == CM_REQ)
		capture.client_qpn = message->req.local_qpn;
	if (message->attribute != CM_REP)
		return;
	capture.server_qpn = message->rep.local_qpn;
	capture.address = get_le32(message->rep.private_data) |
		(uint64_t)get_le32(message->rep.private_data + 4) << 32;
	capture.key = get_le32(message->rep.private_data + 8);
}

static void packet_take(const struct pcap_roce *roce)
{
	const uint8_t *mad = gsi_packet_mad(roce->packet, roce->length);
	struct cm_message message;
	struct packet packet;

	if (mad && cm_message_decode(&message, mad))
		message_take(&message);
	assert_int_equal(packet_decode(&packet, roce->packet, roce->length), PACKET_OK);
	if (packet.bth.dest_qpn.value == capture.server_qpn &&
		packet.info->role == OPCODE_ROLE_REQUEST)
		request_replay(&packet);
	if (packet.bth.dest_qpn.value == capture.client_qpn &&
		packet.info->role == OPCODE_ROLE_RESPONSE)
		answer_note(theirs, &their_count, &packet, capture.first);
}

static void replay(const char *name, uint32_t receives, uint32_t receive_bytes)
{
	struct pcap_roce roce;

	restart(&(struct script_options){.path_mtu = 5});
	memset(&capture, 0, sizeof(capture));
	their_count = 0;
	our_count = 0;
	for (uint32_t i = 0; i < TARGET_BYTES; i++)
		script.memory[TARGET + i] = (uint8_t)i;
	for (uint32_t i = 0; i < receives; i++)
		script_post_receive(&script, receive_bytes);
	pcap_load(&capture.pcap, name);
	while (pcap_next_roce(&capture.pcap, &roce))
		packet_take(&roce);
	pcap_done(&capture.pcap);
	assert_int_not_equal(their_count, 0);
}

/* The number of credits and the RNR timer are each one's own. */
static void expect_the_same(void)
{
	assert_int_equal(our_count, their_count);
	for (uint32_t i = 0; i < our_count; i++) {
		assert_string_equal(opcode_info((uint8_t)ours[i].opcode)->name,
			opcode_info((uint8_t)theirs[i].opcode)->name);
		assert_int_equal(ours[i].psn, theirs[i].psn);
		assert_int_equal(ours[i].aeth.kind, theirs[i].aeth.kind);
		assert_int_equal(ours[i].aeth.msn.value, theirs[i].aeth.msn.value);
		if (ours[i].aeth.kind == AETH_NAK)
			assert_int_equal(ours[i].aeth.value, theirs[i].aeth.value);
		assert_int_equal(ours[i].original, theirs[i].original);
		assert_int_equal(ours[i].payload_bytes, theirs[i].payload_bytes);
		assert_memory_equal(ours[i].payload, theirs[i].payload, theirs[i].payload_bytes);
	}
}

static void operations_are_answered_as_rxe_does(void **state)
{
	(void)state;
	replay("roce-operations.pcap", SCRIPT_QUEUE_DEPTH, RECEIVE_BYTES);
	assert_int_not_equal(capture.window, 0);
	expect_the_same();
}

static void atomic_write_is_answered_as_rxe_does(void **state)
{
	(void)state;
	replay("roce-atomic-write.pcap", SCRIPT_QUEUE_DEPTH, RECEIVE_BYTES);
	expect_the_same();
}

static void message_without_a_receive_is_answered_as_rxe_does(void **state)
{
	(void)state;
	replay("roce-rnr.pcap", 0, 0);
	assert_int_equal(their_count, 2);
	expect_the_same();
}

static void bad_request_is_answered_as_rxe_does(void **state)
{
	static const char *const names[] = {"roce-bad-write-key.pcap", "roce-bad-read-key.pcap",
		"roce-bad-atomic-key.pcap", "roce-out-of-range.pcap"};

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		replay(names[i], SCRIPT_QUEUE_DEPTH, RECEIVE_BYTES);
		assert_int_equal(their_count, 1);
		expect_the_same();
		assert_int_equal(ours[0].aeth.kind, AETH_NAK);
		assert_int_equal(script.qp->state, QP_ERR);
	}
}

/* rxe answers a SEND that is too long with "remote operational error", see docs/interop.md. */
static void message_too_long_is_refused_as_by_rxe(void **state)
{
	(void)state;
	replay("roce-too-long.pcap", 1, 16);
	assert_int_equal(their_count, 1);
	assert_int_equal(theirs[0].aeth.kind, AETH_NAK);
	assert_int_equal(theirs[0].aeth.value, AETH_NAK_REMOTE_OPERATIONAL);
	theirs[0].aeth.value = AETH_NAK_INVALID_REQUEST;
	expect_the_same();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(operations_are_answered_as_rxe_does),
		TEST(atomic_write_is_answered_as_rxe_does),
		TEST(message_without_a_receive_is_answered_as_rxe_does),
		TEST(bad_request_is_answered_as_rxe_does),
		TEST(message_too_long_is_refused_as_by_rxe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

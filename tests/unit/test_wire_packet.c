/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/pcap.h"
#include "support/roundtrip.h"
#include "wire/packet.h"

#define LENGTH_MAX 200

/* A legal payload length for the opcode, with a pad where one is possible. */
static uint32_t some_payload_bytes(const struct opcode_info *info)
{
	switch (info->payload) {
	case PAYLOAD_NONE:
		return 0;
	case PAYLOAD_MTU:
		return 64;
	case PAYLOAD_SOME:
	case PAYLOAD_ANY:
		return 61;
	case PAYLOAD_EIGHT:
		return 8;
	case PAYLOAD_SIXTEEN:
		return 16;
	case PAYLOAD_MAP:
		return 0;
	}
	return 0;
}

/* A packet with a different value in every field, as bytes; returns the length. */
static size_t packet_make(struct packet *packet, enum opcode opcode, uint8_t bytes[LENGTH_MAX])
{
	packet_init(packet, opcode);
	packet->bth.is_solicited = true;
	packet->bth.ack_requested = true;
	packet->bth.becn = true;
	packet->bth.dest_qpn = (struct qpn){0xabcdef};
	packet->bth.psn = (struct psn){0x123456};
	packet->xrceth = (struct xrceth){.srqn = 0x765432};
	packet->deth = (struct deth){.qkey = 0x80010000, .source_qpn = {0x654321}};
	packet->feth = (struct feth){
		.placement = FETH_PLACEMENT_PERSISTENT, .selectivity = FETH_SELECT_REGION};
	packet->reth = (struct reth){
		.va = 0x1122334455667788, .rkey = 0x99aabbcc, .dma_bytes = 0x7fffffff};
	packet->atomiceth = (struct atomiceth){.va = 0x8877665544332211,
		.rkey = 0xccbbaa99,
		.swap_add = 0x0102030405060708,
		.compare = 0x1112131415161718};
	packet->aeth =
		(struct aeth){.kind = AETH_NAK, .value = AETH_NAK_REMOTE_ACCESS, .msn = {0xfedcba}};
	packet->atomicacketh = (struct atomicacketh){.original = 0x2122232425262728};
	packet->immdt = (struct immdt){.data = 0x31323334};
	packet->ieth = (struct ieth){.rkey = 0x41424344};
	packet_set_payload(packet, NULL, some_payload_bytes(packet->info));

	memset(bytes, 0x5a, LENGTH_MAX);
	assert_int_equal(packet_encode_headers(packet, bytes), packet->info->header_bytes);
	return packet_bytes(packet);
}

static void extended_headers_assert_equal(const struct packet *a, const struct packet *b)
{
	uint32_t headers = a->info->headers;

	if (headers & HEADER_XRCETH)
		assert_int_equal(a->xrceth.srqn, b->xrceth.srqn);
	if (headers & HEADER_DETH) {
		assert_int_equal(a->deth.qkey, b->deth.qkey);
		assert_true(qpn_equal(a->deth.source_qpn, b->deth.source_qpn));
	}
	if (headers & HEADER_FETH) {
		assert_int_equal(a->feth.placement, b->feth.placement);
		assert_int_equal(a->feth.selectivity, b->feth.selectivity);
	}
	if (headers & HEADER_RETH) {
		assert_true(a->reth.va == b->reth.va);
		assert_int_equal(a->reth.rkey, b->reth.rkey);
		assert_int_equal(a->reth.dma_bytes, b->reth.dma_bytes);
	}
	if (headers & HEADER_ATOMICETH) {
		assert_true(a->atomiceth.va == b->atomiceth.va);
		assert_int_equal(a->atomiceth.rkey, b->atomiceth.rkey);
		assert_true(a->atomiceth.swap_add == b->atomiceth.swap_add);
		assert_true(a->atomiceth.compare == b->atomiceth.compare);
	}
	if (headers & HEADER_AETH) {
		assert_int_equal(a->aeth.kind, b->aeth.kind);
		assert_int_equal(a->aeth.value, b->aeth.value);
		assert_int_equal(a->aeth.msn.value, b->aeth.msn.value);
	}
	if (headers & HEADER_ATOMICACKETH)
		assert_true(a->atomicacketh.original == b->atomicacketh.original);
	if (headers & HEADER_IMMDT)
		assert_int_equal(a->immdt.data, b->immdt.data);
	if (headers & HEADER_IETH)
		assert_int_equal(a->ieth.rkey, b->ieth.rkey);
}

static void packet_of_every_opcode_decodes_to_what_was_encoded(void **state)
{
	(void)state;
	for (int opcode = 0; opcode < 256; opcode++) {
		uint8_t bytes[LENGTH_MAX];
		struct packet sent;
		struct packet received;
		size_t length;

		if (!opcode_info((uint8_t)opcode))
			continue;
		length = packet_make(&sent, (enum opcode)opcode, bytes);
		assert_int_equal(packet_decode(&received, bytes, length), PACKET_OK);
		assert_ptr_equal(received.info, sent.info);
		assert_int_equal(received.bth.opcode, opcode);
		assert_int_equal(received.bth.pad_bytes, sent.bth.pad_bytes);
		assert_int_equal(received.bth.pkey, BTH_PKEY_DEFAULT);
		assert_true(received.bth.is_solicited && received.bth.is_migrated);
		assert_true(received.bth.ack_requested && received.bth.becn && !received.bth.fecn);
		assert_true(qpn_equal(received.bth.dest_qpn, sent.bth.dest_qpn));
		assert_true(psn_equal(received.bth.psn, sent.bth.psn));
		assert_int_equal(received.payload_bytes, sent.payload_bytes);
		extended_headers_assert_equal(&sent, &received);
		assert_true(roundtrip_holds(bytes, length));
	}
}

static void packet_of_every_opcode_cut_anywhere_in_its_headers_is_refused(void **state)
{
	(void)state;
	for (int opcode = 0; opcode < 256; opcode++) {
		uint8_t bytes[LENGTH_MAX];
		struct packet packet;

		if (!opcode_info((uint8_t)opcode))
			continue;
		packet_make(&packet, (enum opcode)opcode, bytes);
		for (size_t length = 0; length < opcode_info((uint8_t)opcode)->header_bytes;
			length++) {
			/* An allocation of its own, so that a read too far is an error to ASan. */
			uint8_t *exact = malloc(length + 1);

			assert_non_null(exact);
			memcpy(exact + 1, bytes, length);
			assert_int_equal(
				packet_decode(&packet, exact + 1, length), PACKET_FAULT_TOO_SHORT);
			free(exact);
		}
	}
}

static void packet_that_breaks_one_rule_has_that_fault(void **state)
{
	uint8_t bytes[LENGTH_MAX];
	struct packet packet;
	size_t length = packet_make(&packet, OPCODE_RC_SEND_ONLY, bytes);

	(void)state;
	for (size_t cut = 1; cut < 4; cut++)
		assert_int_equal(
			packet_decode(&packet, bytes, length - cut), PACKET_FAULT_UNALIGNED);
	bytes[1] |= 0x1;
	assert_int_equal(packet_decode(&packet, bytes, length), PACKET_FAULT_VERSION);
	bytes[1] &= 0xf0;
	assert_int_equal(packet_decode(&packet, bytes, length), PACKET_OK);
	for (int pad = 1; pad < 4; pad++) {
		bytes[1] = (uint8_t)(pad << 4);
		assert_int_equal(packet_decode(&packet, bytes, BTH_BYTES), PACKET_FAULT_PAD);
	}
	bytes[0] = 0x1f;
	assert_int_equal(packet_decode(&packet, bytes, length), PACKET_FAULT_OPCODE);

	length = packet_make(&packet, OPCODE_RC_ACKNOWLEDGE, bytes);
	assert_int_equal(packet_decode(&packet, bytes, length + 4), PACKET_FAULT_PAYLOAD);
	packet_make(&packet, OPCODE_RC_READ_RESPONSE_LAST, bytes);
	bytes[1] &= 0xcf;
	assert_int_equal(
		packet_decode(&packet, bytes, BTH_BYTES + AETH_BYTES), PACKET_FAULT_PAYLOAD);
	/* A request is refused by the responder, which answers. */
	length = packet_make(&packet, OPCODE_RC_ATOMIC_WRITE, bytes);
	assert_int_equal(packet_decode(&packet, bytes, length - 4), PACKET_OK);
}

static void packet_with_reserved_bits_set_decodes_as_without(void **state)
{
	uint8_t bytes[LENGTH_MAX];
	struct packet packet;
	size_t length = packet_make(&packet, OPCODE_RC_SEND_ONLY, bytes);

	(void)state;
	bytes[4] |= 0x3f;
	bytes[8] |= 0x3f;
	assert_int_equal(packet_decode(&packet, bytes, length), PACKET_OK);
	assert_false(packet.bth.fecn);
	assert_int_equal(packet.bth.dest_qpn.value, 0xabcdef);
	assert_int_equal(packet.bth.psn.value, 0x123456);
}

static void acknowledgement_has_a_map_as_a_selective_sequence_nak_only(void **state)
{
	static const struct {
		bool is_selective;
		enum aeth_kind kind;
		uint8_t value;
		uint32_t bytes;
		enum packet_fault fault;
	} rows[] = {
		{true, AETH_NAK, AETH_NAK_PSN_SEQUENCE, 16, PACKET_OK},
		{true, AETH_NAK, AETH_NAK_PSN_SEQUENCE, 0, PACKET_OK},
		{false, AETH_NAK, AETH_NAK_PSN_SEQUENCE, 0, PACKET_OK},
		{true, AETH_NAK, AETH_NAK_PSN_SEQUENCE, 12, PACKET_FAULT_PAYLOAD},
		{false, AETH_NAK, AETH_NAK_PSN_SEQUENCE, 16, PACKET_FAULT_PAYLOAD},
		{true, AETH_NAK, AETH_NAK_INVALID_REQUEST, 16, PACKET_FAULT_PAYLOAD},
		{true, AETH_ACK, 0, 16, PACKET_FAULT_PAYLOAD},
		{true, AETH_RNR_NAK, 0, 16, PACKET_FAULT_PAYLOAD},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t bytes[LENGTH_MAX];
		struct packet packet, decoded;

		packet_init(&packet, OPCODE_RC_ACKNOWLEDGE);
		packet.bth.is_selective = rows[i].is_selective;
		packet.aeth = (struct aeth){rows[i].kind, rows[i].value, {7}};
		packet_set_payload(&packet, NULL, rows[i].bytes);
		memset(bytes + packet_encode_headers(&packet, bytes), 0x81, 16);
		assert_int_equal(
			packet_decode(&decoded, bytes, packet_bytes(&packet)), rows[i].fault);
		if (rows[i].fault || !rows[i].bytes)
			continue;
		assert_true(packet_has_map(&decoded));
		assert_true(selective_map_has(&decoded.map, 0));
		assert_false(selective_map_has(&decoded.map, 1));
		assert_int_equal(selective_map_last(&decoded.map), 127);
	}
}

static void aeth_with_a_reserved_syndrome_is_neither_ack_nor_nak(void **state)
{
	struct aeth aeth;

	(void)state;
	for (int top = 0; top < 8; top++) {
		uint8_t bytes[AETH_BYTES] = {(uint8_t)(top << 5 | 3), 0, 1, 2};

		aeth_decode(&aeth, bytes);
		assert_int_equal(aeth.kind,
			top == 0           ? AETH_ACK
				: top == 1 ? AETH_RNR_NAK
				: top == 3 ? AETH_NAK
					   : AETH_RESERVED);
		assert_int_equal(aeth.value, 3);
		assert_int_equal(aeth.msn.value, 0x102);
	}
}

static void packet_of_another_implementation_encodes_back_to_itself(void **state)
{
	int packets = 0;

	(void)state;
	for (const char *const *name = pcap_roce_names; *name; name++) {
		size_t mtu = strcmp(*name, "roce-operations.pcap") == 0 ? 4096 : 1024;
		struct pcap pcap;
		struct pcap_roce roce;

		pcap_load(&pcap, *name);
		for (; pcap_next_roce(&pcap, &roce); packets++) {
			struct packet packet;

			assert_int_equal(
				packet_decode(&packet, roce.packet, roce.length), PACKET_OK);
			assert_true(opcode_payload_fits(packet.info, packet.payload_bytes, mtu));
			assert_true(roundtrip_holds(roce.packet, roce.length));
		}
		pcap_done(&pcap);
	}
	assert_true(packets > 100);
}

static void packet_of_random_bytes_never_breaks_the_decoder(void **state)
{
	uint8_t bytes[LENGTH_MAX] = {0};
	int decoded = 0;

	(void)state;
	srandom(3);
	for (int i = 0; i < 200000; i++) {
		size_t length = (size_t)random() % 20 * 4;
		struct packet packet;

		for (size_t at = 0; at < length; at++)
			bytes[at] = (uint8_t)random();
		bytes[1] &= (uint8_t)(random() % 2 ? 0xf0 : 0xff);
		decoded += packet_decode(&packet, bytes, length) == PACKET_OK;
		assert_true(roundtrip_holds(bytes, length));
	}
	assert_true(decoded > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_of_every_opcode_decodes_to_what_was_encoded),
		cmocka_unit_test(packet_of_every_opcode_cut_anywhere_in_its_headers_is_refused),
		cmocka_unit_test(packet_that_breaks_one_rule_has_that_fault),
		cmocka_unit_test(packet_with_reserved_bits_set_decodes_as_without),
		cmocka_unit_test(acknowledgement_has_a_map_as_a_selective_sequence_nak_only),
		cmocka_unit_test(aeth_with_a_reserved_syndrome_is_neither_ack_nor_nak),
		cmocka_unit_test(packet_of_another_implementation_encodes_back_to_itself),
		cmocka_unit_test(packet_of_random_bytes_never_breaks_the_decoder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

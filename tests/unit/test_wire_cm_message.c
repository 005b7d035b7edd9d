/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs, the messages of the connection manager, the headers of the RDMA IP CM service.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "support/sim_random.h"
#include "wire/bytes.h"
#include "wire/cm/cm_message.h"
#include "wire/cm/gsi_packet.h"

/*
 * A REQ with the values that a kernel sends: service ID of TCP port 7174, timeouts 20, retry counts
 * 7, path MTU 4096. Laid out by hand from the tables of IBTA 12.6.5, not by the code under test.
 */
static void req_by_hand(uint8_t mad[MAD_BYTES])
{
	static const uint8_t head[] = {0x01, 0x07, 0x02, 0x03, 0, 0, 0, 0, 0, 0, 0, 0x02, 0xce,
		0x8a, 0x9a, 0xfe, 0x00, 0x10, 0, 0, 0, 0, 0, 0};
	static const uint8_t body[] = {
		0xfe, 0x9a, 0x8a, 0xce, 0, 0, 0, 0, /* communication ID */
		0, 0, 0, 0, 0x01, 0x06, 0x1c, 0x06, /* service ID */
		0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 0x03, /* CA GUID */
		0, 0, 0, 0, 0x01, 0x23, 0x45, 0x67, /* reserved, Q_Key */
		0, 0, 0x11, 0x05, /* QPN, responder resources */
		0, 0, 0, 0x06, /* EECN, initiator depth */
		0, 0, 0, 0xa1, /* remote EECN, response timeout 20, RC, flow control */
		0xc9, 0x8c, 0x8b, 0xa7, /* PSN, response timeout 20, retry count 7 */
		0xff, 0xff, 0x57, 0xf8, /* P_Key, MTU 5, RNR retry 7, CM retries 15, SRQ */
		0xff, 0xff, 0xff, 0xff, /* LIDs */
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 3, /* local GID */
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2, /* remote GID */
		0x6c, 0xd9, 0xe0, 0x03, /* flow label, packet rate 3 */
		0x28, 0x40, 0x08, 0x88, /* traffic class, hop limit, subnet local, ACK timeout 17 */
	};

	memset(mad, 0, MAD_BYTES);
	memcpy(mad, head, sizeof(head));
	memcpy(mad + MAD_HEADER_BYTES, body, sizeof(body));
	mad[MAD_HEADER_BYTES + 140] = 0xaa;
	mad[MAD_BYTES - 1] = 0xbb;
}

static void req_decodes_field_by_field(void **state)
{
	static const uint8_t remote[4] = {10, 77, 0, 2};
	const struct gid remote_gid = gid_from_ipv4(remote);
	uint8_t mad[MAD_BYTES];
	struct cm_message message;

	(void)state;
	req_by_hand(mad);
	assert_true(cm_message_decode(&message, mad));
	assert_int_equal(message.attribute, CM_REQ);
	assert_int_equal(message.transaction_id, 0x2ce8a9afe);
	assert_int_equal(message.req.local_comm_id, 0xfe9a8ace);
	assert_int_equal(message.req.service_id, ip_cm_service_id(0x0106, 7174));
	assert_int_equal(message.req.local_ca_guid, 0x505400fffe770003);
	assert_int_equal(message.req.local_qkey, 0x01234567);
	assert_int_equal(message.req.local_qpn, 0x11);
	assert_int_equal(message.req.responder_resources, 5);
	assert_int_equal(message.req.initiator_depth, 6);
	assert_int_equal(message.req.remote_response_timeout, 20);
	assert_int_equal(message.req.transport_service, CM_SERVICE_RC);
	assert_int_equal(message.req.has_flow_control, 1);
	assert_int_equal(message.req.starting_psn, 0xc98c8b);
	assert_int_equal(message.req.local_response_timeout, 20);
	assert_int_equal(message.req.retry_count, 7);
	assert_int_equal(message.req.pkey, 0xffff);
	assert_int_equal(message.req.path_mtu, 5);
	assert_int_equal(message.req.rnr_retry_count, 7);
	assert_int_equal(message.req.max_cm_retries, 15);
	assert_int_equal(message.req.has_srq, 1);
	assert_int_equal(message.req.primary_local_lid, 0xffff);
	assert_memory_equal(message.req.primary_remote_gid, remote_gid.raw, 16);
	assert_int_equal(message.req.primary_flow_label, 0x6cd9e);
	assert_int_equal(message.req.primary_packet_rate, 3);
	assert_int_equal(message.req.primary_traffic_class, 0x28);
	assert_int_equal(message.req.primary_hop_limit, 64);
	assert_int_equal(message.req.is_primary_subnet_local, 1);
	assert_int_equal(message.req.primary_sl, 0);
	assert_int_equal(message.req.primary_ack_timeout, 17);
	assert_int_equal(message.req.private_data[0], 0xaa);
	assert_int_equal(message.req.private_data[91], 0xbb);
}

static void req_encodes_to_the_bytes_of_the_specification(void **state)
{
	uint8_t mad[MAD_BYTES], again[MAD_BYTES];
	struct cm_message message;

	(void)state;
	req_by_hand(mad);
	assert_true(cm_message_decode(&message, mad));
	memset(again, 0xff, sizeof(again));
	cm_message_encode(&message, again);
	assert_memory_equal(again, mad, MAD_BYTES);
}

static void fields_of_the_other_messages_are_where_the_specification_has_them(void **state)
{
	struct cm_message message;
	uint8_t mad[MAD_BYTES];
	const uint8_t *data = mad + MAD_HEADER_BYTES;

	(void)state;
	message = (struct cm_message){
		.attribute = CM_REJ, .rej = {1, 2, .message = 1, .info_bytes = 0x7f, .reason = 28}};
	message.rej.private_data[0] = 9;
	cm_message_encode(&message, mad);
	assert_int_equal(mad[17], 0x12);
	assert_int_equal(data[8], 0x40);
	assert_int_equal(data[9], 0xfe);
	assert_int_equal(data[11], 28);
	assert_int_equal(data[84], 9);
	message = (struct cm_message){
		.attribute = CM_MRA, .mra = {.message = 2, .service_timeout = 24}};
	cm_message_encode(&message, mad);
	assert_int_equal(data[8], 0x80);
	assert_int_equal(data[9], 24 << 3);
	message = (struct cm_message){.attribute = CM_REP,
		.rep = {.local_qpn = 0x123456,
			.target_ack_delay = 15,
			.failover = 1,
			.has_flow_control = 1,
			.rnr_retry_count = 7,
			.has_srq = 1}};
	cm_message_encode(&message, mad);
	assert_int_equal(get_be32(data + 12), 0x12345600);
	assert_int_equal(data[26], 15 << 3 | 1 << 1 | 1);
	assert_int_equal(data[27], 0xf0);
	message = (struct cm_message){.attribute = CM_DREQ, .dreq = {.remote_qpn = 0x123456}};
	cm_message_encode(&message, mad);
	assert_int_equal(get_be32(data + 8), 0x12345600);
	message = (struct cm_message){.attribute = CM_SIDR_REP,
		.sidr_rep = {.status = 2, .qpn = 0x123456, .service_id = 5}};
	cm_message_encode(&message, mad);
	assert_int_equal(data[4], 2);
	assert_int_equal(get_be32(data + 8), 0x12345600);
	assert_int_equal(get_be64(data + 12), 5);
}

static void message_of_another_class_version_or_method_is_refused(void **state)
{
	static const struct {
		unsigned byte;
		uint8_t value;
	} faults[] = {{0, 2}, {1, 0x08}, {2, 1}, {3, 0x81}, {17, 0x0f}, {17, 0x1b}, {16, 1}};
	uint8_t mad[MAD_BYTES];
	struct cm_message message;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(faults); i++) {
		req_by_hand(mad);
		mad[faults[i].byte] = faults[i].value;
		assert_false(cm_message_decode(&message, mad));
	}
}

/* Whatever bytes decode, encode to bytes that decode to the same. */
static void message_of_every_kind_survives_the_round_trip(void **state)
{
	struct sim_random random;

	(void)state;
	random.state = 7;
	for (uint8_t attribute = 0x10; attribute <= 0x1a; attribute++) {
		for (unsigned round = 0; round < 100; round++) {
			uint8_t mad[MAD_BYTES], again[MAD_BYTES];
			struct cm_message message, decoded;

			for (size_t i = 0; i < MAD_BYTES; i++)
				mad[i] = (uint8_t)sim_random_next(&random);
			memcpy(mad, (uint8_t[]){1, 7, 2, 3}, 4);
			mad[16] = 0;
			mad[17] = attribute;
			assert_true(cm_message_decode(&message, mad));
			cm_message_encode(&message, again);
			assert_true(cm_message_decode(&decoded, again));
			assert_memory_equal(&message, &decoded, sizeof(message));
		}
	}
}

static void ip_cm_header_of_either_family_survives_the_round_trip(void **state)
{
	static const uint8_t a[4] = {10, 77, 0, 3}, b[4] = {10, 77, 0, 2};
	const struct ip_cm_header headers[] = {
		{.source_port = 47976, .source = gid_from_ipv4(a), .destination = gid_from_ipv4(b)},
		{.source_port = 1, .source = {{0xfd, [15] = 1}}, .destination = {{0xfd, [15] = 2}}},
	};
	static const uint8_t ipv4_start[] = {0x00, 0x40, 0xbb, 0x68, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 10, 77, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 2};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(headers); i++) {
		uint8_t bytes[IP_CM_HEADER_BYTES];
		struct ip_cm_header decoded;

		ip_cm_header_encode(&headers[i], bytes);
		if (i == 0)
			assert_memory_equal(bytes, ipv4_start, sizeof(bytes));
		assert_true(ip_cm_header_decode(&decoded, bytes));
		assert_memory_equal(&decoded, &headers[i], sizeof(decoded));
		bytes[1] = 0x50;
		assert_false(ip_cm_header_decode(&decoded, bytes));
		bytes[1] = 0x40;
		bytes[0] = 0x10;
		assert_false(ip_cm_header_decode(&decoded, bytes));
	}
}

static void gsi_packet_is_a_datagram_from_qp1_to_qp1(void **state)
{
	uint8_t packet[GSI_PACKET_BYTES] = {0};
	static const struct {
		unsigned byte;
		uint8_t flip;
	} faults[] = {
		{0, 0x01}, /* opcode */
		{2, 0x40}, /* partition */
		{7, 0x03}, /* destination */
		{12, 0x01}, /* Q_Key */
		{19, 0x02}, /* source */
	};

	(void)state;
	gsi_packet_encode(5, packet);
	assert_ptr_equal(gsi_packet_mad(packet, sizeof(packet)), packet + 20);
	assert_null(gsi_packet_mad(packet, sizeof(packet) - 4));
	assert_null(gsi_packet_mad(packet, 0));
	assert_null(gsi_partition_mad(packet, sizeof(packet), 0x8001));
	packet[2] = 0x80;
	packet[3] = 0x01;
	assert_ptr_equal(gsi_partition_mad(packet, sizeof(packet), 0x0001), packet + 20);
	assert_null(gsi_packet_mad(packet, sizeof(packet)));
	packet[2] = packet[3] = 0xff;
	for (size_t i = 0; i < ARRAY_COUNT(faults); i++) {
		packet[faults[i].byte] ^= faults[i].flip;
		assert_null(gsi_packet_mad(packet, sizeof(packet)));
		packet[faults[i].byte] ^= faults[i].flip;
	}
}

static void reject_reason_has_a_sentence_also_without_a_row(void **state)
{
	(void)state;
	assert_string_equal(cm_reject_sentence(CM_REJECT_INVALID_SERVICE_ID),
		"no program listens on this port there");
	assert_non_null(cm_reject_sentence(9999));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(req_decodes_field_by_field),
		cmocka_unit_test(req_encodes_to_the_bytes_of_the_specification),
		cmocka_unit_test(fields_of_the_other_messages_are_where_the_specification_has_them),
		cmocka_unit_test(message_of_another_class_version_or_method_is_refused),
		cmocka_unit_test(message_of_every_kind_survives_the_round_trip),
		cmocka_unit_test(ip_cm_header_of_either_family_survives_the_round_trip),
		cmocka_unit_test(gsi_packet_is_a_datagram_from_qp1_to_qp1),
		cmocka_unit_test(reject_reason_has_a_sentence_also_without_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

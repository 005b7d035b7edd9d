/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte vectors are from a capture of Linux 6.12 as host and target over TCP.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/codec/discovery.h"
#include "nvmf/common/codec/identify.h"
#include "nvmf/common/codec/log_page.h"

/* A piece of a page in hex; all other bytes are zero. */
struct piece {
	uint32_t offset;
	const char *hex;
};

static uint8_t page[IDENTIFY_BYTES];
static uint8_t again[IDENTIFY_BYTES];

static void hex_put(uint8_t *to, const char *hex)
{
	for (; hex[0]; hex += 2) {
		char byte[3] = {hex[0], hex[1]};

		*to++ = (uint8_t)strtoul(byte, NULL, 16);
	}
}

#define PAGE(...)                                                             \
	do {                                                                  \
		const struct piece pieces[] = {__VA_ARGS__};                  \
		memset(page, 0, sizeof(page));                                \
		for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) \
			hex_put(page + pieces[i].offset, pieces[i].hex);      \
	} while (0)

static void sqe_of_a_write_is_decoded_and_encoded(void **state)
{
	struct nvme_sqe sqe;

	(void)state;
	PAGE({0,
		"0140740001000000000000000000000000000000000000000000000000000000"
		"0010000000000001000000000000000007000000000000000000000000000000"});
	sqe = nvme_sqe_decode(page);
	assert_int_equal(sqe.opcode, NVME_IO_WRITE);
	assert_int_equal(sqe.psdt, 1);
	assert_int_equal(sqe.cid, 0x74);
	assert_int_equal(sqe.nsid, 1);
	assert_int_equal(sqe.sgl.type, NVME_SGL_IN_CAPSULE);
	assert_int_equal(sqe.sgl.length, 4096);
	assert_int_equal(sqe.cdw12, 7);
	nvme_sqe_encode(&sqe, again);
	assert_memory_equal(page, again, NVME_SQE_BYTES);
}

static void sgl_with_key_has_24_bits_of_length(void **state)
{
	struct nvme_sgl sgl = {.type = NVME_SGL_KEYED_INVALIDATE,
		.address = 0x1122334455667788,
		.length = 0xabcdef,
		.key = 0x99aabbcc};
	struct nvme_sgl decoded;

	(void)state;
	nvme_sgl_encode(&sgl, again);
	hex_put(page, "8877665544332211efcdabccbbaa994f");
	assert_memory_equal(again, page, 16);
	decoded = nvme_sgl_decode(again);
	assert_int_equal(decoded.length, sgl.length);
	assert_int_equal(decoded.key, sgl.key);
	assert_int_equal(decoded.type, sgl.type);
}

static void cqe_of_property_get_is_decoded_and_encoded(void **state)
{
	struct nvme_cqe cqe;

	(void)state;
	PAGE({0, "ff03000f200800000200000001000000"});
	cqe = nvme_cqe_decode(page);
	assert_int_equal(cqe.result, 0x8200f0003ff);
	assert_int_equal(cqe.sqhd, 2);
	assert_int_equal(cqe.cid, 1);
	assert_int_equal(cqe.status, NVME_SUCCESS);
	cqe.status = NVME_CONNECT_PARAMETER;
	cqe.may_not_repeat = true;
	cqe.has_more = true;
	nvme_cqe_encode(&cqe, again);
	assert_int_equal(again[14] | again[15] << 8, 0x8000 | 0x4000 | 0x182 << 1);
	cqe = nvme_cqe_decode(again);
	assert_int_equal(cqe.status, NVME_CONNECT_PARAMETER);
	assert_true(cqe.may_not_repeat);
	assert_true(cqe.has_more);
}

static void connect_of_linux_is_decoded_and_encoded(void **state)
{
	struct nvme_connect connect;
	struct nvme_sqe sqe;

	(void)state;
	PAGE({0, "7f40000001"}, {29, "04000000000001"}, {44, "1f000000d0070000"});
	sqe = nvme_sqe_decode(page);
	connect = nvme_connect_decode(&sqe);
	assert_int_equal(nvme_fctype(&sqe), NVME_FABRICS_CONNECT);
	assert_int_equal(connect.qid, 0);
	assert_int_equal(connect.sqsize, 31);
	assert_int_equal(connect.kato_ms, 2000);
	connect.qid = 3;
	connect.cattr = NVME_CATTR_NO_FLOW_CONTROL;
	nvme_connect_encode(&connect, &sqe);
	connect = nvme_connect_decode(&sqe);
	assert_int_equal(connect.qid, 3);
	assert_int_equal(connect.cattr, NVME_CATTR_NO_FLOW_CONTROL);
	assert_int_equal(sqe.opcode, NVME_OPCODE_FABRICS);
}

static void connect_data_page(void)
{
	PAGE({0, "00000000000040008000000000000003ffff"},
		{256, "6e716e2e323032342d30312e6c61623a6469736b"},
		{512,
			"6e716e2e323031342d30382e6f72672e6e766d657870726573733a757569643a3030"
			"3030303030302d303030302d343030302d383030302d303030303030303030303033"});
}

static void connect_data_of_linux_is_decoded_and_encoded(void **state)
{
	struct nvme_connect_data data;
	uint16_t offset;

	(void)state;
	connect_data_page();
	assert_true(nvme_connect_data_decode(page, &data, &offset));
	assert_int_equal(data.cntlid, NVME_CNTLID_DYNAMIC);
	assert_string_equal(data.subnqn, "nqn.2024-01.lab:disk");
	assert_string_equal(data.hostnqn,
		"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000003");
	nvme_connect_data_encode(&data, again);
	assert_memory_equal(page, again, NVME_CONNECT_DATA_BYTES);
}

static void connect_data_with_a_wrong_field_is_refused(void **state)
{
	struct nvme_connect_data data;
	uint16_t offset = 0xffff;

	(void)state;
	connect_data_page();
	memset(page, 0, 16);
	assert_false(nvme_connect_data_decode(page, &data, &offset));
	assert_int_equal(offset, 0);
	connect_data_page();
	memset(page + 256, 'a', 224);
	assert_false(nvme_connect_data_decode(page, &data, &offset));
	assert_int_equal(offset, 256);
	page[256 + 223] = 0;
	assert_true(nvme_connect_data_decode(page, &data, &offset));
	memset(page + 512, 'a', 256);
	assert_false(nvme_connect_data_decode(page, &data, &offset));
	assert_int_equal(offset, 512);
	page[512] = 0;
	assert_false(nvme_connect_data_decode(page, &data, &offset));
}

static void nqn_in_malformed_utf8_is_refused(void **state)
{
	static const struct {
		const char *nqn;
		bool is_valid;
	} rows[] = {
		{"nqn.2014-08.org:x", true},
		{"nqn.\xc3\xa9", true},
		{"nqn.\xf0\x9f\x98\x80", true},
		{"", false},
		{"nqn.\x01", false},
		{"nqn.\x7f", false},
		{"nqn.\xc2\x9b", false},
		{"nqn.\xc3", false},
		{"nqn.\xc0\xaf", false},
		{"nqn.\xe0\x80\xaf", false},
		{"nqn.\xed\xa0\x80", false},
		{"nqn.\xf4\x90\x80\x80", false},
		{"nqn.\xff", false},
		{"nqn.\x80", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(nvme_nqn_is_valid(rows[i].nqn, NVME_NQN_BYTES), rows[i].is_valid);
}

static void property_access_of_linux_is_decoded_and_encoded(void **state)
{
	struct nvme_property_access access;
	struct nvme_sqe sqe;

	(void)state;
	PAGE({0, "7f40010004"}, {39, "5a01"});
	sqe = nvme_sqe_decode(page);
	access = nvme_property_decode(&sqe);
	assert_int_equal(access.offset, NVME_CAP);
	assert_int_equal(access.attrib, 1);
	PAGE({0, "7f40010000"}, {39, "5a000000001400000060004600"});
	sqe = nvme_sqe_decode(page);
	access = nvme_property_decode(&sqe);
	assert_int_equal(access.offset, NVME_CC);
	assert_int_equal(access.value, NVME_CC_DEFAULT | 6 << 4);
	nvme_property_set_encode(&access, &sqe);
	sqe.cid = 1;
	sqe.sgl.type = NVME_SGL_TRANSPORT;
	nvme_sqe_encode(&sqe, again);
	assert_memory_equal(page, again, NVME_SQE_BYTES);
	assert_int_equal(nvme_property_bytes(NVME_CAP), 8);
	assert_int_equal(nvme_property_bytes(NVME_CC), 4);
	assert_int_equal(nvme_property_bytes(0x18), 0);
}

static void discovery_entry_of_linux_is_decoded_and_encoded(void **state)
{
	struct discovery_entry entry;

	(void)state;
	PAGE({0, "030103040100ffff2000"}, {32, "34343230"},
		{256, "6e716e2e323031342d30382e6f72672e6e766d657870726573732e646973636f76657279"},
		{512, "31302e37372e302e32"});
	assert_true(discovery_entry_decode(page, &entry));
	assert_int_equal(entry.trtype, DISCOVERY_TCP);
	assert_int_equal(entry.subtype, DISCOVERY_CURRENT);
	assert_int_equal(entry.treq, DISCOVERY_TREQ_NO_FLOW_CONTROL);
	assert_string_equal(entry.traddr, "10.77.0.2");
	assert_string_equal(entry.trsvcid, "4420");
	assert_string_equal(entry.subnqn, NVME_DISCOVERY_NQN);
	discovery_entry_encode(&entry, again);
	assert_memory_equal(page, again, DISCOVERY_ENTRY_BYTES);
	memset(page + 512, 'x', 256);
	assert_true(discovery_entry_decode(page, &entry));
	assert_int_equal(strlen(entry.traddr), 256);
	page[520] = 0x1b;
	assert_false(discovery_entry_decode(page, &entry));
}

static void discovery_header_with_another_format_is_refused(void **state)
{
	struct discovery_header header = {.genctr = 8, .numrec = 3};

	(void)state;
	discovery_header_encode(&header, again);
	assert_true(discovery_header_decode(again, &header));
	assert_int_equal(header.numrec, 3);
	again[16] = 1;
	assert_false(discovery_header_decode(again, &header));
}

static void identify_controller_of_linux_is_decoded(void **state)
{
	struct identify_controller controller;

	(void)state;
	PAGE({4,
		     "4c41422d6469736b202020202020202020202020"
		     "6c6162206469736b2020202020202020202020202020202020202020202020202020202020202020"
		     "362e31322e313137060000000b000100000301"},
		{93, "09000041"}, {111, "01"}, {258, "0303077f"}, {320, "0a00"},
		{342, "0a1f8000000080"}, {512, "66440004000400000c"}, {525, "01"},
		{536, "01001000000400"}, {768, "6e716e2e323032342d30312e6c61623a6469736b"},
		{1792, "040400000100000000000001"});
	assert_true(identify_controller_decode(page, &controller));
	assert_string_equal(controller.sn, "LAB-disk");
	assert_string_equal(controller.fr, "6.12.117");
	assert_int_equal(controller.cntlid, 1);
	assert_int_equal(controller.ver, 0x10300);
	assert_int_equal(controller.kas, 10);
	assert_int_equal(controller.maxcmd, 1024);
	assert_int_equal(controller.nn, 1024);
	assert_int_equal(controller.sgls, IDENTIFY_SGLS_SUPPORTED | IDENTIFY_SGLS_OFFSET);
	assert_int_equal(controller.ioccsz, 1028);
	assert_int_equal(controller.msdbd, 1);
	assert_string_equal(controller.subnqn, "nqn.2024-01.lab:disk");
	identify_controller_encode(&controller, again);
	assert_memory_equal(page, again, IDENTIFY_BYTES);
	page[10] = 0x1b;
	assert_false(identify_controller_decode(page, &controller));
}

static void identify_namespace_of_linux_is_decoded(void **state)
{
	struct identify_namespace ns;

	(void)state;
	PAGE({0, "0000020000000000000002000000000000000200000000001200000000000100"},
		{34, "070007000700"}, {64, "0700070007000700"}, {92, "01000000"}, {130, "09"});
	assert_true(identify_namespace_decode(page, &ns));
	assert_int_equal(ns.nsze, 0x20000);
	assert_int_equal(ns.lbads, 9);
	assert_int_equal(ns.nmic, 1);
	assert_int_equal(ns.nawun, 7);
	assert_int_equal(ns.npwg, 7);
	assert_int_equal(ns.anagrpid, 1);
	identify_namespace_encode(&ns, again);
	assert_memory_equal(page, again, IDENTIFY_BYTES);
	page[26] = 3;
	assert_false(identify_namespace_decode(page, &ns));
	page[26] = 0;
	page[130] = 8;
	assert_false(identify_namespace_decode(page, &ns));
	memset(page, 0, 8);
	assert_true(identify_namespace_decode(page, &ns));
}

static void identify_list_out_of_order_is_refused(void **state)
{
	static const uint32_t nsids[] = {1, 7, 9};
	uint32_t decoded[IDENTIFY_NSID_MAX];
	size_t count;

	(void)state;
	identify_list_encode(nsids, 3, page);
	assert_true(identify_list_decode(page, decoded, &count));
	assert_int_equal(count, 3);
	assert_memory_equal(decoded, nsids, sizeof(nsids));
	page[8] = 7;
	assert_false(identify_list_decode(page, decoded, &count));
}

static void identify_descriptors_beyond_the_page_are_refused(void **state)
{
	struct identify_descriptors descriptors;

	(void)state;
	PAGE({0, "031000005372290bf0134486be4cdda1ab9c302704010000"});
	assert_true(identify_descriptors_decode(page, &descriptors));
	assert_int_equal(descriptors.uuid[15], 0x27);
	assert_true(descriptors.has_csi);
	assert_int_equal(descriptors.csi, 0);
	identify_descriptors_encode(&descriptors, again);
	assert_memory_equal(page, again, IDENTIFY_BYTES);
	page[1] = 8;
	assert_false(identify_descriptors_decode(page, &descriptors));
	memset(page, 0xff, sizeof(page));
	assert_false(identify_descriptors_decode(page, &descriptors));
}

static void log_request_of_linux_is_decoded_and_encoded(void **state)
{
	struct log_request request;
	struct nvme_sqe sqe;

	(void)state;
	/* The ANA page: 2,052 dwords. */
	PAGE({0, "02400800ffffffff"}, {39, "5a0c000308"});
	sqe = nvme_sqe_decode(page);
	request = log_request_decode(&sqe);
	assert_int_equal(request.lid, LOG_ANA);
	assert_int_equal(request.bytes, 2052 * 4);
	request.bytes = 1ull << 34;
	request.offset = 0x123456789a;
	log_request_encode(&request, &sqe);
	request = log_request_decode(&sqe);
	assert_true(request.bytes == 1ull << 34);
	assert_true(request.offset == 0x123456789a);
}

static void log_pages_are_decoded_as_encoded(void **state)
{
	struct log_error error = {
		.count = 5, .sqid = 1, .cid = 2, .status = 6, .nsid = 7, .lba = 8};
	struct log_smart smart = {.temperature_kelvin = 300,
		.reads = 1,
		.writes = 2,
		.data_units_read = 3,
		.error_entries = 4};

	(void)state;
	log_error_encode(&error, page);
	error = log_error_decode(page);
	assert_int_equal(error.count, 5);
	assert_int_equal(error.lba, 8);
	log_smart_encode(&smart, page);
	smart = log_smart_decode(page);
	assert_int_equal(smart.temperature_kelvin, 300);
	assert_int_equal(smart.error_entries, 4);
	log_effects_encode(page, false);
	assert_int_equal(page[1024 + NVME_IO_WRITE * 4], 3);
	assert_int_equal(page[1024 + NVME_IO_READ * 4], 1);
	assert_int_equal(page[NVME_ADMIN_IDENTIFY * 4], 1);
	assert_int_equal(page[1], 0);
}

static void names_and_sentences_are_found(void **state)
{
	(void)state;
	assert_string_equal(nvme_io_name(0x02), "READ");
	assert_true(nvme_io_changes_blocks(NVME_IO_COPY));
	assert_false(nvme_io_changes_blocks(NVME_IO_COMPARE));
	assert_false(nvme_io_changes_blocks(0xff));
	assert_string_equal(nvme_admin_name(0x02), "GET_LOG_PAGE");
	assert_string_equal(nvme_fabrics_name(0x08), "DISCONNECT");
	assert_null(nvme_io_name(0xff));
	assert_string_equal(nvme_status_sentence(0x80), "LBA out of range");
	assert_string_equal(nvme_status_sentence(0x7ff), "unknown status");
	assert_false(nvme_status_may_repeat(NVME_INVALID_FIELD));
	assert_true(nvme_status_may_repeat(NVME_INTERNAL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sqe_of_a_write_is_decoded_and_encoded),
		cmocka_unit_test(sgl_with_key_has_24_bits_of_length),
		cmocka_unit_test(cqe_of_property_get_is_decoded_and_encoded),
		cmocka_unit_test(connect_of_linux_is_decoded_and_encoded),
		cmocka_unit_test(connect_data_of_linux_is_decoded_and_encoded),
		cmocka_unit_test(connect_data_with_a_wrong_field_is_refused),
		cmocka_unit_test(nqn_in_malformed_utf8_is_refused),
		cmocka_unit_test(property_access_of_linux_is_decoded_and_encoded),
		cmocka_unit_test(discovery_entry_of_linux_is_decoded_and_encoded),
		cmocka_unit_test(discovery_header_with_another_format_is_refused),
		cmocka_unit_test(identify_controller_of_linux_is_decoded),
		cmocka_unit_test(identify_namespace_of_linux_is_decoded),
		cmocka_unit_test(identify_list_out_of_order_is_refused),
		cmocka_unit_test(identify_descriptors_beyond_the_page_are_refused),
		cmocka_unit_test(log_request_of_linux_is_decoded_and_encoded),
		cmocka_unit_test(log_pages_are_decoded_as_encoded),
		cmocka_unit_test(names_and_sentences_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

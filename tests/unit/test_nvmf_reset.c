/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a reset (CC.EN from 1 to 0) leaves of a controller.
 */
#include "support/nvmf_slow_disk.h"

enum { EVENTS = 4, KATO_MS = 60000, OTHER_KATO_MS = 120000, ENABLE = NVME_CC_DEFAULT | NVME_CC_EN };

static uint32_t feature(struct client *client, uint8_t opcode, uint8_t fid, uint32_t value)
{
	struct nvme_sqe sqe = {
		.opcode = opcode, .cdw10 = fid, .cdw11 = value, .sgl.type = NVME_SGL_TRANSPORT};
	struct nvme_cqe cqe = client_command(client, &sqe, NULL, 0);

	assert_int_equal(cqe.status, NVME_SUCCESS);
	return (uint32_t)cqe.result;
}

static uint32_t feature_get(struct client *client, uint8_t fid)
{
	return feature(client, NVME_ADMIN_GET_FEATURES, fid, 0);
}

static void feature_set(struct client *client, uint8_t fid, uint32_t value)
{
	(void)feature(client, NVME_ADMIN_SET_FEATURES, fid, value);
}

static void features_go_back_to_their_defaults(void **state)
{
	struct client admin, io;
	uint32_t queues;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	queues = feature_get(&admin, FEATURE_QUEUES);
	feature_set(&admin, FEATURE_WRITE_CACHE, 0);
	feature_set(&admin, FEATURE_ASYNC_EVENTS, EVENT_MASK_NAMESPACES);
	feature_set(&admin, FEATURE_KEEP_ALIVE, OTHER_KATO_MS);
	target_set_connections_max(target, 8);
	feature_set(&admin, FEATURE_QUEUES, 0);
	assert_int_not_equal(feature_get(&admin, FEATURE_QUEUES), queues);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	assert_int_equal(cc_set(&admin, ENABLE), NVME_SUCCESS);
	assert_int_equal(feature_get(&admin, FEATURE_WRITE_CACHE), 1);
	assert_int_equal(feature_get(&admin, FEATURE_ASYNC_EVENTS), 0);
	assert_int_equal(feature_get(&admin, FEATURE_KEEP_ALIVE), KATO_MS);
	assert_int_equal(feature_get(&admin, FEATURE_QUEUES), queues);
	close_both(&admin, &io);
}

static void send_event_requests(struct client *client)
{
	for (int i = 0; i < EVENTS; i++) {
		struct nvme_sqe sqe = {
			.opcode = NVME_ADMIN_ASYNC_EVENT, .sgl.type = NVME_SGL_TRANSPORT};

		client_capsule(client, &sqe, NULL, 0);
	}
}

/* Without waiting for the response. */
static void send_cc(struct client *client, uint32_t value)
{
	struct nvme_property_access access = {.offset = NVME_CC, .value = value};
	struct nvme_sqe sqe;

	nvme_property_set_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	client_capsule(client, &sqe, NULL, 0);
}

static void expect_status(struct client *client, uint16_t cid, uint16_t status)
{
	struct nvme_cqe cqe;

	assert_true(client_receive(client, received));
	cqe = nvme_cqe_decode(client->rx.pdu.cqe);
	assert_int_equal(cqe.cid, cid);
	assert_int_equal(cqe.status, status);
}

static void event_done(void *context, int error, const char *sentence)
{
	(void)context;
	(void)sentence;
	assert_int_equal(error, 0);
}

/* Afterwards the host may send as many again, and gets no event before it has enabled events. */
static void event_requests_are_aborted(void **state)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_ASYNC_EVENT, .sgl.type = NVME_SGL_TRANSPORT};
	struct client admin, io;
	uint16_t first;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	feature_set(&admin, FEATURE_ASYNC_EVENTS, EVENT_MASK_NAMESPACES);
	/* An event that the host has been told of, and whose page it has not read. */
	target_namespace_resize(ns, DISK_BYTES / 2, event_done, NULL);
	assert_int_equal(client_command(&admin, &sqe, NULL, 0).result, EVENT_NAMESPACES);
	first = admin.cid;
	send_event_requests(&admin);
	send_cc(&admin, NVME_CC_DEFAULT);
	for (unsigned i = 0; i < EVENTS; i++)
		expect_status(&admin, (uint16_t)(first + i), NVME_ABORTED);
	expect_status(&admin, (uint16_t)(first + EVENTS), NVME_SUCCESS);
	assert_int_equal(cc_set(&admin, ENABLE), NVME_SUCCESS);
	first = admin.cid;
	send_event_requests(&admin);
	target_namespace_resize(ns, DISK_BYTES, event_done, NULL);
	assert_int_equal(client_command(&admin, &sqe, NULL, 0).status, NVME_AER_LIMIT);
	feature_set(&admin, FEATURE_ASYNC_EVENTS, EVENT_MASK_NAMESPACES);
	target_namespace_resize(ns, DISK_BYTES / 2, event_done, NULL);
	expect_status(&admin, first, NVME_SUCCESS);
	close_both(&admin, &io);
}

static void admin_command_that_waits_is_aborted(void **state)
{
	const struct target_rule rule = {.fault = TARGET_FAULT_DELAY,
		.delay_ns = 600000000000,
		.has_opcode = true,
		.opcode = NVME_ADMIN_KEEP_ALIVE,
		.is_admin = true,
		.count = 1};
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_KEEP_ALIVE, .sgl.type = NVME_SGL_TRANSPORT};
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(target_inject(target, &rule), 0);
	client_capsule(&admin, &sqe, NULL, 0);
	send_cc(&admin, NVME_CC_DEFAULT);
	expect_status(&admin, sqe.cid, NVME_ABORTED);
	expect_status(&admin, (uint16_t)(sqe.cid + 1), NVME_SUCCESS);
	close_both(&admin, &io);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, slow_begin, slow_end)
	const struct CMUnitTest tests[] = {
		TEST(features_go_back_to_their_defaults),
		TEST(event_requests_are_aborted),
		TEST(admin_command_that_waits_is_aborted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

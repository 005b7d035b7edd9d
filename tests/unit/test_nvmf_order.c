/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which writes of a host reach a backend, and when, around the end of a connection: a target over
 * TCP with a namespace whose backend keeps each request until the test lets it go.
 */
#include "support/nvmf_tcp_client.h"

#include "nvmf/target/backend/object.h"

#define OTHER_NQN "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000004"

enum { KEPT_MAX = 64, SHST_MASK = 3 << 2, IDLE_STEPS = 30 };

static struct backend slow, slow_too;
static struct backend_request *kept[KEPT_MAX];
static unsigned kept_count; /* requests that the backend has */

static void slow_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request)
{
	(void)backend;
	(void)ring;
	assert_in_range(kept_count, 0, KEPT_MAX - 1);
	kept[kept_count++] = request;
}

static int slow_resize(struct backend *backend, uint64_t size_bytes, char *sentence)
{
	(void)sentence;
	backend->size_bytes = size_bytes;
	return 0;
}

static void slow_close(struct backend *backend)
{
	(void)backend;
}

static const struct backend_kind slow_kind = {slow_submit, slow_resize, slow_close};

/* The oldest request ends. */
static void let_go(void)
{
	struct backend_request *request = kept[0];

	assert_int_not_equal(kept_count, 0);
	memmove(kept, kept + 1, --kept_count * sizeof(kept[0]));
	backend_finish(request, BACKEND_OK);
}

static void idle(void)
{
	for (int i = 0; i < IDLE_STEPS; i++)
		loop_step(loop, 200000);
}

static void await_kept(unsigned count)
{
	for (int i = 0; i < STEPS_MAX && kept_count != count; i++)
		loop_step(loop, 1000000);
	assert_int_equal(kept_count, count);
}

static int begin(void **state)
{
	struct target_namespace_settings settings = {.nsid = 2, .backend = &slow};
	struct target_namespace_settings settings_too = {.nsid = 3, .backend = &slow_too};
	struct target_namespace *slow_ns;

	setup(state);
	kept_count = 0;
	slow = (struct backend){.kind = &slow_kind, .size_bytes = DISK_BYTES, .block_bytes = 512};
	slow_too = slow;
	assert_int_equal(target_namespace_add(subsystem, &settings, &slow_ns), 0);
	assert_int_equal(target_namespace_add(subsystem, &settings_too, &slow_ns), 0);
	assert_int_equal(target_subsystem_allow(subsystem, OTHER_NQN), 0);
	return 0;
}

static int end(void **state)
{
	target_disconnect_all(target);
	idle();
	while (kept_count)
		let_go();
	return teardown(state);
}

static void write_to_namespace(struct client *client, uint32_t nsid, uint64_t slba)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, slba, 1, 512);

	sqe.nsid = nsid;
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	client_capsule(client, &sqe, data, 512);
}

static void write_to(struct client *client, uint64_t slba)
{
	write_to_namespace(client, 2, slba);
}

static uint32_t csts_of(struct client *client)
{
	struct nvme_property_access access = {.offset = NVME_CSTS};
	struct nvme_sqe sqe;

	nvme_property_get_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	return (uint32_t)client_command(client, &sqe, NULL, 0).result;
}

static uint16_t cc_set(struct client *client, uint32_t value)
{
	struct nvme_property_access access = {.offset = NVME_CC, .value = value};
	struct nvme_sqe sqe;

	nvme_property_set_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	return client_command(client, &sqe, NULL, 0).status;
}

static void open_host(struct client *admin, struct client *io, const char *hostnqn)
{
	struct nvme_connect connect = {.sqsize = 31, .kato_ms = 60000};
	struct nvme_cqe cqe;

	client_initialize(admin, 0);
	cqe = client_connect_as(admin, SUBSYSTEM_NQN, hostnqn, connect, NVME_CNTLID_DYNAMIC);
	assert_int_equal(cqe.status, NVME_SUCCESS);
	client_property(admin, NVME_CC_DEFAULT | NVME_CC_EN);
	connect = (struct nvme_connect){.qid = 1, .sqsize = 31};
	client_initialize(io, 0);
	cqe = client_connect_as(io, SUBSYSTEM_NQN, hostnqn, connect, (uint16_t)cqe.result);
	assert_int_equal(cqe.status, NVME_SUCCESS);
}

static void close_both(struct client *admin, struct client *io)
{
	close(io->fd);
	close(admin->fd);
}

static void reset_is_complete_when_the_last_command_has_ended(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	idle();
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	/* The host is to wait. */
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT | NVME_CC_EN), NVME_INVALID_FIELD);
	let_go();
	idle();
	assert_int_equal(csts_of(&admin), 0);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT | NVME_CC_EN), NVME_SUCCESS);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	close_both(&admin, &io);
}

static void shutdown_is_complete_when_the_last_command_has_ended(void **state)
{
	const uint32_t shutdown = NVME_CC_DEFAULT | NVME_CC_EN | 1 << 14;
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	assert_int_equal(cc_set(&admin, shutdown), NVME_SUCCESS);
	idle();
	assert_int_equal(csts_of(&admin) & SHST_MASK, NVME_CSTS_SHST_OCCURRING);
	let_go();
	idle();
	assert_int_equal(csts_of(&admin) & SHST_MASK, NVME_CSTS_SHST_COMPLETE);
	close_both(&admin, &io);
}

/* A command that waits for its data when the controller is reset. */
static void data_that_comes_after_a_reset_is_not_written(void **state)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 16, 8192);
	struct client admin, io;
	struct tcp_pdu pdu = {.type = TCP_PDU_H2C_DATA, .flags = TCP_LAST, .data_bytes = 8192};
	uint8_t head[TCP_HEADER_BYTES_MAX];
	struct nvme_property_access access = {.offset = NVME_CC, .value = NVME_CC_DEFAULT};
	struct tcp_pdu reset = {.type = TCP_PDU_CAPSULE_CMD};
	uint32_t bytes;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	sqe.nsid = 2;
	client_capsule(&io, &sqe, NULL, 0);
	assert_true(client_receive(&io, received));
	assert_int_equal(io.rx.pdu.type, TCP_PDU_R2T);
	/* Both without a step of the loop: the reset first, the data before the queue is closed. */
	idle();
	nvme_property_set_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	sqe.cid = admin.cid++;
	nvme_sqe_encode(&sqe, reset.sqe);
	bytes = tcp_pdu_encode(&reset, &admin.options, head);
	assert_int_equal(send(admin.fd, head, bytes, 0), bytes);
	pdu.data = io.rx.pdu.data;
	bytes = tcp_pdu_encode(&pdu, &io.options, head);
	assert_int_equal(send(io.fd, head, bytes, 0), bytes);
	assert_int_equal(send(io.fd, data, 8192, 0), 8192);
	idle();
	assert_int_equal(kept_count, 0);
	assert_true(client_receive(&admin, received));
	close_both(&admin, &io);
}

/* The host is cut off, connects anew, and repeats its write. Another host is not concerned. */
static void repeated_write_waits_for_that_of_the_lost_connection(void **state)
{
	struct client admin, io, others_admin, others;

	(void)state;
	open_host(&others_admin, &others, OTHER_NQN);
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	write_to(&io, 1);
	idle();
	assert_int_equal(kept_count, 1);
	assert_int_equal(target_counters(target)->waited_for_lost, 2);
	write_to(&others, 0);
	await_kept(2);
	let_go();
	await_kept(3);
	let_go();
	assert_true(client_receive(&others, received));
	let_go();
	let_go();
	for (int i = 0; i < 2; i++) {
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, NVME_SUCCESS);
	}
	close_both(&admin, &io);
	close_both(&others_admin, &others);
}

/* The host uses two controllers, and repeats on the second what it has lost on the first. */
static void write_on_another_path_waits_for_that_of_the_lost_one(void **state)
{
	struct client admins[2], paths[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		open_host(&admins[i], &paths[i], HOST_NQN);
	write_to(&paths[0], 0);
	await_kept(1);
	write_to(&paths[1], 1);
	await_kept(2);
	close(paths[0].fd);
	idle();
	write_to(&paths[1], 0);
	idle();
	assert_int_equal(kept_count, 2);
	let_go();
	await_kept(2);
	let_go();
	let_go();
	for (int i = 0; i < 2; i++)
		assert_true(client_receive(&paths[1], received));
	close(paths[1].fd);
	close(admins[0].fd);
	close(admins[1].fd);
}

/* A disk that hangs stops no other namespace of its host. */
static void write_to_another_namespace_does_not_wait(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	idle();
	assert_int_equal(kept_count, 1);
	write_to_namespace(&io, 3, 0);
	await_kept(2);
	let_go();
	await_kept(2);
	let_go();
	let_go();
	for (int i = 0; i < 2; i++)
		assert_true(client_receive(&io, received));
	close_both(&admin, &io);
}

/*
 * The network has failed: the host connects anew, and the target still waits for the old connection
 * to end or for its keep alive.
 */
static void write_of_a_new_association_waits_for_those_at_work(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	write_to(&ios[0], 0);
	await_kept(1);
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 0);
	idle();
	assert_int_equal(kept_count, 1);
	let_go();
	await_kept(1);
	/* Later ones do not wait for each other. */
	write_to(&ios[0], 1);
	await_kept(2);
	let_go();
	let_go();
	assert_true(client_receive(&ios[1], received));
	for (int i = 0; i < 2; i++)
		close_both(&admins[i], &ios[i]);
}

/* What waits ends with its own connection, and is not written. */
static void write_that_waits_ends_with_its_connection(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	idle();
	close_both(&admin, &io);
	idle();
	let_go();
	idle();
	assert_int_equal(kept_count, 0);
	assert_true(target_is_idle(target));
}

static void reset_waits_for_the_end_of_a_fused_pair(void **state)
{
	struct nvme_sqe compare = io_sqe(NVME_IO_COMPARE, 0, 1, 512);
	struct nvme_sqe write = io_sqe(NVME_IO_WRITE, 0, 1, 512);
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	compare.nsid = write.nsid = 2;
	compare.sgl.type = write.sgl.type = NVME_SGL_IN_CAPSULE;
	compare.fuse = NVME_FUSE_FIRST;
	write.fuse = NVME_FUSE_SECOND;
	client_capsule(&io, &compare, data, 512);
	client_capsule(&io, &write, data, 512);
	await_kept(1);
	memcpy(kept[0]->iov->iov_base, data, 512);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	let_go();
	await_kept(1);
	assert_int_equal(kept[0]->operation, BACKEND_WRITE);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	let_go();
	idle();
	assert_int_equal(csts_of(&admin), 0);
	close_both(&admin, &io);
}

/* The steps of a command of a lost connection end early. */
static void long_command_ends_with_its_connection(void **state)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_VERIFY, 0, 16384, 0);
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	sqe.nsid = 2;
	client_capsule(&io, &sqe, NULL, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	let_go();
	idle();
	assert_int_equal(kept_count, 0);
	assert_true(target_is_idle(target));
}

/* Its memory stays, too, so that a host that comes and goes gets no more than its share. */
static void connection_counts_until_its_last_command_has_ended(void **state)
{
	struct client admin, io, last;

	(void)state;
	target_set_connections_max(target, 4);
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	client_initialize(&admin, 0);
	client_initialize(&last, 0);
	idle();
	assert_int_equal(target_counters(target)->connections_refused, 1);
	let_go();
	close(last.fd);
	idle();
	client_initialize(&last, 0);
	idle();
	assert_int_equal(target_counters(target)->connections_refused, 1);
	close_both(&admin, &last);
}

/* The delay ends after Disconnect and before the connection is closed. */
static void delayed_command_of_a_closing_queue_is_not_executed(void **state)
{
	const struct target_rule rule = {
		.fault = TARGET_FAULT_DELAY, .delay_ns = 1000000, .nsid = 2};
	struct nvme_sqe sqe = {.opcode = NVME_OPCODE_FABRICS,
		.psdt = 1,
		.nsid = NVME_FABRICS_DISCONNECT,
		.sgl = {.type = NVME_SGL_TRANSPORT}};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};
	uint8_t head[TCP_HEADER_BYTES_MAX];
	struct client admin, io;
	uint32_t bytes;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(target_inject(target, &rule), 0);
	write_to(&io, 0);
	for (int i = 0; i < STEPS_MAX && !target_counters(target)->injected; i++)
		loop_step(loop, 0);
	assert_int_equal(kept_count, 0);
	sqe.cid = io.cid++;
	nvme_sqe_encode(&sqe, pdu.sqe);
	bytes = tcp_pdu_encode(&pdu, &io.options, head);
	assert_int_equal(send(io.fd, head, bytes, 0), bytes);
	usleep(5000);
	idle();
	assert_int_equal(kept_count, 0);
	close_both(&admin, &io);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(reset_is_complete_when_the_last_command_has_ended),
		TEST(shutdown_is_complete_when_the_last_command_has_ended),
		TEST(data_that_comes_after_a_reset_is_not_written),
		TEST(repeated_write_waits_for_that_of_the_lost_connection),
		TEST(write_on_another_path_waits_for_that_of_the_lost_one),
		TEST(write_to_another_namespace_does_not_wait),
		TEST(write_of_a_new_association_waits_for_those_at_work),
		TEST(write_that_waits_ends_with_its_connection),
		TEST(reset_waits_for_the_end_of_a_fused_pair),
		TEST(long_command_ends_with_its_connection),
		TEST(connection_counts_until_its_last_command_has_ended),
		TEST(delayed_command_of_a_closing_queue_is_not_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

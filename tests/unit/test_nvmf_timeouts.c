/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts that let the target's TCP transport wait. */
#include "support/nvmf_tcp_client.h"

/* The timer is for ICReq as a whole: a byte now and then does not renew it. */
static void icreq_that_drips_is_timed_out(void **state)
{
	struct tcp_pdu request = {.type = TCP_PDU_IC_REQ};
	const struct tcp_options none = {0};
	uint8_t bytes[128], answer;
	struct client client;

	(void)state;
	tcp_icreq_timeout_ns = 100000000;
	setup_with(IN_CAPSULE, ENTRIES);
	tcp_icreq_timeout_ns = 0;
	(void)tcp_pdu_encode(&request, &none, bytes);
	client_open(&client);
	for (size_t i = 0; i < sizeof(bytes) - 1 && !target_tcp_counters(tcp)->icreq_timeouts;
		i++) {
		assert_int_equal(send(client.fd, bytes + i, 1, MSG_NOSIGNAL), 1);
		usleep(2000);
		loop_step(loop, 1000000);
	}
	assert_int_equal(target_tcp_counters(tcp)->icreq_timeouts, 1);
	assert_int_not_equal(recv(client.fd, &answer, 1, MSG_DONTWAIT), 1);
	client_close(&client);
	teardown(NULL);
}

static unsigned silence_reports;

static void silence_reported(void *context, const char *sentence)
{
	(void)context;
	silence_reports += strstr(sentence, "127.0.0.1") && strstr(sentence, "data of a write");
}

/* Send a part of the data that the target asks for, or all of it. */
static void write_partly(struct client *client, uint32_t sent_bytes)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 32, 16384);
	struct tcp_pdu pdu = {.type = TCP_PDU_H2C_DATA, .data_bytes = sent_bytes};

	client_capsule(client, &sqe, NULL, 0);
	assert_true(client_receive(client, received));
	assert_int_equal(client->rx.pdu.type, TCP_PDU_R2T);
	pdu.data.cccid = client->rx.pdu.data.cccid;
	pdu.data.ttag = client->rx.pdu.data.ttag;
	pdu.data.length = sent_bytes;
	if (sent_bytes)
		client_pdu(client, &pdu, data);
}

/* Another host's connection, whose data came in time, stays. */
static void host_that_sends_no_data_for_an_r2t_is_closed(void **state)
{
	static const uint32_t parts[] = {0, 8192};
	struct client admin, io;

	(void)state;
	silence_reports = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct client silent_admin, silent;
		uint16_t cntlid;

		tcp_r2t_timeout_ns = 50000000;
		setup_with(IN_CAPSULE, ENTRIES);
		tcp_r2t_timeout_ns = 0;
		target_set_report(target, silence_reported, NULL);
		cntlid = client_admin(&silent_admin, SUBSYSTEM_NQN, 0);
		client_io(&silent, cntlid, 0, 0);
		cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
		client_io(&io, cntlid, 0, 0);
		assert_int_equal(client_write(&io, 0, 16384), NVME_SUCCESS);
		write_partly(&silent, parts[i]);
		assert_false(client_receive(&silent, received));
		assert_int_equal(target_tcp_counters(tcp)->r2t_timeouts, 1);
		assert_int_equal(target_tcp_data_bytes(tcp), 0);
		assert_int_equal(client_write(&io, 0, 16384), NVME_SUCCESS);
		close(silent.fd);
		close(silent_admin.fd);
		close(io.fd);
		client_close(&admin);
		teardown(NULL);
	}
	assert_int_equal(silence_reports, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(icreq_that_drips_is_timed_out),
		cmocka_unit_test(host_that_sends_no_data_for_an_r2t_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

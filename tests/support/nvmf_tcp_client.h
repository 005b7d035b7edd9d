/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_TCP_CLIENT_H
#define URNIC_TESTS_SUPPORT_NVMF_TCP_CLIENT_H

/*
 * A target over TCP, and a client that speaks PDUs and can break each rule. Both are on one thread:
 * the client steps the target's loop while it waits.
 *
 * Each test begins with setup() and ends with teardown().
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/codec/identify.h"
#include "nvmf/common/codec/log_page.h"
#include "nvmf/common/tcp/digest.h"
#include "nvmf/common/tcp/tcp_rx.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/tcp/tcp.h"

#define SUBSYSTEM_NQN "nqn.2026-01.org.example:disk"
#define HOST_NQN      "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000003"

enum {
	DISK_BYTES = 8 << 20,
	DATA_BYTES = 1 << 20,
	IN_CAPSULE = 4096,
	ENTRIES = 32,
	STEPS_MAX = 60000, /* of 1 ms: a hang guard */
};

static struct loop *loop;
static struct target *target;
static struct target_subsystem *subsystem;
static struct target_namespace *ns;
static struct target_port *port;
static struct target_tcp *tcp;
/* Of the next listener; 0: its defaults. */
static uint64_t tcp_data_bytes_max, tcp_icreq_timeout_ns, tcp_r2t_timeout_ns;
static uint8_t data[DATA_BYTES];
static uint8_t received[DATA_BYTES];

struct client {
	int fd;
	struct tcp_rx rx;
	struct tcp_options options;
	uint16_t cid;
};

/* `in_capsule_bytes` and `entries` of I/O queues. */
static inline void setup_with(uint32_t in_capsule_bytes, uint16_t entries)
{
	const struct target_subsystem_settings subsystem_settings = {.nqn = SUBSYSTEM_NQN};
	const struct target_port_settings port_settings = {.portid = 1,
		.trtype = DISCOVERY_TCP,
		.adrfam = DISCOVERY_IPV4,
		.traddr = "127.0.0.1",
		.trsvcid = "4420",
		.queue_entries = entries};
	const struct backend_settings disk = {.size_bytes = DISK_BYTES};
	struct target_namespace_settings ns_settings = {.nsid = 1};
	struct target_tcp_settings settings = {.in_capsule_bytes = in_capsule_bytes,
		.h2c_bytes_max = 8192,
		.r2t_bytes_max = 65536,
		.data_bytes_max = tcp_data_bytes_max,
		.icreq_timeout_ns = tcp_icreq_timeout_ns,
		.r2t_timeout_ns = tcp_r2t_timeout_ns};
	struct sockaddr_in *address = (struct sockaddr_in *)(void *)&settings.address;
	char sentence[BACKEND_SENTENCE_BYTES];

	assert_int_equal(loop_create(&loop), 0);
	assert_int_equal(target_create(loop, &target), 0);
	assert_int_equal(target_subsystem_create(target, &subsystem_settings, &subsystem), 0);
	assert_int_equal(target_subsystem_allow(subsystem, HOST_NQN), 0);
	assert_int_equal(backend_open(&disk, &ns_settings.backend, sentence), 0);
	assert_int_equal(target_namespace_add(subsystem, &ns_settings, &ns), 0);
	assert_int_equal(target_port_create(target, &port_settings, &port), 0);
	assert_int_equal(target_port_link(port, subsystem), 0);
	settings.target = target;
	settings.port = port;
	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(target_tcp_create(&settings, &tcp, sentence), 0);
	for (uint32_t i = 0; i < DATA_BYTES; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
}

static inline int setup(void **state)
{
	(void)state;
	setup_with(IN_CAPSULE, ENTRIES);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	target_tcp_stop(tcp);
	target_disconnect_all(target);
	for (int i = 0; i < STEPS_MAX && !target_is_idle(target); i++)
		loop_step(loop, 1000000);
	assert_int_equal(target_tcp_connection_count(tcp), 0);
	target_tcp_destroy(tcp);
	target_destroy(target);
	loop_destroy(loop);
	return 0;
}

/* --- the client --- */

static inline void client_send(struct client *client, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;

	for (int i = 0; i < STEPS_MAX && length; i++) {
		ssize_t sent = send(client->fd, from, length, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			from += sent;
			length -= (size_t)sent;
		} else if (errno != EAGAIN) {
			return; /* the target has closed already */
		}
		loop_step(loop, sent > 0 ? 0 : 1000000);
	}
	assert_int_equal(length, 0);
}

static inline void client_pdu(struct client *client, struct tcp_pdu *pdu, const void *body)
{
	uint8_t head[TCP_HEADER_BYTES_MAX];
	uint8_t digest[4];
	uint32_t bytes = tcp_pdu_encode(pdu, &client->options, head);

	client_send(client, head, bytes);
	if (pdu->data_bytes)
		client_send(client, body, pdu->data_bytes);
	if (pdu->flags & TCP_DDGST) {
		le32_put(digest, digest_of(body, pdu->data_bytes));
		client_send(client, digest, sizeof(digest));
	}
}

/* The next PDU; its data goes to `place`. False: the target has closed. */
static inline bool client_receive(struct client *client, uint8_t *place)
{
	enum tcp_rx_event event = TCP_RX_MORE;

	for (int i = 0; i < STEPS_MAX;) {
		uint8_t byte[4096];
		uint32_t room = sizeof(byte);
		ssize_t bytes;

		/* Never beyond the present PDU. */
		if (client->rx.state == TCP_RX_DATA)
			room = client->rx.data_left < room ? client->rx.data_left : room;
		else
			room = 1;
		bytes = recv(client->fd, byte, room, MSG_DONTWAIT);
		if (bytes == 0 || (bytes < 0 && errno != EAGAIN))
			return false;
		if (bytes < 0) {
			loop_step(loop, 1000000);
			i++;
			continue;
		}
		(void)tcp_rx_feed(&client->rx, byte, (size_t)bytes, &event);
		if (event == TCP_RX_HEADER) {
			bool is_in_range = client->rx.pdu.type == TCP_PDU_C2H_DATA &&
				client->rx.pdu.data.offset <= DATA_BYTES &&
				client->rx.pdu.data.length <=
					DATA_BYTES - client->rx.pdu.data.offset;

			tcp_rx_place(&client->rx,
				is_in_range ? place + client->rx.pdu.data.offset : NULL);
		}
		if (event == TCP_RX_PDU)
			return true;
		assert_int_not_equal(event, TCP_RX_REFUSED);
	}
	fail_msg("the target is silent");
	return false;
}

/* From this address. */
static inline void client_open_from(struct client *client, const struct sockaddr_in *own)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(target_tcp_port_number(tcp))};
	const int one = 1;

	*client = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	assert_int_equal(bind(client->fd, (const struct sockaddr *)own, sizeof(*own)), 0);
	assert_int_equal(connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	tcp_rx_init(&client->rx, false, 0, DATA_BYTES);
}

static inline void client_open(struct client *client)
{
	const struct sockaddr_in own = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	client_open_from(client, &own);
}

static inline void client_negotiate(struct client *client, uint8_t digests)
{
	struct tcp_pdu request = {.type = TCP_PDU_IC_REQ};

	request.ic.digest = digests;
	client_pdu(client, &request, NULL);
	assert_true(client_receive(client, received));
	assert_int_equal(client->rx.pdu.type, TCP_PDU_IC_RESP);
	assert_int_equal(client->rx.pdu.ic.digest, digests);
	client->options.has_header_digest = digests & 1;
	client->options.has_data_digest = digests >> 1;
	tcp_rx_agree(&client->rx, &client->options);
}

static inline void client_initialize(struct client *client, uint8_t digests)
{
	client_open(client);
	client_negotiate(client, digests);
}

static inline void client_close(struct client *client)
{
	close(client->fd);
	for (int i = 0; i < STEPS_MAX && target_tcp_connection_count(tcp) > 0; i++)
		loop_step(loop, 1000000);
	assert_int_equal(target_tcp_connection_count(tcp), 0);
}

static inline void client_capsule(
	struct client *client, struct nvme_sqe *sqe, const void *body, uint32_t bytes)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = bytes};

	sqe->psdt = 1;
	sqe->cid = client->cid++;
	nvme_sqe_encode(sqe, pdu.sqe);
	client_pdu(client, &pdu, body);
}

static inline void client_answer_r2t(struct client *client, const uint8_t *body)
{
	uint16_t ttag = client->rx.pdu.data.ttag, cccid = client->rx.pdu.data.cccid;
	uint32_t offset = client->rx.pdu.data.offset;
	uint32_t end = offset + client->rx.pdu.data.length;

	while (offset < end) {
		uint32_t length = end - offset < 8192 ? end - offset : 8192;
		struct tcp_pdu pdu = {.type = TCP_PDU_H2C_DATA, .data_bytes = length};

		pdu.flags = offset + length == end ? TCP_LAST : 0;
		pdu.data.cccid = cccid;
		pdu.data.ttag = ttag;
		pdu.data.offset = offset;
		pdu.data.length = length;
		client_pdu(client, &pdu, body + offset);
		offset += length;
	}
}

/* Send a command and wait for its response; data to the controller goes as R2Ts ask. */
static inline struct nvme_cqe client_command(
	struct client *client, struct nvme_sqe *sqe, const uint8_t *body, uint32_t in_capsule_bytes)
{
	client_capsule(client, sqe, body, in_capsule_bytes);
	for (;;) {
		assert_true(client_receive(client, received));
		if (client->rx.pdu.type == TCP_PDU_CAPSULE_RESP)
			return nvme_cqe_decode(client->rx.pdu.cqe);
		if (client->rx.pdu.type == TCP_PDU_R2T)
			client_answer_r2t(client, body);
		else
			assert_int_equal(client->rx.pdu.type, TCP_PDU_C2H_DATA);
		if (client->rx.pdu.flags & TCP_SUCCESS)
			return (struct nvme_cqe){.cid = sqe->cid};
	}
}

static inline struct nvme_sgl sgl_of(uint8_t type, uint32_t length)
{
	return (struct nvme_sgl){.type = type, .length = length};
}

static inline struct nvme_cqe client_connect_as(struct client *client, const char *nqn,
	const char *hostnqn, struct nvme_connect connect, uint16_t cntlid)
{
	struct nvme_connect_data connect_data = {.cntlid = cntlid, .hostid = {1}};
	uint8_t bytes[NVME_CONNECT_DATA_BYTES];
	struct nvme_sqe sqe;

	snprintf(connect_data.subnqn, sizeof(connect_data.subnqn), "%s", nqn);
	snprintf(connect_data.hostnqn, sizeof(connect_data.hostnqn), "%s", hostnqn);
	nvme_connect_data_encode(&connect_data, bytes);
	nvme_connect_encode(&connect, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_IN_CAPSULE, sizeof(bytes));
	return client_command(client, &sqe, bytes, sizeof(bytes));
}

static inline void client_property(struct client *client, uint32_t value)
{
	struct nvme_property_access access = {.offset = NVME_CC, .value = value};
	struct nvme_sqe sqe;

	nvme_property_set_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	assert_int_equal(client_command(client, &sqe, NULL, 0).status, NVME_SUCCESS);
}

static inline uint16_t client_admin(struct client *client, const char *nqn, uint8_t digests)
{
	struct nvme_connect connect = {.sqsize = 31, .kato_ms = 60000};
	struct nvme_cqe cqe;

	client_initialize(client, digests);
	cqe = client_connect_as(client, nqn, HOST_NQN, connect, NVME_CNTLID_DYNAMIC);
	assert_int_equal(cqe.status, NVME_SUCCESS);
	assert_int_not_equal(cqe.result, 0);
	client_property(client, NVME_CC_DEFAULT | NVME_CC_EN);
	return (uint16_t)cqe.result;
}

static inline void client_io(struct client *client, uint16_t cntlid, uint8_t digests, uint8_t cattr)
{
	struct nvme_connect connect = {.qid = 1, .sqsize = ENTRIES - 1, .cattr = cattr};

	client_initialize(client, digests);
	assert_int_equal(client_connect_as(client, SUBSYSTEM_NQN, HOST_NQN, connect, cntlid).status,
		NVME_SUCCESS);
}

static inline struct nvme_sqe io_sqe(uint8_t opcode, uint64_t slba, uint32_t blocks, uint32_t bytes)
{
	return (struct nvme_sqe){.opcode = opcode,
		.nsid = 1,
		.sgl = {.type = NVME_SGL_TRANSPORT, .length = bytes},
		.cdw10 = (uint32_t)slba,
		.cdw11 = (uint32_t)(slba >> 32),
		.cdw12 = blocks - 1};
}

static inline uint16_t client_write(struct client *client, uint64_t slba, uint32_t bytes)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, slba, bytes / 512, bytes);
	bool is_in_capsule = bytes <= IN_CAPSULE;

	if (is_in_capsule)
		sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	return client_command(client, &sqe, data, is_in_capsule ? bytes : 0).status;
}

static inline uint16_t client_read(struct client *client, uint64_t slba, uint32_t bytes)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_READ, slba, bytes / 512, bytes);

	memset(received, 0xee, bytes);
	return client_command(client, &sqe, NULL, 0).status;
}

#endif

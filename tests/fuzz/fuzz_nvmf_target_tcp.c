/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target over TCP, fed by a hostile host. The first byte of the input chooses how far the
 * connection has come: not at all, after ICReq, after a Connect that the input changes, or with an
 * enabled controller of the disk or of discovery. With a controller the rest of the input is a list
 * of records: right PDUs, with changes that the input chooses. Otherwise the rest is the stream's
 * bytes.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nvmf/common/codec/fabrics.h"
#include "nvmf/common/tcp/tcp_pdu.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/tcp/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define DISK_NQN "nqn.2026-01.org.example:disk"

enum {
	DISK_BYTES = 1 << 20,
	RECORD_BYTES = 12,
	STEPS = 3, /* of the loop, for what one write causes */
	CAPSULE_MAX = 8192,
};

enum stage { RAW, INITIALIZED, CONNECT, DISK, DISCOVERY, IO, STAGES };

static struct loop *loop;
static struct target *target;
static struct target_tcp *tcp;
static uint8_t body[CAPSULE_MAX];

static void world_create(void)
{
	const struct target_subsystem_settings disk = {.nqn = DISK_NQN, .allow_any_host = true};
	const struct target_port_settings port_settings = {.portid = 1,
		.trtype = DISCOVERY_TCP,
		.adrfam = DISCOVERY_IPV4,
		.traddr = "127.0.0.1",
		.trsvcid = "4420"};
	const struct backend_settings memory = {.size_bytes = DISK_BYTES};
	struct target_namespace_settings ns_settings = {.nsid = 1};
	struct target_tcp_settings settings = {.in_capsule_bytes = 4096};
	struct target_subsystem *subsystem = NULL;
	struct target_namespace *ns;
	char sentence[BACKEND_SENTENCE_BYTES];
	int error = loop_create(&loop);

	error |= target_create(loop, &target);
	error |= target_subsystem_create(target, &disk, &subsystem);
	error |= backend_open(&memory, &ns_settings.backend, sentence);
	error |= target_namespace_add(subsystem, &ns_settings, &ns);
	error |= target_port_create(target, &port_settings, &settings.port);
	error |= target_port_link(settings.port, subsystem);
	settings.target = target;
	settings.address.ss_family = AF_INET;
	error |= target_tcp_create(&settings, &tcp, sentence);
	assert(!error);
}

static void run_loop(void)
{
	for (int i = 0; i < STEPS; i++)
		loop_step(loop, 0);
}

static int client_open(void)
{
	int ends[2];
	int error = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);

	error |= target_tcp_attach(tcp, ends[1], "fuzz");
	assert(!error);
	return ends[0];
}

/* The first bytes of what the target has sent last. The rest is dropped. */
static uint8_t answer[16384];

static void client_send(int fd, const void *from, size_t length)
{
	uint8_t rest[16384];

	(void)!send(fd, from, length, MSG_NOSIGNAL);
	run_loop();
	if (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) <= 0)
		return;
	while (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
}

static void client_pdu(int fd, struct tcp_pdu *pdu)
{
	const struct tcp_options none = {0};
	uint8_t out[TCP_HEADER_BYTES_MAX + CAPSULE_MAX];
	uint32_t head = tcp_pdu_encode(pdu, &none, out);

	memcpy(out + head, body, pdu->data_bytes);
	client_send(fd, out, pdu->plen);
}

/* Returns the controller's identifier. */
static uint16_t client_connect(int fd, const char *nqn, uint16_t qid, uint16_t cntlid)
{
	const struct nvme_connect connect = {.qid = qid, .sqsize = 31};
	const struct nvme_property_access enable = {
		.offset = NVME_CC, .value = NVME_CC_DEFAULT | NVME_CC_EN};
	struct nvme_connect_data data = {.cntlid = cntlid, .hostid = {1}, .hostnqn = "nqn.fuzz"};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = NVME_CONNECT_DATA_BYTES};
	struct nvme_sqe sqe;

	memcpy(data.subnqn, nqn, strlen(nqn));
	nvme_connect_data_encode(&data, body);
	nvme_connect_encode(&connect, &sqe);
	sqe.sgl = (struct nvme_sgl){.type = NVME_SGL_IN_CAPSULE, .length = NVME_CONNECT_DATA_BYTES};
	nvme_sqe_encode(&sqe, pdu.sqe);
	client_pdu(fd, &pdu);
	cntlid = nvme_cqe_decode(answer + TCP_COMMON_BYTES).result & 0xffff;
	if (qid)
		return cntlid;
	nvme_property_set_encode(&enable, &sqe);
	sqe.sgl.type = NVME_SGL_TRANSPORT;
	nvme_sqe_encode(&sqe, pdu.sqe);
	pdu.data_bytes = 0;
	client_pdu(fd, &pdu);
	return cntlid;
}

/* Of a Connect: 8 bytes of its fields, then changes of a byte of its data. */
static void client_connect_wrongly(int fd, const uint8_t *bytes, size_t length)
{
	enum { FIELDS = 8, CHANGE = 3 };
	struct nvme_connect_data data = {.cntlid = NVME_CNTLID_DYNAMIC,
		.hostid = {1},
		.subnqn = DISK_NQN,
		.hostnqn = "nqn.fuzz"};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = NVME_CONNECT_DATA_BYTES};
	struct nvme_connect connect = {.sqsize = 31};
	struct nvme_sqe sqe;

	if (length < FIELDS)
		return;
	connect.recfmt = bytes[0] == 0xff;
	connect.qid = bytes[1] >> 6;
	connect.sqsize = (uint16_t)(bytes[2] | bytes[3] << 8);
	connect.cattr = bytes[4];
	connect.kato_ms = (uint32_t)bytes[5] << bytes[6] % 24;
	nvme_connect_data_encode(&data, body);
	for (size_t at = FIELDS; length - at >= CHANGE; at += CHANGE)
		body[(bytes[at] | bytes[at + 1] << 8) % NVME_CONNECT_DATA_BYTES] = bytes[at + 2];
	nvme_connect_encode(&connect, &sqe);
	sqe.sgl = (struct nvme_sgl){.type = NVME_SGL_IN_CAPSULE, .length = NVME_CONNECT_DATA_BYTES};
	nvme_sqe_encode(&sqe, pdu.sqe);
	client_pdu(fd, &pdu);
}

static void client_initialize(int fd)
{
	struct tcp_pdu request = {.type = TCP_PDU_IC_REQ};

	client_pdu(fd, &request);
}

/* One PDU: a command of 12 bytes of choice, or H2CData for it. */
static void send_record(int fd, const uint8_t *record, uint16_t cid)
{
	static const uint8_t types[] = {NVME_SGL_TRANSPORT, NVME_SGL_IN_CAPSULE, NVME_SGL_KEYED, 0};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};
	uint32_t size = 512u << (record[2] & 7);
	struct nvme_sqe sqe = {.opcode = record[0],
		.fuse = record[1] >> 6,
		.psdt = 1,
		.cid = record[1] & 32 ? 0 : cid,
		.nsid = record[3],
		.sgl = {.type = types[record[1] & 3], .length = record[1] & 4 ? record[9] : size},
		.cdw10 = record[4] | (uint32_t)record[5] << 8 | (uint32_t)record[6] << 16,
		.cdw11 = record[7],
		.cdw12 = record[8],
		.cdw13 = record[9],
		.cdw14 = record[10],
		.cdw15 = record[11]};

	if (record[0] == 0xff) {
		pdu.type = TCP_PDU_H2C_DATA;
		pdu.data.ttag = (uint16_t)(record[4] | (uint16_t)record[5] << 8);
		pdu.data.cccid = record[6];
		pdu.data.offset = record[7] * 512u;
		pdu.data_bytes = pdu.data.length = size > CAPSULE_MAX ? CAPSULE_MAX : size;
		pdu.flags = record[1] & TCP_LAST;
	} else {
		if (sqe.sgl.type == NVME_SGL_IN_CAPSULE)
			pdu.data_bytes = size > CAPSULE_MAX ? CAPSULE_MAX : size;
		nvme_sqe_encode(&sqe, pdu.sqe);
	}
	client_pdu(fd, &pdu);
}

static void send_records(int fd, const uint8_t *bytes, size_t length)
{
	for (uint16_t cid = 1; length >= RECORD_BYTES; cid++) {
		memcpy(body, bytes, RECORD_BYTES);
		send_record(fd, bytes, cid);
		bytes += RECORD_BYTES;
		length -= RECORD_BYTES;
	}
}

static void send_pieces(int fd, const uint8_t *bytes, size_t length)
{
	while (length) {
		size_t piece = bytes[0] % 97 + 1u < length ? bytes[0] % 97 + 1u : length;

		client_send(fd, bytes, piece);
		bytes += piece;
		length -= piece;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint16_t cntlid;
	enum stage stage = length ? bytes[0] % STAGES : RAW;
	int admin = -1;
	int fd;

	if (!loop)
		world_create();
	fd = client_open();
	if (stage != RAW)
		client_initialize(fd);
	if (stage == DISK || stage == DISCOVERY)
		client_connect(
			fd, stage == DISK ? DISK_NQN : NVME_DISCOVERY_NQN, 0, NVME_CNTLID_DYNAMIC);
	if (stage == IO) {
		admin = fd;
		cntlid = client_connect(admin, DISK_NQN, 0, NVME_CNTLID_DYNAMIC);
		fd = client_open();
		client_initialize(fd);
		client_connect(fd, DISK_NQN, 1, cntlid);
	}
	if (stage == CONNECT)
		client_connect_wrongly(fd, bytes + 1, length - 1);
	else if (length && stage >= DISK)
		send_records(fd, bytes + 1, length - 1);
	else if (length)
		send_pieces(fd, bytes + 1, length - 1);
	close(fd);
	if (admin >= 0)
		close(admin);
	while (target_tcp_connection_count(tcp))
		loop_step(loop, 1000000);
	assert(target_is_idle(target));
	return 0;
}

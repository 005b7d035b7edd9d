/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target over RDMA, fed by a hostile host. The first byte of the input says how far the
 * connection has come: a connection request that the input changes, an accepted one, a Connect that
 * the input changes, or an enabled controller of the disk or of discovery. Then each record is a
 * SEND, the end of a work request of the target, or an event of the connection.
 */
#include "nvmf_verbs.h"

#include <assert.h>
#include <stdio.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/codec/fabrics.h"
#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/rdma/rdma.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define DISK_NQN "nqn.2026-01.org.example:disk"

enum {
	DISK_BYTES = 1 << 20,
	RECORD_BYTES = 12,
	IN_CAPSULE = 4096,
	ENTRIES = 16,
	STEPS = 3,
	STEPS_MAX = 100000,
};

enum stage { REQUEST, ACCEPTED, CONNECT, DISK, DISCOVERY, IO, STAGES };

static struct loop *loop;
static struct target *target;
static struct target_rdma *rdma;
static struct rdma_cm_id *listening;
static uint8_t capsule[NVME_SQE_BYTES + IN_CAPSULE + 64];
static uint8_t body[NVME_CONNECT_DATA_BYTES]; /* what an RDMA READ of the target brings */

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)address;
	listening = id;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id, (void)backlog;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id, (void)param;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t bytes)
{
	(void)id, (void)private_data, (void)bytes;
	return 0;
}

uint16_t rdma_get_dst_port(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

static void run_loop(void)
{
	for (int i = 0; i < STEPS; i++)
		loop_step(loop, 0);
}

static void world_create(void)
{
	const struct target_subsystem_settings disk = {.nqn = DISK_NQN, .allow_any_host = true};
	const struct target_port_settings port_settings = {.portid = 1,
		.trtype = DISCOVERY_RDMA,
		.adrfam = DISCOVERY_IPV4,
		.traddr = "127.0.0.1",
		.trsvcid = "4420",
		.queue_entries = ENTRIES};
	const struct backend_settings memory = {.size_bytes = DISK_BYTES};
	struct target_namespace_settings ns_settings = {.nsid = 1};
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct target_rdma_listener *listener;
	struct target_subsystem *subsystem = NULL;
	struct target_namespace *ns;
	struct target_port *port = NULL;
	char sentence[BACKEND_SENTENCE_BYTES + TARGET_RDMA_SENTENCE_BYTES];
	int error = loop_create(&loop);

	fake_init();
	error |= target_create(loop, &target);
	error |= target_subsystem_create(target, &disk, &subsystem);
	error |= backend_open(&memory, &ns_settings.backend, sentence);
	error |= target_namespace_add(subsystem, &ns_settings, &ns);
	error |= target_port_create(target, &port_settings, &port);
	error |= target_port_link(port, subsystem);
	error |= target_rdma_create(target, loop, &rdma);
	error |= target_rdma_listen(
		rdma, port, (struct sockaddr *)&address, IN_CAPSULE, ENTRIES, &listener, sentence);
	assert(!error);
}

/* A connection request: an identifier that the target may have destroyed afterwards. */
static struct rdma_cm_id *request(const void *private_data, uint8_t bytes, uint8_t reads)
{
	struct rdma_cm_id *id;
	struct rdma_cm_event *event;

	assert(fake_events_added - fake_events_taken < FAKE_EVENTS);
	rdma_create_id(listening->channel, &id, NULL, RDMA_PS_TCP);
	id->route.addr.dst_sin.sin_family = AF_INET;
	fake_event(id, listening, RDMA_CM_EVENT_CONNECT_REQUEST, 0, private_data, bytes);
	event = fake_events[(fake_events_added - 1) % FAKE_EVENTS];
	event->param.conn.initiator_depth = reads;
	run_loop();
	return id;
}

static struct rdma_cm_id *accepted(uint16_t qid)
{
	const struct rdma_request right = {.qid = qid, .hrqsize = ENTRIES, .hsqsize = ENTRIES - 1};
	uint8_t bytes[RDMA_REQUEST_BYTES];

	rdma_request_encode(&right, bytes);
	return request(bytes, sizeof(bytes), 4);
}

static void establish(const struct rdma_cm_id *id)
{
	if (fake_qp_find(id))
		fake_event(fake_qp_find(id)->id, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	run_loop();
}

/* All that the target has posted completes. */
static void finish_all(const struct rdma_cm_id *id)
{
	for (int i = 0; i < 4; i++) {
		struct fake_qp *qp = fake_qp_find(id);

		while (qp && fake_finish(qp, body, sizeof(body)))
			;
		run_loop();
	}
}

/* A command that is right; returns the first two bytes of the response. */
static uint16_t command_run(const struct rdma_cm_id *id, struct nvme_sqe *sqe, uint32_t bytes)
{
	struct fake_qp *qp = fake_qp_find(id);
	const struct fake_request *last;

	if (!qp)
		return 0;
	sqe->psdt = 1;
	sqe->sgl = (struct nvme_sgl){.type = NVME_SGL_KEYED, .address = 4096, .length = bytes};
	nvme_sqe_encode(sqe, capsule);
	(void)fake_deliver(qp, capsule, NVME_SQE_BYTES, 0);
	run_loop();
	finish_all(id);
	qp = fake_qp_find(id);
	if (!qp || qp->sends_taken == 0)
		return 0;
	last = &qp->sends[(qp->sends_taken - 1) % FAKE_REQUESTS];
	return last->length == NVME_CQE_BYTES ? le16_get(last->bytes) : 0;
}

static void body_make(const char *nqn, uint16_t cntlid)
{
	struct nvme_connect_data data = {.cntlid = cntlid, .hostid = {1}, .hostnqn = "nqn.fuzz"};

	memcpy(data.subnqn, nqn, strlen(nqn));
	nvme_connect_data_encode(&data, body);
}

/* Connect; the Admin queue's controller is also enabled. Returns its identifier. */
static uint16_t connect_queue(
	const struct rdma_cm_id *id, const char *nqn, uint16_t qid, uint16_t cntlid)
{
	const struct nvme_connect connect = {.qid = qid, .sqsize = ENTRIES - 1};
	const struct nvme_property_access enable = {
		.offset = NVME_CC, .value = NVME_CC_DEFAULT | NVME_CC_EN};
	struct nvme_sqe sqe;

	establish(id);
	body_make(nqn, cntlid);
	nvme_connect_encode(&connect, &sqe);
	cntlid = command_run(id, &sqe, NVME_CONNECT_DATA_BYTES);
	if (qid)
		return cntlid;
	nvme_property_set_encode(&enable, &sqe);
	(void)command_run(id, &sqe, 0);
	return cntlid;
}

/* Of a Connect: 8 bytes of its fields, then changes of a byte of its data. */
static void connect_wrongly(const struct rdma_cm_id *id, const uint8_t *bytes, size_t length)
{
	enum { FIELDS = 8, CHANGE = 3 };
	struct nvme_connect connect = {.sqsize = ENTRIES - 1};
	struct nvme_sqe sqe;

	if (length < FIELDS)
		return;
	establish(id);
	connect.recfmt = bytes[0] == 0xff;
	connect.qid = bytes[1] >> 6;
	connect.sqsize = le16_get(bytes + 2);
	connect.cattr = bytes[4];
	connect.kato_ms = (uint32_t)bytes[5] << bytes[6] % 24;
	body_make(DISK_NQN, NVME_CNTLID_DYNAMIC);
	for (size_t at = FIELDS; length - at >= CHANGE; at += CHANGE)
		body[le16_get(bytes + at) % NVME_CONNECT_DATA_BYTES] = bytes[at + 2];
	nvme_connect_encode(&connect, &sqe);
	(void)command_run(id, &sqe, bytes[7] < 0xf0 ? NVME_CONNECT_DATA_BYTES : bytes[7]);
}

/* A SEND: a command of 12 bytes of choice, perhaps with data, or not quite a command. */
static void send_record(struct fake_qp *qp, const uint8_t *record, uint16_t cid)
{
	static const uint8_t io[] = {NVME_IO_WRITE, NVME_IO_READ, NVME_IO_COMPARE, NVME_IO_FLUSH};
	static const uint8_t types[] = {NVME_SGL_KEYED, NVME_SGL_IN_CAPSULE,
		NVME_SGL_KEYED_INVALIDATE, NVME_SGL_LAST_SEGMENT_IN_CAPSULE};
	uint32_t size = 512u << (record[2] & 7);
	uint32_t in_capsule = record[1] & 8 ? record[9] * 16u : size;
	struct nvme_sqe sqe = {.opcode = record[0],
		.fuse = record[1] >> 6,
		.psdt = 1,
		.cid = record[1] & 32 ? 0 : cid,
		.nsid = record[3],
		.sgl = {.type = types[record[1] & 3],
			.length = record[1] & 4 ? record[9] : size,
			.key = 5},
		.cdw10 = record[4] | (uint32_t)record[5] << 8 | (uint32_t)record[6] << 16,
		.cdw11 = record[7],
		.cdw12 = record[8],
		.cdw13 = record[9],
		.cdw14 = record[10],
		.cdw15 = record[11]};
	uint32_t length = NVME_SQE_BYTES;
	unsigned flags = 0;

	/* Mostly blocks that there are. */
	if (record[3] >= 0x80) {
		sqe.opcode = io[record[0] % sizeof(io)];
		sqe.nsid = 1;
		sqe.cdw11 = 0;
		sqe.cdw12 = size / 512 - 1;
	}
	if (sqe.sgl.type == NVME_SGL_IN_CAPSULE) {
		length += in_capsule < IN_CAPSULE + 64 ? in_capsule : IN_CAPSULE + 64;
		sqe.sgl.address = record[1] & 16 ? (uint64_t)record[10] << record[11] % 64 : 0;
	}
	if (record[2] >= 0xf8)
		length = record[4] % 65u;
	if (record[2] == 0x80)
		flags = record[3] & 1 ? IBV_WC_WITH_IMM : IBV_WC_WITH_INV;
	nvme_sqe_encode(&sqe, capsule);
	(void)fake_deliver(qp, capsule, length, flags);
}

static void run_records(const struct rdma_cm_id *id, const uint8_t *bytes, size_t length)
{
	static const enum rdma_cm_event_type types[] = {RDMA_CM_EVENT_ESTABLISHED,
		RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_DEVICE_REMOVAL};
	uint16_t cid = 1;

	for (; length >= RECORD_BYTES; bytes += RECORD_BYTES, length -= RECORD_BYTES) {
		struct fake_qp *qp = fake_qp_find(id);

		if (!qp)
			return;
		/* Opcodes of no command: what happens beside SENDs. */
		if (bytes[0] == 0xff)
			fake_event(qp->id, NULL, types[bytes[1] % 4], 0, NULL, 0);
		else if (bytes[0] >= 0xf0)
			(void)fake_finish(qp, bytes[1] == 0xff ? NULL : bytes, RECORD_BYTES);
		else
			send_record(qp, bytes, cid++);
		if (bytes[2] & 8)
			continue;
		run_loop();
		if (bytes[2] & 16)
			finish_all(id);
	}
	run_loop();
}

static void request_wrongly(const uint8_t *bytes, size_t length)
{
	uint8_t private_data[64] = {0};
	size_t count = length > 1 ? length - 1 : 0;

	count = count < sizeof(private_data) ? count : sizeof(private_data);
	if (count)
		memcpy(private_data, bytes + 1, count);
	(void)request(private_data, (uint8_t)count, length ? bytes[0] : 0);
}

/* The host is gone: nothing of it is left. */
static void end_all(void)
{
	for (int i = 0; i < FAKE_QUEUES; i++)
		if (fake_qps[i])
			fake_event(fake_qps[i]->id, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
	for (int i = 0; target_rdma_queue_count(rdma) || !target_is_idle(target); i++) {
		assert(i < STEPS_MAX);
		loop_step(loop, 1000000);
	}
	for (int i = 0; i < FAKE_MRS; i++)
		assert(!fake_mrs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	enum stage stage = length ? bytes[0] % STAGES : REQUEST;
	struct rdma_cm_id *id = NULL;
	uint16_t cntlid;

	if (!loop)
		world_create();
	if (length == 0)
		return 0;
	bytes++, length--;
	if (stage != REQUEST)
		id = accepted(0);
	if (stage == REQUEST)
		request_wrongly(bytes, length);
	else if (stage == CONNECT)
		connect_wrongly(id, bytes, length);
	else if (stage >= DISK)
		cntlid = connect_queue(
			id, stage == DISCOVERY ? NVME_DISCOVERY_NQN : DISK_NQN, 0, 0xffff);
	if (stage == IO) {
		id = accepted(1);
		(void)connect_queue(id, DISK_NQN, 1, cntlid);
	}
	if (stage == ACCEPTED || stage >= DISK)
		run_records(id, bytes, length);
	end_all();
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a hostile controller sends to a host over RDMA: events of the connection with private data,
 * and SENDs that are nearly responses. The input is a script of steps. Each command must be done
 * exactly once, and its buffer has exactly the size of its data.
 */
#include "nvmf_verbs.h"

#include <stdio.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/host/controller/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH = 4, STEP_BYTES = 8, IN_CAPSULE = 256, DATA_MAX = 8192 };

struct fuzz_command {
	struct host_command command;
	bool is_pending;
};

static struct loop *loop;
static struct host_queue *queue;
static struct rdma_cm_id *id; /* the host's; NULL: it is gone */
static bool is_connected, is_lost;
static bool is_asked; /* REQ is sent, and rdma_cm has not told of an answer */
static struct fuzz_command commands[DEPTH];

int rdma_resolve_addr(
	struct rdma_cm_id *host, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	(void)src, (void)dst, (void)timeout_ms;
	id = host;
	fake_event(id, NULL, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *host, int timeout_ms)
{
	(void)timeout_ms;
	fake_event(host, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	return 0;
}

int rdma_connect(struct rdma_cm_id *host, struct rdma_conn_param *param)
{
	(void)host;
	if (param->private_data_len != RDMA_REQUEST_BYTES)
		abort();
	is_asked = true;
	return 0;
}

static void note_connected(void *context)
{
	(void)context;
	if (is_connected || is_lost)
		abort();
	is_connected = true;
}

static void note_lost(void *context, int error, const char *reason)
{
	(void)context;
	if (is_lost || !error || !reason[0])
		abort();
	is_lost = true;
}

static void command_done(struct host_command *command, enum host_end end)
{
	struct fuzz_command *own = container_of(command, struct fuzz_command, command);

	(void)end;
	if (!own->is_pending)
		abort();
	own->is_pending = false;
	free(command->data);
}

static void submit(const uint8_t *step)
{
	struct fuzz_command *own = &commands[step[1] % DEPTH];
	uint32_t bytes = le16_get(step + 2) % DATA_MAX;

	if (own->is_pending || !is_connected)
		return;
	memset(own, 0, sizeof(*own));
	own->is_pending = true;
	own->command.done = command_done;
	own->command.sqe[0] = step[4];
	if (step[5] % 3 && bytes) {
		own->command.direction =
			step[5] % 3 == 1 ? HOST_TO_CONTROLLER : HOST_FROM_CONTROLLER;
		own->command.data = calloc(1, bytes);
		own->command.data_bytes = bytes;
	}
	host_rdma.submit(queue, &own->command);
}

/* Mostly a response to a pending command; sometimes of another length, identifier or kind. */
static void respond(struct fake_qp *qp, const uint8_t *step)
{
	uint8_t bytes[64] = {0};
	uint32_t length = step[3] < 0xf0 ? HOST_CQE_BYTES : step[3] % 32u;
	unsigned flags = step[4] == 0xff ? IBV_WC_WITH_IMM : step[4] == 0xfe ? IBV_WC_WITH_INV : 0;

	le16_put(bytes + 12,
		(uint16_t)(commands[step[1] % DEPTH].command.cid ^
			(step[2] < 0xe0 ? 0 : 1 << step[2] % 16)));
	le16_put(bytes + 14, step[5] & 6);
	(void)fake_deliver(qp, bytes, length, flags);
}

/* REP, REJ or another event of the connection, with private data that is nearly right. */
static void connection_event(const uint8_t *step)
{
	static const enum rdma_cm_event_type types[] = {RDMA_CM_EVENT_ESTABLISHED,
		RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE,
		RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_ADDR_ERROR};
	uint8_t bytes[RDMA_REPLY_BYTES] = {0};
	enum rdma_cm_event_type type = types[step[1] % 8];

	bytes[0] = step[2] == 0xff;
	bytes[2] = step[3] < 0xe0 ? DEPTH + 1 : step[3] % 16;
	/* rdma_cm tells of the answer to a REQ once. */
	if (step[1] % 8 < 5 && !is_asked)
		return;
	if (step[1] % 8 < 5)
		is_asked = false;
	fake_event(id, NULL, type, step[4] == 28 ? 28 : -(int)(step[4] % 4), bytes,
		step[5] < 0xe0 ? sizeof(bytes) : step[5] % 32);
}

static void run_step(const uint8_t *step)
{
	struct fake_qp *qp = fake_qp_find(id);
	static const uint8_t word[1] = {7};

	switch (step[0] % 8) {
	case 0:
	case 1:
		submit(step);
		break;
	case 2:
	case 3:
		if (qp)
			respond(qp, step);
		break;
	case 4:
	case 5:
		if (qp)
			(void)fake_finish(qp, step[1] == 0xff ? NULL : word, 1);
		break;
	case 6:
		(void)host_rdma.poll(queue);
		return;
	default:
		connection_event(step);
		break;
	}
	if (step[6] & 1)
		loop_step(loop, 0);
}

static void begin(uint8_t choice)
{
	struct host_queue_settings settings = {
		.loop = loop,
		.qid = choice & 1,
		.depth = DEPTH,
		.in_capsule_bytes = IN_CAPSULE,
		.sgls = 1 << 20,
		.data_bytes_max = DATA_MAX,
		.connected = note_connected,
		.lost = note_lost,
	};
	const uint8_t reply[RDMA_REPLY_BYTES] = {0, 0, DEPTH + 1};
	char reason[HOST_REASON_BYTES];

	is_connected = is_lost = is_asked = false;
	if (host_rdma.open(&settings, &queue, reason))
		abort();
	for (int i = 0; i < 3 && !(choice & 2); i++)
		loop_step(loop, 0);
	if (choice & 4 || !is_asked)
		return;
	is_asked = false;
	fake_event(id, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, reply, sizeof(reply));
	loop_step(loop, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!loop) {
		fake_init();
		if (loop_create(&loop))
			abort();
	}
	if (size < 1)
		return 0;
	begin(data[0]);
	for (data++, size--; size >= STEP_BYTES; data += STEP_BYTES, size -= STEP_BYTES)
		run_step(data);
	loop_step(loop, 0);
	host_rdma.close(queue);
	for (int i = 0; i < DEPTH; i++)
		if (commands[i].is_pending)
			abort();
	for (int i = 0; i < FAKE_MRS; i++)
		if (fake_mrs[i])
			abort();
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a hostile controller sends to a host over TCP. The input is a script: each step submits a
 * command, lets some output leave, or feeds a PDU that is nearly right, or raw bytes. Each command
 * must be done exactly once, and its buffer has exactly the size of its data.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/tcp/digest.h"
#include "nvmf/host/tcp/tcp_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH = 8, STEP_BYTES = 8, IN_CAPSULE = 256, DATA_MAX = 4096 };

struct fuzz_command {
	struct host_command command;
	bool is_pending;
};

static struct fuzz_command commands[DEPTH];
static struct tcp_session session;
static struct tcp_options options;

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

	if (own->is_pending || session.error || !session.is_ready)
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
	tcp_session_submit(&session, &own->command);
}

static void drain(uint32_t limit)
{
	struct iovec parts[6];
	int count = tcp_session_output(&session, parts, 6);
	volatile uint8_t sum = 0;
	size_t sent = 0;

	for (int i = 0; i < count && sent < limit; i++) {
		size_t piece = parts[i].iov_len < limit - sent ? parts[i].iov_len : limit - sent;

		for (size_t j = 0; j < piece; j++)
			sum ^= ((const uint8_t *)parts[i].iov_base)[j];
		sent += piece;
	}
	(void)sum;
	if (sent)
		tcp_session_sent(&session, sent);
}

/* A PDU for a pending command, mostly; one byte of it may be wrong. */
static void feed_pdu(const uint8_t *step)
{
	static const enum tcp_pdu_type types[] = {
		TCP_PDU_CAPSULE_RESP, TCP_PDU_C2H_DATA, TCP_PDU_R2T, TCP_PDU_C2H_TERM};
	static uint8_t bytes[TCP_HEADER_BYTES_MAX + DATA_MAX + DIGEST_BYTES];
	const struct host_command *command = &commands[step[1] % DEPTH].command;
	struct tcp_pdu pdu = {.type = types[step[2] % 16 % 4]};

	if (pdu.type == TCP_PDU_CAPSULE_RESP) {
		le16_put(pdu.cqe + 12, command->cid);
		pdu.cqe[14] = step[3] & 4;
	} else if (pdu.type != TCP_PDU_C2H_TERM) {
		pdu.data.cccid = command->cid;
		pdu.data.offset = step[3] & 1 ? command->data_bytes / 2 : 0;
		pdu.data.length = step[3] & 2 ? command->data_bytes : command->data_bytes / 2;
		if (pdu.type == TCP_PDU_C2H_DATA && pdu.data.length) {
			pdu.data_bytes = pdu.data.length;
			pdu.flags = step[3] & (TCP_LAST | TCP_SUCCESS);
		} else if (pdu.type == TCP_PDU_C2H_DATA) {
			return;
		}
	}
	tcp_pdu_encode(&pdu, &options, bytes);
	memset(bytes + pdu.plen - pdu.data_bytes - (pdu.flags & TCP_DDGST ? DIGEST_BYTES : 0), 7,
		pdu.data_bytes);
	if (step[4] < 32)
		bytes[step[4] % 24] ^= step[5];
	tcp_session_received(&session, 0, bytes, pdu.plen);
}

static void begin(uint8_t choice)
{
	static const struct tcp_options none;
	uint8_t bytes[TCP_HEADER_BYTES_MAX];
	struct tcp_pdu pdu = {.type = TCP_PDU_IC_RESP};
	struct host_queue_settings settings = {
		.qid = choice & 1,
		.depth = DEPTH,
		.in_capsule_bytes = IN_CAPSULE,
		.data_bytes_max = DATA_MAX,
		.wants_header_digest = choice & 2,
		.wants_data_digest = choice & 4,
	};

	if (tcp_session_init(&session, &settings))
		abort();
	options = (struct tcp_options){choice & 2, choice & 4, 0};
	if (choice & 8)
		return;
	pdu.ic.max = TCP_MAXH2CDATA_MIN;
	pdu.ic.digest = choice >> 1 & 3;
	tcp_pdu_encode(&pdu, &none, bytes);
	tcp_session_received(&session, 0, bytes, pdu.plen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	begin(data[0]);
	for (data++, size--; size >= STEP_BYTES; data += STEP_BYTES, size -= STEP_BYTES) {
		unsigned kind = data[0] % 8;

		if (kind < 3)
			submit(data);
		else if (kind == 3)
			drain(1u + data[1]);
		else if (kind == 4)
			drain(UINT32_MAX);
		else if (!session.error && (kind < 7 || !session.is_ready))
			feed_pdu(data);
		else if (!session.error)
			tcp_session_received(&session, 0, data + 1, STEP_BYTES - 1);
	}
	drain(UINT32_MAX);
	tcp_session_end(&session);
	for (int i = 0; i < DEPTH; i++) {
		if (commands[i].is_pending)
			abort();
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager, driven by a program and a peer that do anything in any order. The input
 * is a list of steps. A step is a message whose fields are mostly those of an existing connection,
 * a call of the program, or a lapse of time. Every invariant holds after each step, and in the end
 * the manager has returned all connections.
 */
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"
#include "support/permutation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNS = 6, SPARES = 3, LAST_MESSAGES = 4 };

struct input {
	const uint8_t *data;
	size_t bytes;
};

static struct cm cm;
static struct cm_conn conns[CONNS];
static bool has_gone[CONNS];
static struct cm_listener listener;
static struct cm_last_message last_messages[LAST_MESSAGES];
static uint64_t now_ns;
static bool is_checked; /* which takes most of the time, so not in every run */

static uint8_t take(struct input *input)
{
	if (input->bytes == 0)
		return 0;
	input->bytes--;
	return *input->data++;
}

static struct cm_path path_of(struct input *input)
{
	const uint8_t us[4] = {10, 0, 0, 1};
	/* Mostly the peer. */
	const uint8_t them[4] = {10, 0, 0, (uint8_t)(take(input) % 8 ? 2 : 3)};

	return (struct cm_path){.local = gid_from_ipv4(us), .remote = gid_from_ipv4(them)};
}

static void settle(void)
{
	uint8_t packet[GSI_PACKET_BYTES];
	struct cm_event event;
	struct cm_path path;

	while (cm_next_event(&cm, &event))
		if (event.kind == CM_EVENT_RELEASED)
			has_gone[event.conn - conns] = true;
	while (cm_next_packet(&cm, &path, packet))
		if (!gsi_packet_mad(packet, sizeof(packet)))
			abort();
	if (is_checked)
		cm_check(&cm);
}

static void hear(struct input *input)
{
	struct cm_path path = path_of(input);
	struct cm_message message = {
		.attribute = (enum cm_attribute)(CM_REQ + take(input) % (CM_APR - CM_REQ + 1))};
	const struct cm_conn *conn = &conns[take(input) % CONNS];
	uint8_t mad[MAD_BYTES];

	/*
	 * All messages begin with the sender's communication ID; all but REQ and the SIDR ones go
	 * on with ours.
	 */
	message.rtu.local_comm_id = take(input) % 5;
	message.rtu.remote_comm_id = conn->local_comm_id;
	if (message.attribute == CM_REQ) {
		message.req.service_id = 7;
		message.req.local_qpn = take(input) % 4;
		message.req.local_response_timeout = take(input) % 32;
		memcpy(message.req.primary_local_gid, path.remote.raw, 16);
		memcpy(message.req.primary_remote_gid, path.local.raw, 16);
	} else if (message.attribute == CM_DREQ) {
		message.dreq.remote_qpn = 9;
	} else if (message.attribute == CM_MRA) {
		message.mra.message = take(input) % 4;
		message.mra.service_timeout = take(input) % 32;
	} else if (message.attribute == CM_SIDR_REQ) {
		message.sidr_req.service_id = 7;
	} else if (message.attribute == CM_SIDR_REP) {
		message.sidr_rep.request_id = conn->local_comm_id;
	} else if (message.attribute == CM_REJ) {
		message.rej.reason = take(input) % 36;
	}
	cm_message_encode(&message, mad);
	/* Now and then one byte is another. */
	if (take(input) % 8 == 0)
		mad[take(input)] ^= take(input);
	if (take(input) % 16 == 0)
		cm_undeliverable(&cm, &path, take(input) % 2, mad);
	else
		cm_receive(&cm, &path, mad, now_ns);
}

static void call(struct input *input)
{
	const struct cm_req req = {.service_id = 8, .local_qpn = 9};
	const struct cm_rep rep = {.local_qpn = 9};
	const struct cm_rej rej = {.reason = CM_REJECT_CONSUMER};
	const struct cm_sidr_req request = {.service_id = 8};
	const struct cm_sidr_rep answer = {.qpn = 9};
	struct cm_path path = path_of(input);
	uint32_t index = take(input) % CONNS;
	struct cm_conn *conn = &conns[index];

	/* The listener's reserve is not the program's, and neither is what it has released. */
	if (has_gone[index] || conn->is_released ||
		(index < SPARES && conn->state == CM_STATE_IDLE))
		return;
	switch (take(input) % 9) {
	case 0:
		cm_connect(&cm, conn, &path, &req, now_ns);
		break;
	case 1:
		cm_accept(&cm, conn, &rep, now_ns);
		break;
	case 2:
		cm_reject(&cm, conn, &rej, now_ns);
		break;
	case 3:
		cm_ready(&cm, conn, now_ns);
		break;
	case 4:
		cm_establish(&cm, conn, now_ns);
		break;
	case 5:
		cm_disconnect(&cm, conn, now_ns);
		break;
	case 6:
		cm_sidr_request(&cm, conn, &path, &request, now_ns);
		break;
	case 7:
		cm_sidr_answer(&cm, conn, &answer, now_ns);
		break;
	default:
		if (take(input) % 4 == 0)
			cm_release(&cm, conn, now_ns);
		break;
	}
}

static void begin(void)
{
	memset(has_gone, 0, sizeof(has_gone));
	memset(last_messages, 0, sizeof(last_messages));
	now_ns = 1;
	cm_init(&cm, 1, 2, test_permutation(3), 4);
	cm_keep_last_messages(&cm, last_messages, LAST_MESSAGES);
	listener = (struct cm_listener){.service_id = 7};
	cm_listen(&cm, &listener);
	for (uint32_t i = 0; i < CONNS; i++) {
		if (cm_conn_create(&cm, &conns[i], NULL))
			abort();
		if (i < SPARES)
			cm_listener_add(&listener, &conns[i]);
	}
}

static void end(void)
{
	struct cm_conn *spare;

	while ((spare = cm_listener_take(&listener))) {
		cm_release(&cm, spare, now_ns);
		settle();
	}
	cm_unlisten(&listener);
	for (uint32_t i = 0; i < CONNS; i++) {
		if (!has_gone[i] && !conns[i].is_released)
			cm_release(&cm, &conns[i], now_ns);
		settle();
	}
	while (cm_deadline_ns(&cm) != DEADLINE_NEVER) {
		now_ns = cm_deadline_ns(&cm);
		cm_expire(&cm, now_ns);
		settle();
	}
	for (uint32_t i = 0; i < CONNS; i++)
		if (!has_gone[i])
			abort();
	for (uint32_t i = 0; i < LAST_MESSAGES; i++)
		if (last_messages[i].local_comm_id != 0)
			abort();
	cm_done(&cm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};

	is_checked = size % 4 == 0;
	begin();
	while (input.bytes > 0) {
		switch (take(&input) % 4) {
		case 0:
			call(&input);
			break;
		case 1:
			now_ns += (uint64_t)take(&input) << 28;
			while (cm_expire(&cm, now_ns))
				settle();
			break;
		default:
			hear(&input);
			break;
		}
		settle();
	}
	end();
	return 0;
}

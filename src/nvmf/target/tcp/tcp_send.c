/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: each command has at most an R2T or its response to send. One system call sends the
 * output of several commands, in the order of `output`. After a refusal only `last` is sent.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "nvmf/common/bytes.h"
#include "nvmf/target/tcp/tcp_queue.h"

enum { PARTS_MAX = 96 };

void tcp_send_soon(struct tcp_queue *q)
{
	if (!q->is_blocked)
		loop_defer(q->tcp->loop, &q->send);
}

static void pdu_enqueue(struct tcp_queue *q, struct tcp_command *c)
{
	c->sent = 0;
	list_append(&q->output, &c->node);
	tcp_send_soon(q);
}

void tcp_send_r2t(struct tcp_queue *q, struct tcp_command *c)
{
	uint32_t left = c->command.data_bytes - c->asked;
	uint32_t length =
		left < q->tcp->settings.r2t_bytes_max ? left : q->tcp->settings.r2t_bytes_max;
	struct tcp_pdu pdu = {.type = TCP_PDU_R2T};

	pdu.data.cccid = c->command.sqe.cid;
	pdu.data.ttag = tcp_ttag(c);
	pdu.data.offset = c->asked;
	pdu.data.length = length;
	c->asked += length;
	c->state = TCP_DATA_ASKING;
	c->head_bytes = tcp_pdu_encode(&pdu, &q->options, c->head);
	c->body_bytes = 0;
	c->tail_bytes = 0;
	pdu_enqueue(q, c);
}

static uint32_t response_encode(struct tcp_queue *q, struct tcp_command *c, uint8_t *bytes)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_RESP};

	nvme_cqe_encode(&c->command.cqe, pdu.cqe);
	return tcp_pdu_encode(&pdu, &q->options, bytes);
}

/*
 * C2HData with SUCCESS replaces the CapsuleResp if the host needs no SQHD and the result is 0
 * (section 3.6.2.10).
 */
static bool needs_response(const struct tcp_queue *q, const struct tcp_command *c)
{
	return q->queue.has_flow_control || !q->queue.is_connected || c->command.cqe.result != 0;
}

void tcp_send_response(struct tcp_queue *q, struct tcp_command *c)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_C2H_DATA, .flags = TCP_LAST};
	bool has_response = needs_response(q, c);

	c->is_responding = true;
	c->body_bytes = c->command.data_bytes;
	c->tail_bytes = 0;
	if (c->body_bytes == 0) {
		c->head_bytes = response_encode(q, c, c->head);
		pdu_enqueue(q, c);
		return;
	}
	if (!has_response)
		pdu.flags |= TCP_SUCCESS;
	pdu.data_bytes = c->body_bytes;
	pdu.data.cccid = c->command.sqe.cid;
	pdu.data.length = c->body_bytes;
	c->head_bytes = tcp_pdu_encode(&pdu, &q->options, c->head);
	if (q->options.has_data_digest) {
		le32_put(c->tail, digest_of(c->buffer, c->body_bytes));
		c->tail_bytes = DIGEST_BYTES;
	}
	if (has_response)
		c->tail_bytes += response_encode(q, c, c->tail + c->tail_bytes);
	assert(c->tail_bytes <= sizeof(c->tail));
	pdu_enqueue(q, c);
}

static int part_add(struct iovec *parts, int count, void *bytes, uint32_t length, uint32_t *skip)
{
	if (*skip >= length) {
		*skip -= length;
		return count;
	}
	parts[count].iov_base = (uint8_t *)bytes + *skip;
	parts[count].iov_len = length - *skip;
	*skip = 0;
	return count + 1;
}

static int command_parts(struct tcp_command *c, struct iovec *parts)
{
	uint32_t skip = c->sent;
	int count = part_add(parts, 0, c->head, c->head_bytes, &skip);

	count = part_add(parts, count, c->buffer, c->body_bytes, &skip);
	return part_add(parts, count, c->tail, c->tail_bytes, &skip);
}

static int parts_collect(struct tcp_queue *q, struct iovec *parts)
{
	uint32_t skip = q->is_refused ? q->last_sent : q->own_sent;
	int count = 0;

	if (q->is_refused)
		return part_add(parts, count, q->last, q->last_bytes, &skip);
	if (q->own_bytes)
		count = part_add(parts, count, q->own, q->own_bytes, &skip);
	list_for_each(c, &q->output, struct tcp_command, node) {
		if (count > PARTS_MAX - 3)
			break;
		count += command_parts(c, parts + count);
	}
	return count;
}

/* The unsent rest of the ICResp, or of a command's PDUs, if a part of them is sent. */
static int rest_parts(struct tcp_queue *q, struct iovec *parts)
{
	struct tcp_command *c = list_first(&q->output, struct tcp_command, node);
	uint32_t skip = q->own_sent;

	if (q->own_sent)
		return part_add(parts, 0, q->own, q->own_bytes, &skip);
	return list_is_empty(&q->output) || c->sent == 0 ? 0 : command_parts(c, parts);
}

bool tcp_send_last(struct tcp_queue *q)
{
	struct iovec parts[3];
	uint8_t term[TCP_TERM_BYTES_MAX];
	uint32_t term_bytes = tcp_rx_term(&q->rx, term), bytes = term_bytes;
	int count = rest_parts(q, parts);

	if (term_bytes == 0)
		return false;
	for (int i = 0; i < count; i++)
		bytes += (uint32_t)parts[i].iov_len;
	q->last = malloc(bytes);
	if (!q->last)
		return false;
	for (int i = 0; i < count; i++) {
		memcpy(q->last + q->last_bytes, parts[i].iov_base, parts[i].iov_len);
		q->last_bytes += (uint32_t)parts[i].iov_len;
	}
	memcpy(q->last + q->last_bytes, term, term_bytes);
	q->last_bytes = bytes;
	return true;
}

static void command_sent(struct tcp_queue *q, struct tcp_command *c)
{
	list_remove(&c->node);
	if (c->is_responding)
		tcp_command_release(q, c);
	else
		tcp_r2t_sent(q, c);
}

static void parts_sent(struct tcp_queue *q, size_t bytes)
{
	q->tcp->counters.sent_bytes += bytes;
	if (q->is_refused) {
		q->last_sent += (uint32_t)bytes;
		return;
	}
	if (q->own_sent < q->own_bytes) {
		uint32_t left = q->own_bytes - q->own_sent;
		uint32_t piece = bytes < left ? (uint32_t)bytes : left;

		q->own_sent += piece;
		bytes -= piece;
		if (q->own_sent < q->own_bytes)
			return;
		q->own_bytes = q->own_sent = 0;
	}
	while (bytes) {
		struct tcp_command *c = list_first(&q->output, struct tcp_command, node);
		uint32_t left = c->head_bytes + c->body_bytes + c->tail_bytes - c->sent;

		if (bytes < left) {
			c->sent += (uint32_t)bytes;
			return;
		}
		bytes -= left;
		command_sent(q, c);
	}
}

bool tcp_queue_send(struct tcp_queue *q)
{
	struct network *network = q->tcp->network;
	struct iovec parts[PARTS_MAX];

	while (!q->is_blocked) {
		int count = parts_collect(q, parts);
		ssize_t sent;

		if (count == 0)
			break;
		sent = network->send(network, q->watch.fd, parts, (size_t)count);
		if (sent < 0 && sent != -EAGAIN)
			return false;
		if (sent < 0)
			q->is_blocked = true;
		else
			parts_sent(q, (size_t)sent);
	}
	return loop_rewatch(
		       q->tcp->loop, &q->watch, q->is_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN) == 0;
}

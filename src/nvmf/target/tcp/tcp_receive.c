/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: tcp_rx cuts PDUs out of the stream; this file compares them with the queue's commands.
 */
#include <errno.h>
#include <string.h>

#include "nvmf/target/tcp/tcp_queue.h"

enum {
	READS_MAX = 8, /* reads in one step of the loop; then other connections have their turn */
	DIRECT_BYTES_MIN = 4096, /* less data is read to the staging buffer */
	/* Byte offsets of header fields, for the FEI of a TermReq. */
	FLAGS_OFFSET = 1,
	PLEN_OFFSET = 4,
	CCCID_OFFSET = 8,
	TTAG_OFFSET = 10,
	DATAL_OFFSET = 16,
};

static void pdu_refuse(struct tcp_queue *q, enum tcp_fatal fes, uint32_t fei)
{
	tcp_rx_refuse(&q->rx, fes, fei);
}

/* ICReq: a digest is used if both host and target want it (section 3.6.2.2). */
static void take_icreq(struct tcp_queue *q)
{
	const struct tcp_options none = {0};
	struct tcp_options received = {0};
	struct tcp_pdu response = {.type = TCP_PDU_IC_RESP};
	uint8_t digest = q->tcp->settings.refuses_digests ? 0 : q->rx.pdu.ic.digest;

	loop_timer_cancel(&q->timer);
	received.has_header_digest = digest & 1;
	received.has_data_digest = digest >> 1 & 1;
	q->options = received;
	q->options.pda = q->rx.pdu.ic.pda;
	response.ic.digest = digest;
	response.ic.max = q->tcp->settings.h2c_bytes_max;
	q->own_bytes = tcp_pdu_encode(&response, &none, q->own);
	tcp_rx_agree(&q->rx, &received);
	tcp_send_soon(q);
}

/* Check the SGL descriptor against the data in the capsule, of `capsule_bytes` bytes. */
static uint16_t sgl_verdict(const struct nvme_sgl *sgl, uint32_t capsule_bytes)
{
	if (sgl->length == 0 && capsule_bytes == 0)
		return NVME_SUCCESS;
	if (sgl->type == NVME_SGL_TRANSPORT)
		return capsule_bytes ? NVME_SGL_TYPE : NVME_SUCCESS;
	if (sgl->type != NVME_SGL_IN_CAPSULE)
		return NVME_SGL_TYPE;
	if (sgl->address != 0)
		return NVME_SGL_OFFSET;
	return sgl->length == capsule_bytes ? NVME_SUCCESS : NVME_SGL_LENGTH;
}

/* Begin a command when its header has arrived. Returns NULL if the PDU is refused. */
static struct tcp_command *begin_command(struct tcp_queue *q)
{
	struct tcp_command *c = tcp_command_take(q);
	uint32_t capsule_bytes = q->rx.pdu.data_bytes;

	if (!c) {
		pdu_refuse(q, TCP_FATAL_SEQUENCE, 0);
		return NULL;
	}
	c->command.sqe = nvme_sqe_decode(q->rx.pdu.sqe);
	c->command.data_bytes = c->command.sqe.sgl.length;
	c->command.is_in_capsule = capsule_bytes > 0;
	c->command.refusal = sgl_verdict(&c->command.sqe.sgl, capsule_bytes);
	/* An I/O command has more in-capsule data than IOCCSZ allows (section 3.4.4). */
	if (q->queue.qid != 0 && c->command.sqe.opcode != NVME_OPCODE_FABRICS &&
		capsule_bytes > q->queue.in_capsule_bytes) {
		pdu_refuse(q, TCP_FATAL_HEADER, PLEN_OFFSET);
		tcp_command_release(q, c);
		return NULL;
	}
	return c;
}

static void give_command(struct tcp_queue *q, struct tcp_command *c)
{
	if (target_queue_command(&q->queue, &c->command))
		return;
	pdu_refuse(q, TCP_FATAL_SEQUENCE, 0);
	tcp_command_release(q, c);
}

static void take_h2c_header(struct tcp_queue *q)
{
	const struct tcp_pdu *pdu = &q->rx.pdu;
	struct tcp_command *c = tcp_command_of_ttag(q, pdu->data.ttag);

	if (!c) {
		pdu_refuse(q, TCP_FATAL_HEADER, TTAG_OFFSET);
	} else if (c->command.sqe.cid != pdu->data.cccid) {
		pdu_refuse(q, TCP_FATAL_HEADER, CCCID_OFFSET);
	} else if (c->state != TCP_DATA_OUTSTANDING) {
		pdu_refuse(q, TCP_FATAL_SEQUENCE, 0);
	} else if (pdu->data.length != pdu->data_bytes) {
		pdu_refuse(q, TCP_FATAL_HEADER, DATAL_OFFSET);
	} else if (pdu->data.offset != c->received || pdu->data.length > c->asked - c->received) {
		pdu_refuse(q, TCP_FATAL_DATA_RANGE, 0);
	} else if (!(pdu->flags & TCP_LAST) != (pdu->data.length < c->asked - c->received)) {
		pdu_refuse(q, TCP_FATAL_HEADER, FLAGS_OFFSET);
	} else {
		q->receiving = c;
		tcp_rx_place(&q->rx, c->buffer + c->received);
	}
}

static void take_header(struct tcp_queue *q)
{
	struct tcp_command *c;

	if (q->rx.pdu.type == TCP_PDU_H2C_DATA) {
		take_h2c_header(q);
		return;
	}
	c = begin_command(q);
	if (!c)
		return;
	q->receiving = c;
	/* If there is no memory, the data is dropped, and the command fails. */
	if (c->command.refusal == NVME_SUCCESS && !tcp_command_allocate(c, q->rx.pdu.data_bytes))
		c->command.refusal = NVME_INTERNAL;
	tcp_rx_place(&q->rx, c->buffer);
}

static void take_h2c(struct tcp_queue *q, struct tcp_command *c)
{
	c->received += q->rx.pdu.data_bytes;
	if (q->rx.is_data_digest_wrong) {
		q->tcp->counters.data_digest_errors++;
		c->is_damaged = true;
	}
	if (c->received < c->asked)
		return;
	list_remove(&c->node);
	if (c->received < c->command.data_bytes) {
		tcp_send_r2t(q, c);
		return;
	}
	c->state = TCP_DATA_HERE;
	target_command_data_ready(
		&c->command, c->is_damaged ? NVME_TRANSIENT_TRANSPORT : NVME_SUCCESS);
}

static void take_capsule(struct tcp_queue *q, struct tcp_command *c)
{
	if (q->rx.is_data_digest_wrong) {
		q->tcp->counters.data_digest_errors++;
		if (c->command.refusal == NVME_SUCCESS)
			c->command.refusal = NVME_TRANSIENT_TRANSPORT;
	}
	give_command(q, c);
}

static void take_pdu(struct tcp_queue *q)
{
	struct tcp_command *c = q->receiving;

	q->receiving = NULL;
	switch (q->rx.pdu.type) {
	case TCP_PDU_IC_REQ:
		take_icreq(q);
		return;
	case TCP_PDU_CAPSULE_CMD:
		if (!c)
			c = begin_command(q);
		if (c)
			take_capsule(q, c);
		return;
	case TCP_PDU_H2C_DATA:
		take_h2c(q, c);
		return;
	case TCP_PDU_IC_RESP:
	case TCP_PDU_H2C_TERM:
	case TCP_PDU_C2H_TERM:
	case TCP_PDU_CAPSULE_RESP:
	case TCP_PDU_C2H_DATA:
	case TCP_PDU_R2T:
		return;
	}
}

/* Returns false if the stream is over. */
static bool queue_feed(struct tcp_queue *q, const uint8_t *bytes, size_t length)
{
	enum tcp_rx_event event = TCP_RX_MORE;

	do {
		size_t used = tcp_rx_feed(&q->rx, bytes, length, &event);

		bytes += used;
		length -= used;
		if (event == TCP_RX_HEADER)
			take_header(q);
		else if (event == TCP_RX_PDU)
			take_pdu(q);
		if (event == TCP_RX_REFUSED || q->rx.state == TCP_RX_OVER)
			return false;
	} while (length || event == TCP_RX_HEADER);
	return true;
}

/*
 * Read data directly to its place if at least DIRECT_BYTES_MIN of it are missing. Read all other
 * bytes to the staging buffer.
 */
static ssize_t read_some(struct tcp_queue *q, uint32_t *ret_direct_bytes, size_t *ret_room)
{
	uint32_t direct_bytes = 0;
	uint8_t *direct = tcp_rx_direct(&q->rx, &direct_bytes);
	struct iovec parts[2] = {
		{.iov_base = direct, .iov_len = direct_bytes},
		{.iov_base = q->tcp->staging, .iov_len = sizeof(q->tcp->staging)},
	};
	struct network *network = q->tcp->network;
	bool is_direct = direct && direct_bytes >= DIRECT_BYTES_MIN;

	*ret_direct_bytes = is_direct ? direct_bytes : 0;
	*ret_room = *ret_direct_bytes + sizeof(q->tcp->staging);
	return network->receive(
		network, q->watch.fd, is_direct ? parts : parts + 1, is_direct ? 2 : 1);
}

static bool take_bytes(struct tcp_queue *q, size_t bytes, uint32_t direct_bytes)
{
	uint32_t placed = bytes < direct_bytes ? (uint32_t)bytes : direct_bytes;

	q->tcp->counters.received_bytes += bytes;
	if (placed)
		tcp_rx_placed(&q->rx, placed);
	return queue_feed(q, q->tcp->staging, bytes - placed);
}

static void stream_over(struct tcp_queue *q)
{
	if (q->rx.refusal.fes != TCP_FATAL_NONE) {
		tcp_queue_refuse(q);
		return;
	}
	q->tcp->counters.terminated++;
	tcp_queue_end(q);
}

void tcp_queue_receive(struct tcp_queue *q)
{
	for (int i = 0; i < READS_MAX; i++) {
		uint32_t direct_bytes;
		size_t room;
		ssize_t bytes = read_some(q, &direct_bytes, &room);

		if (bytes == -EAGAIN)
			return;
		if (bytes <= 0) {
			tcp_queue_end(q);
			return;
		}
		/* After this target's TermReq, drop received bytes until the host closes. */
		if (q->is_refused)
			continue;
		if (!take_bytes(q, (size_t)bytes, direct_bytes)) {
			stream_over(q);
			return;
		}
		/*
		 * A short read has emptied the socket. If more bytes have arrived since, the
		 * level-triggered watch reports them.
		 */
		if ((size_t)bytes < room)
			return;
	}
}

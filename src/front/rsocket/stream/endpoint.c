/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The resources of a stream whose device is known (queue pair, buffers, tables), and its messages.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front/rsocket/stream/stream.h"

/*
 * The wr_id of a receive request is this bit and the request's index. The wr_id of a send is its
 * message (protocol.h).
 */
#define WR_RECEIVE (1ull << 63)

enum { TAKE_BATCH = 32, POST_BATCH = 32 };

/* --- life --- */

static size_t target_bytes(const struct rs *rs)
{
	return RS_TARGET_COUNT * sizeof(struct rs_sge) +
		rs->options.iomap_count * sizeof(struct rs_iomap);
}

/* Allocate zeroed memory and register it. */
static int buffer_make(
	struct rs *rs, size_t bytes, int access, void *ret_buffer, struct ibv_mr **ret_mr)
{
	void *buffer = NULL;
	struct ibv_mr *mr;

	if (posix_memalign(&buffer, (size_t)sysconf(_SC_PAGESIZE), bytes))
		return rs_no_memory();
	memset(buffer, 0, bytes);
	mr = ibv_reg_mr(rs->id->pd, buffer, bytes, access);
	if (!mr) {
		free(buffer);
		return errno;
	}
	memcpy(ret_buffer, &buffer, sizeof(buffer));
	*ret_mr = mr;
	return 0;
}

static void buffer_free(void *buffer, struct ibv_mr *mr)
{
	if (mr)
		ibv_dereg_mr(mr);
	free(buffer);
}

static int buffers_make(struct rs *rs)
{
	const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct rs_options *options = &rs->options;
	int error = buffer_make(rs, options->send_buffer_bytes, 0, &rs->send_buffer, &rs->send_mr);

	if (!error)
		error = buffer_make(rs,
			options->receive_buffer_bytes +
				options->receive_queue_size * sizeof(uint32_t),
			remote, &rs->receive_buffer, &rs->receive_mr);
	if (!error)
		error = buffer_make(rs, target_bytes(rs), remote, &rs->target, &rs->target_mr);
	if (error)
		return error;
	rs->target_iomap = (struct rs_iomap *)(void *)(rs->target + RS_TARGET_COUNT);
	rs->received = (uint32_t *)(void *)(rs->receive_buffer + options->receive_buffer_bytes);
	rs->messages = calloc(options->receive_queue_size, sizeof(*rs->messages));
	return rs->messages ? 0 : rs_no_memory();
}

static int queue_pair_make(struct rs *rs)
{
	const struct rs_options *options = &rs->options;
	struct ibv_qp_init_attr init = {
		.qp_context = rs,
		.cap =
			{
				.max_send_wr = options->send_queue_size * (rs->is_iwarp ? 2 : 1),
				.max_recv_wr = options->receive_queue_size,
				.max_send_sge = 2,
				.max_recv_sge = 1,
				.max_inline_data = options->inline_bytes,
			},
		.qp_type = IBV_QPT_RC,
	};

	rs->completions = ibv_create_comp_channel(rs->id->verbs);
	if (!rs->completions || fcntl(rs->completions->fd, F_SETFL, O_NONBLOCK))
		return errno;
	rs->cq = ibv_create_cq(rs->id->verbs,
		(int)(options->send_queue_size + options->receive_queue_size), rs, rs->completions,
		0);
	if (!rs->cq)
		return errno;
	init.send_cq = rs->cq;
	init.recv_cq = rs->cq;
	return rdma_create_qp(rs->id, NULL, &init) ? errno : 0;
}

/* Post the next `count` requests of the receive queue. */
static int receives_post(struct rs *rs, uint32_t count)
{
	struct ibv_recv_wr wrs[POST_BATCH] = {0};
	struct ibv_sge places[POST_BATCH];
	struct ibv_recv_wr *bad;

	while (count) {
		uint32_t batch = count < POST_BATCH ? count : POST_BATCH;

		for (uint32_t i = 0; i < batch; i++) {
			uint32_t index = rs->receive_index;

			places[i] = (struct ibv_sge){(uintptr_t)&rs->received[index],
				sizeof(rs->received[index]), rs->receive_mr->lkey};
			rs->receive_index = (index + 1) % rs->options.receive_queue_size;
			wrs[i].wr_id = WR_RECEIVE | index;
			wrs[i].sg_list = &places[i];
			wrs[i].num_sge = rs->is_iwarp;
			wrs[i].next = i + 1 < batch ? &wrs[i + 1] : NULL;
		}
		int error = ibv_post_recv(rs->id->qp, wrs, &bad);

		if (error)
			return error;
		count -= batch;
	}
	return 0;
}

int rs_endpoint_create(struct rs *rs)
{
	struct rs_options *options = &rs->options;
	int error;

	options->receive_buffer_bytes &= ~7u;
	rs->is_iwarp = rs->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	error = queue_pair_make(rs);
	if (!error)
		error = buffers_make(rs);
	if (!error)
		error = receives_post(rs, options->receive_queue_size);
	if (error) {
		rs_endpoint_destroy(rs);
		return error;
	}
	rs->ctrl_slots = RS_CTRL_COUNT;
	rs->send_slots = options->send_queue_size - RS_CTRL_COUNT;
	rs->send_free_bytes = options->send_buffer_bytes;
	rs->grant_at = (uint16_t)(options->receive_queue_size / 2);
	/*
	 * The private data grants the first half of the receive buffer to the peer. The second half
	 * is marked free here, so that rs_grant() grants it at once.
	 */
	rs->free_offset = options->receive_buffer_bytes / 2;
	rs->free_bytes = options->receive_buffer_bytes / 2;
	return 0;
}

void rs_endpoint_destroy(struct rs *rs)
{
	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	if (rs->cq) {
		if (rs->unacknowledged_events)
			ibv_ack_cq_events(rs->cq, rs->unacknowledged_events);
		ibv_destroy_cq(rs->cq);
	}
	if (rs->completions)
		ibv_destroy_comp_channel(rs->completions);
	while (rs->mappings) {
		struct rs_mapping *mapping = rs->mappings;

		rs->mappings = mapping->next;
		ibv_dereg_mr(mapping->mr);
		free(mapping);
	}
	buffer_free(rs->send_buffer, rs->send_mr);
	buffer_free(rs->receive_buffer, rs->receive_mr);
	buffer_free(rs->target, rs->target_mr);
	free(rs->messages);
	rs->cq = NULL;
	rs->completions = NULL;
	rs->send_buffer = NULL;
	rs->send_mr = NULL;
	rs->receive_buffer = NULL;
	rs->receive_mr = NULL;
	rs->target = NULL;
	rs->target_mr = NULL;
	rs->messages = NULL;
}

/* --- private data --- */

static bool is_host_big_endian(void)
{
	return htobe16(1) == 1;
}

void rs_conn_data_make(const struct rs *rs, struct rs_conn_data *to)
{
	*to = (struct rs_conn_data){
		.version = RS_PROTOCOL_VERSION,
		.flags = (uint8_t)(RS_CONN_IOMAP | (is_host_big_endian() ? RS_CONN_BIG_ENDIAN : 0)),
		.credits = htobe16((uint16_t)rs->options.receive_queue_size),
		.iomap_size = rs_scale(rs->options.iomap_count),
		.target_sgl =
			{
				.address = htobe64((uintptr_t)rs->target),
				.key = htobe32(rs->target_mr->rkey),
				.bytes = htobe32(RS_TARGET_COUNT),
			},
		.data_buffer =
			{
				.address = htobe64((uintptr_t)rs->receive_buffer),
				.key = htobe32(rs->receive_mr->rkey),
				.bytes = htobe32(rs->options.receive_buffer_bytes / 2),
			},
	};
}

static struct rs_sge sge_from_net(const struct rs_sge *net)
{
	return (struct rs_sge){be64toh(net->address), be32toh(net->key), be32toh(net->bytes)};
}

int rs_conn_data_take(struct rs *rs, const void *private_data, size_t bytes)
{
	struct rs_conn_data data;

	if (!private_data || bytes < sizeof(data))
		return EPROTO;
	memcpy(&data, private_data, sizeof(data));
	rs->peer_target = sge_from_net(&data.target_sgl);
	if (data.version != RS_PROTOCOL_VERSION || rs->peer_target.bytes == 0)
		return EPROTO;
	rs->is_peer_swapped = is_host_big_endian() != ((data.flags & RS_CONN_BIG_ENDIAN) != 0);
	rs->peer_target_index = 1 % rs->peer_target.bytes;
	rs->target[0] = sge_from_net(&data.data_buffer);
	rs->send_limit = be16toh(data.credits);
	if (data.flags & RS_CONN_IOMAP) {
		rs->peer_iomap.address = rs->peer_target.address +
			(uint64_t)rs->peer_target.bytes * sizeof(struct rs_sge);
		rs->peer_iomap.key = rs->peer_target.key;
		rs->peer_iomap.bytes = rs_unscale(data.iomap_size);
	}
	return 0;
}

/* --- messages out --- */

/* Post requests in the order of the list. The last one is signaled. */
static int requests_post(struct rs *rs, struct ibv_send_wr *first)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(rs->id->qp, first, &bad);

	if (error)
		rs_fail(rs, error);
	return error;
}

/*
 * Post a WRITE of the elements in `list` to the peer's memory `to`. Unless `is_silent`, the WRITE
 * carries `message` as immediate data, or over iWARP, a SEND with `message` follows.
 */
static int write_post(struct rs *rs, uint32_t message, struct ibv_sge *list, int count,
	const struct rs_sge *to, unsigned flags, bool is_silent)
{
	bool is_message_apart = rs->is_iwarp && !is_silent;
	struct ibv_sge piece = {(uintptr_t)&message, sizeof(message), 0};
	struct ibv_send_wr send = {
		.wr_id = message,
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr write = {
		.wr_id = message,
		.next = is_message_apart ? &send : NULL,
		.sg_list = list,
		.num_sge = count,
		.opcode =
			rs->is_iwarp || is_silent ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = flags | (is_message_apart ? 0 : IBV_SEND_SIGNALED),
		.imm_data = htonl(message),
		.wr.rdma = {.remote_addr = to->address, .rkey = to->key},
	};

	return requests_post(rs, is_message_apart && !count ? &send : &write);
}

/* Post a message without data. */
static int message_post(struct rs *rs, uint32_t message)
{
	return write_post(rs, message, NULL, 0, &(struct rs_sge){0, 0, 0}, 0, false);
}

bool rs_can_number(const struct rs *rs)
{
	return rs->send_slots > 0 && rs->send_sequence != rs->send_limit;
}

bool rs_can_send(const struct rs *rs)
{
	const volatile struct rs_sge *target = &rs->target[rs->target_index];

	return rs_can_number(rs) && rs->send_free_bytes >= RS_SEND_BYTES_MIN && target->bytes != 0;
}

bool rs_is_sent(const struct rs *rs)
{
	return rs->state != RS_CONNECTED ||
		(rs->send_slots == rs->options.send_queue_size - RS_CTRL_COUNT &&
			rs->ctrl_slots == RS_CTRL_COUNT);
}

/*
 * Describe the `bytes` bytes at send_offset, in two elements if they pass the end of the ring, and
 * advance send_offset. Returns the number of elements.
 */
static int send_list(struct rs *rs, uint32_t bytes, struct ibv_sge list[2])
{
	uint32_t size = rs->options.send_buffer_bytes;
	uint32_t first_bytes = size - rs->send_offset < bytes ? size - rs->send_offset : bytes;

	list[0] = (struct ibv_sge){
		(uintptr_t)rs->send_buffer + rs->send_offset, first_bytes, rs->send_mr->lkey};
	list[1] = (struct ibv_sge){
		(uintptr_t)rs->send_buffer, bytes - first_bytes, rs->send_mr->lkey};
	rs->send_offset = (rs->send_offset + bytes) % size;
	return bytes > first_bytes ? 2 : 1;
}

int rs_data_send(
	struct rs *rs, struct pieces *from, uint32_t bytes, const struct rs_sge *to, bool is_silent)
{
	struct ibv_sge list[2];
	int count;

	pieces_copy_ring(from, rs->send_buffer, rs->options.send_buffer_bytes, rs->send_offset,
		bytes, PIECES_OUT);
	count = send_list(rs, bytes, list);

	rs->send_slots--;
	rs->send_free_bytes -= bytes;
	rs->send_sequence += !is_silent;
	return write_post(rs, rs_message(RS_OP_DATA, bytes), list, count, to, 0, is_silent);
}

int rs_iomap_send(struct rs *rs, const struct rs_iomap *entry, uint32_t index)
{
	struct rs_iomap out = *entry;
	struct ibv_sge list = {(uintptr_t)&out, sizeof(out), 0};
	struct rs_sge to = rs->peer_iomap;

	to.address += index * sizeof(out);

	if (rs->is_peer_swapped) {
		out.offset = __builtin_bswap64(out.offset);
		out.sge.address = __builtin_bswap64(out.sge.address);
		out.sge.key = __builtin_bswap32(out.sge.key);
		out.sge.bytes = __builtin_bswap32(out.sge.bytes);
	}
	rs->send_slots--;
	rs->send_sequence++;
	return write_post(
		rs, rs_message(RS_OP_IOMAP, index), &list, 1, &to, IBV_SEND_INLINE, false);
}

int rs_ctrl_send(struct rs *rs, enum rs_ctrl ctrl)
{
	rs->ctrl_slots--;
	return message_post(rs, rs_message(RS_OP_CTRL, ctrl));
}

/* Grant the free half of the receive buffer to the peer. */
static int half_send(struct rs *rs, uint32_t message)
{
	uint32_t half_bytes = rs->options.receive_buffer_bytes / 2;
	struct rs_sge half = {
		(uintptr_t)rs->receive_buffer + rs->free_offset, rs->receive_mr->rkey, half_bytes};
	struct ibv_sge list = {(uintptr_t)&half, sizeof(half), 0};
	struct rs_sge to = rs->peer_target;

	to.address += rs->peer_target_index * sizeof(half);
	if (rs->is_peer_swapped) {
		half.address = __builtin_bswap64(half.address);
		half.key = __builtin_bswap32(half.key);
		half.bytes = __builtin_bswap32(half.bytes);
	}
	rs->free_bytes -= half_bytes;
	rs->free_offset = (rs->free_offset + half_bytes) % rs->options.receive_buffer_bytes;
	rs->peer_target_index = (rs->peer_target_index + 1) % rs->peer_target.bytes;
	return write_post(rs, message, &list, 1, &to, IBV_SEND_INLINE, false);
}

void rs_grant(struct rs *rs)
{
	bool has_half = rs->free_bytes >= rs->options.receive_buffer_bytes / 2;
	bool has_numbers = (int16_t)(rs->receive_sequence - rs->grant_at) >= 0;
	uint16_t limit = (uint16_t)(rs->receive_sequence + rs->options.receive_queue_size);
	uint32_t message = rs_message(RS_OP_SGL, limit);

	if (rs->state != RS_CONNECTED || !rs->ctrl_slots || !(has_half || has_numbers))
		return;
	rs->ctrl_slots--;
	rs->grant_at = (uint16_t)(rs->receive_sequence + rs->options.receive_queue_size / 2);
	if (has_half)
		half_send(rs, message);
	else
		message_post(rs, message);
}

/* --- messages in --- */

static void peer_closed(struct rs *rs)
{
	rs->can_read = false;
	rs->can_write = false;
	rs->state = RS_DISCONNECTED;
}

/*
 * Process a DATA message. A hostile peer may send more messages than there is room for, or name
 * more bytes than the receive buffer has.
 */
static void data_arrived(struct rs *rs, uint32_t bytes)
{
	uint32_t size = rs->options.receive_queue_size;

	if (rs->message_count == size || bytes > rs->options.receive_buffer_bytes) {
		rs_fail(rs, EPROTO);
		return;
	}
	rs->messages[(rs->message_head + rs->message_count++) % size] = bytes;
}

static void message_arrived(struct rs *rs, uint32_t message)
{
	uint32_t operand = rs_message_operand(message);

	switch (rs_message_op(message)) {
	case RS_OP_DATA:
		data_arrived(rs, operand);
		break;
	case RS_OP_SGL:
		rs->send_limit = (uint16_t)operand;
		break;
	case RS_OP_IOMAP: /* a numbered message; the peer has already written the entry */
		rs->receive_sequence++;
		break;
	case RS_OP_CTRL:
		if (operand == RS_CTRL_DISCONNECT)
			peer_closed(rs);
		else if (operand == RS_CTRL_SHUTDOWN)
			rs->can_read = false;
		break;
	default:
		rs_fail(rs, EPROTO);
	}
}

static void message_left(struct rs *rs, uint32_t message)
{
	switch (rs_message_op(message)) {
	case RS_OP_SGL:
	case RS_OP_CTRL:
		rs->ctrl_slots++;
		break;
	case RS_OP_IOMAP:
		rs->send_slots++;
		break;
	case RS_OP_DATA:
		rs->send_slots++;
		rs->send_free_bytes += rs_message_operand(message);
		break;
	}
}

static void rs_failed(struct rs *rs, const struct ibv_wc *wc)
{
	if (rs->state != RS_CONNECTED)
		return;
	/*
	 * A flushed request says that the connection is over, but not why; the rdma_cm event has
	 * the reason.
	 */
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		peer_closed(rs);
	else
		rs_fail(rs, wc->status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
}

void rs_completions_take(struct rs *rs)
{
	struct ibv_wc batch[TAKE_BATCH];
	uint32_t received;
	int count;

	do {
		received = 0;
		count = ibv_poll_cq(rs->cq, TAKE_BATCH, batch);
		for (int i = 0; i < count; i++) {
			const struct ibv_wc *wc = &batch[i];

			if (!(wc->wr_id & WR_RECEIVE))
				message_left(rs, (uint32_t)wc->wr_id);
			if (wc->status != IBV_WC_SUCCESS) {
				rs_failed(rs, wc);
			} else if (wc->wr_id & WR_RECEIVE) {
				received++;
				message_arrived(rs,
					rs->is_iwarp ? rs->received[(uint32_t)wc->wr_id]
						     : ntohl(wc->imm_data));
			}
		}
		if (received && rs->state == RS_CONNECTED && receives_post(rs, received))
			rs_fail(rs, ENOMEM);
	} while (count == TAKE_BATCH);
}

void rs_completions_arm(struct rs *rs)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(rs->completions, &cq, &context) == 0)
		if (++rs->unacknowledged_events == 64) {
			ibv_ack_cq_events(rs->cq, rs->unacknowledged_events);
			rs->unacknowledged_events = 0;
		}
	ibv_req_notify_cq(rs->cq, 0);
}

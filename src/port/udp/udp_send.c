/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/arith.h"
#include "port/udp/udp_internal.h"
#include "wire/bth.h"

uint8_t *port_udp_buffer(struct port_udp *port, uint32_t *ret_capacity_bytes)
{
	uint32_t left = PORT_UDP_STAGE_BYTES - port->stage_used_bytes;

	if (port_udp_is_blocked(port) ||
		port->staged_end > PORT_UDP_STAGE_PACKETS - PORT_UDP_RUN_PACKETS_MAX ||
		left <= ROCE_ICRC_BYTES)
		*ret_capacity_bytes = 0;
	else
		*ret_capacity_bytes = min_u32(left - ROCE_ICRC_BYTES, PORT_UDP_PACKET_BYTES_MAX);
	return port->stage + port->stage_used_bytes;
}

void port_udp_stage(struct port_udp *port, uint32_t path, uint32_t bytes)
{
	port_udp_stage_run(port, bytes, &(struct packet_run){.path = path, .packets = 1});
}

/*
 * Reserves room for all bytes of the run. The packets' own bytes, which are not borrowed, lie one
 * behind the other at the start of that room. If packets have to wait, borrowed_copy() spreads them
 * over the room.
 */
void port_udp_stage_run(struct port_udp *port, uint32_t bytes, const struct packet_run *run)
{
	uint32_t offset = port->stage_used_bytes, packets = run->packets;
	struct udp_path *to = udp_path_find(port, run->path);
	const uint8_t *borrowed = run->borrowed;

	assert(!port_udp_is_blocked(port) && packets >= 1 && packets <= PORT_UDP_RUN_PACKETS_MAX &&
		port->staged_end + packets <= PORT_UDP_STAGE_PACKETS);
	assert(bytes >= BTH_BYTES && bytes <= PORT_UDP_PACKET_BYTES_MAX &&
		packets * (bytes + ROCE_ICRC_BYTES) <=
			PORT_UDP_STAGE_BYTES - port->stage_used_bytes);
	assert(bytes >= BTH_BYTES + run->borrowed_bytes);
	if (!to) {
		port->counters->tx_path_closed += packets;
		return;
	}
	if (port->impairments) {
		udp_impair_stage(port, to, bytes, run);
		return;
	}
	for (uint32_t i = 0; i < packets; i++) {
		port->staged[port->staged_end++] = (struct udp_staged){
			.path = to,
			.offset = offset,
			.bytes = bytes,
			.borrowed = borrowed,
			.borrowed_bytes = run->borrowed_bytes,
			.whole_offset = port->stage_used_bytes,
		};
		offset += bytes - run->borrowed_bytes + ROCE_ICRC_BYTES;
		borrowed = borrowed ? borrowed + run->borrowed_bytes : NULL;
		port->stage_used_bytes += bytes + ROCE_ICRC_BYTES;
	}
}

bool udp_is_for_same_slot(
	const struct port_udp *port, const struct udp_staged *a, const struct udp_staged *b)
{
	return !a->path->settings.is_shared ||
		port->stage[a->offset + UDP_SLOT_OFFSET] ==
		port->stage[b->offset + UDP_SLOT_OFFSET];
}

uint32_t udp_run_length(const struct port_udp *port, uint32_t first)
{
	const struct udp_staged *head = &port->staged[first];
	uint32_t total_bytes = head->bytes + ROCE_ICRC_BYTES;
	uint32_t count = 1;

	if (!head->path->can_segment)
		return 1;
	while (count < UDP_SEGMENTS_MAX && first + count < port->staged_end) {
		const struct udp_staged *next = &port->staged[first + count];

		if (next->path != head->path || next->bytes > head->bytes ||
			!udp_is_for_same_slot(port, head, next))
			break;
		total_bytes += next->bytes + ROCE_ICRC_BYTES;
		if (total_bytes > UDP_SUPER_BYTES_MAX)
			break;
		count++;
		if (next->bytes < head->bytes)
			break;
	}
	return count;
}

/* The length of `count` staged packets of a super-packet, with their ICRCs. */
static uint32_t run_bytes(const struct port_udp *port, uint32_t first, uint32_t count)
{
	const struct udp_staged *head = &port->staged[first];
	const struct udp_staged *last = &port->staged[first + count - 1];

	return (count - 1) * (head->bytes + ROCE_ICRC_BYTES) + last->bytes + ROCE_ICRC_BYTES;
}

static void piece_add(struct port_udp *port, const void *bytes, size_t count)
{
	if (count == 0)
		return;
	port->out_iov[port->out_piece_count++] =
		(struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
}

/*
 * Make the pieces (iovec) of a message. Adjacent bytes of the stage are one piece. Each borrowed
 * payload is one piece.
 */
static void pieces_make(struct port_udp *port, const struct udp_staged *head, uint32_t count)
{
	uint32_t from = head->offset, end = from;

	for (uint32_t i = 0; i < count; i++) {
		if (head[i].offset != end) {
			piece_add(port, port->stage + from, end - from);
			from = head[i].offset;
		}
		end = head[i].offset + head[i].bytes - head[i].borrowed_bytes;
		if (head[i].borrowed) {
			piece_add(port, port->stage + from, end - from);
			piece_add(port, head[i].borrowed, head[i].borrowed_bytes);
			from = end;
		}
		end += ROCE_ICRC_BYTES;
	}
	piece_add(port, port->stage + from, end - from);
}

/* Set the destination and the segment size of a message that the path's UDP socket sends. */
static void address_to_peer(struct udp_message *message, struct udp_path *path,
	uint32_t segment_bytes, struct msghdr *header)
{
	size_t control_bytes = path->control_bytes;

	memcpy(&message->control, &path->control, control_bytes);
	if (segment_bytes) {
		uint16_t segment = (uint16_t)segment_bytes;

		control_bytes = udp_control_append(&message->control, control_bytes, SOL_UDP,
			UDP_SEGMENT, &segment, sizeof(segment));
	}
	header->msg_name = &path->remote;
	header->msg_namelen = path->remote_bytes;
	header->msg_control = control_bytes > 0 ? &message->control : NULL;
	header->msg_controllen = control_bytes;
}

/*
 * Write the ICRCs of the packets of a super-packet. Their IPv4 identifications, which the kernel
 * sets, are 0, 1, 2 ... Seal the last packet first: the packets that the kernel copies first are
 * then still in the L1 cache.
 */
static void packets_seal(struct port_udp *port, const struct udp_staged *head, uint32_t count)
{
	const struct icrc_flow *flow = &head->path->icrc;

	for (uint32_t i = count; i-- > 0;)
		icrc_seal_borrowed(flow, &port->lengths, (uint16_t)i, port->stage + head[i].offset,
			head[i].bytes, head[i].borrowed, head[i].borrowed_bytes);
}

/* Make message `index` of the batch from `count` staged packets, and write their ICRCs. */
static void message_make(
	struct port_udp *port, unsigned index, uint32_t first, uint32_t count, bool is_frame)
{
	const struct udp_staged *head = &port->staged[first];
	struct udp_message *message = &port->out_message[index];
	struct msghdr *header = &port->out[index].msg_hdr;
	uint32_t segment_bytes = count > 1 ? head->bytes + ROCE_ICRC_BYTES : 0;

	message->bytes = run_bytes(port, first, count);
	*header = (struct msghdr){.msg_iov = &port->out_iov[port->out_piece_count]};
	packets_seal(port, head, count);
	if (is_frame)
		piece_add(port, message->headers,
			udp_bypass_headers_make(
				head->path, message->bytes, segment_bytes, message->headers));
	else
		address_to_peer(message, head->path, segment_bytes, header);
	pieces_make(port, head, count);
	header->msg_iovlen = (size_t)(&port->out_iov[port->out_piece_count] - header->msg_iov);
	port->out_packets[index] = count;
}

/*
 * The bypass that sends the message of `count` staged packets; NULL: the path's UDP socket sends
 * it. If a message too long for the bypass follows a short one, the UDP socket sends both, because
 * they must stay in order: the short message may acknowledge a request whose answer is the long
 * message. On an interface with several queues, bypass and UDP socket may use different queues.
 */
static struct udp_bypass *way_of(
	const struct port_udp *port, uint32_t first, uint32_t count, uint64_t now_ms)
{
	const struct udp_path *path = port->staged[first].path;
	uint32_t next = first + count, bytes = run_bytes(port, first, count);

	if (next < port->staged_end && port->staged[next].path == path)
		bytes = max_u32(bytes, run_bytes(port, next, udp_run_length(port, next)));
	return udp_bypass_of(port, path, bytes, now_ms);
}

/*
 * Make as many messages as one system call can send through *ret_bypass or, if that is NULL,
 * through the UDP socket of the first path. Returns the number of messages, at least one.
 */
static unsigned batch_make(struct port_udp *port, uint64_t now_ms, struct udp_bypass **ret_bypass)
{
	const struct udp_sender *sender = port->staged[port->staged_first].path->sender;
	uint32_t next = port->staged_first;
	unsigned count = 0;

	*ret_bypass = NULL;
	port->out_piece_count = 0;
	while (count < UDP_SEND_BATCH && next < port->staged_end &&
		port->out_piece_count <= UDP_SEND_PIECES - (3 * UDP_SEGMENTS_MAX + 2)) {
		const struct udp_path *path = port->staged[next].path;

		if (!path)
			break;
		udp_tail_arrange(port, next);
		uint32_t packets = udp_run_length(port, next);
		struct udp_bypass *bypass = way_of(port, next, packets, now_ms);
		if (count == 0)
			*ret_bypass = bypass;
		else if (bypass != *ret_bypass || (!bypass && path->sender != sender))
			break;
		message_make(port, count, next, packets, bypass != NULL);
		next += packets;
		count++;
	}
	return count;
}

/* Account for the first `count` messages of the batch, which the kernel has taken. */
static void account_sent(struct port_udp *port, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint32_t packets = port->out_packets[i];

		port->counters->tx_datagrams++;
		port->counters->tx_packets += packets;
		port->counters->tx_bytes +=
			port->out_message[i].bytes - (uint64_t)packets * ROCE_ICRC_BYTES;
		port->staged_first += packets;
	}
}

uint64_t *udp_error_counter(struct port_udp_counters *counters, int error)
{
	switch (error) {
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case ENODEV:
	case EADDRNOTAVAIL:
		return &counters->tx_unreachable;
	case EPERM:
	case EACCES:
		return &counters->tx_refused;
	case EMSGSIZE:
		return &counters->tx_too_long;
	default:
		return &counters->tx_errors;
	}
}

/* The bypass refused the first message of the batch: let the path's UDP socket send it. */
static void handle_link_refusal(struct port_udp *port, int error)
{
	struct udp_path *path = port->staged[port->staged_first].path;

	if (error == EINTR)
		return;
	port->counters->tx_link_refused++;
	path->neighbour->heard_ms = 0;
	if (error == EINVAL || error == EMSGSIZE) {
		udp_neighbour_unref(path);
		path->neighbour = NULL;
	}
}

/*
 * The UDP socket refused the first message of the batch. Returns true when the caller continues
 * with the next batch, because the message was dropped or can be tried again at once; false when
 * the kernel may accept the message later.
 */
static bool handle_refusal(struct port_udp *port, int error)
{
	struct udp_path *path = port->staged[port->staged_first].path;
	uint32_t packets = port->out_packets[0];

	if (error == EAGAIN || error == ENOBUFS || error == ENOMEM)
		return false;
	if (error == EINTR)
		return true;
	if (error == EPERM || error == EACCES || error == ENOSYS)
		udp_refused(port, "sendmmsg", error);
	if (packets > 1 && (error == EIO || error == EINVAL || error == EMSGSIZE)) {
		/* The device lacks checksum offload (EIO), or has a limit: send single packets. */
		path->can_segment = false;
		port->counters->tx_segment_refused++;
		return true;
	}
	*udp_error_counter(port->counters, error) += packets;
	port->staged_first += packets;
	return true;
}

/* Send a batch. Returns false, with errno set, when the kernel takes no message now. */
static bool send_batch(struct port_udp *port, const struct udp_path *path, uint64_t now_ms)
{
	struct udp_bypass *bypass;
	unsigned count = batch_make(port, now_ms, &bypass);
	int sent = bypass && bypass->xdp
		? udp_xdp_send_batch(port, bypass->xdp, count)
		: udp_sendmmsg(bypass ? udp_bypass_fd(bypass) : path->sender->fd, port->out, count);

	if (sent > 0) {
		account_sent(port, (unsigned)sent);
		if (bypass)
			port->counters->tx_frames += (unsigned)sent;
		else if (path->neighbour)
			path->neighbour->routed_ms = now_ms;
		return true;
	}
	if (bypass) {
		handle_link_refusal(port, errno);
		return true;
	}
	return handle_refusal(port, errno);
}

/*
 * Copy the borrowed payloads of packets that have to wait into the stage, because they are borrowed
 * only until this flush returns. Copy the last packet first, because each packet moves towards the
 * end of the stage.
 */
static void borrowed_copy(struct port_udp *port)
{
	for (uint32_t i = port->staged_end; i-- > port->staged_first;) {
		struct udp_staged *staged = &port->staged[i];
		uint32_t own_bytes = staged->bytes - staged->borrowed_bytes;

		if (!staged->borrowed)
			continue;
		memmove(port->stage + staged->whole_offset, port->stage + staged->offset,
			own_bytes);
		memcpy(port->stage + staged->whole_offset + own_bytes, staged->borrowed,
			staged->borrowed_bytes);
		staged->offset = staged->whole_offset;
		staged->borrowed = NULL;
		staged->borrowed_bytes = 0;
	}
}

/*
 * The kernel has refused the batch with `error`. Returns whether the staged packets wait. If they
 * have waited for too long, they are dropped.
 */
static bool is_worth_waiting(struct port_udp *port, uint64_t now_ms, int error)
{
	if (!port->is_blocked) {
		port->counters->tx_blocked++;
		port->blocked_since_ms = now_ms;
		port->is_blocked = true;
	}
	if (now_ms - port->blocked_since_ms <= UDP_BLOCKED_MS_MAX)
		return true;
	udp_refused(port, "sendmmsg", error);
	port->counters->tx_errors += port->staged_end - port->staged_first;
	port->staged_first = port->staged_end;
	return false;
}

int port_udp_flush(struct port_udp *port)
{
	uint64_t now_ms = port->staged_first < port->staged_end ? udp_now_ms() : 0;
	bool has_progress = false;

	if (port->impairments)
		return udp_impair_flush(port);
	if (port->is_xdp_blocked)
		udp_xdp_retry(port);
	while (port->staged_first < port->staged_end) {
		const struct udp_path *path = port->staged[port->staged_first].path;

		if (!path) {
			port->staged_first++;
			continue;
		}
		if (send_batch(port, path, now_ms)) {
			has_progress = true;
			continue;
		}
		if (has_progress)
			port->blocked_since_ms = now_ms;
		if (is_worth_waiting(port, now_ms, errno)) {
			borrowed_copy(port);
			return -EAGAIN;
		}
	}
	port->is_blocked = false;
	port->staged_first = 0;
	port->staged_end = 0;
	port->stage_used_bytes = 0;
	return port->is_xdp_blocked ? -EAGAIN : 0;
}

const struct port_udp_refusal *port_udp_refusal(const struct port_udp *port)
{
	return &port->refusal;
}

bool port_udp_is_blocked(const struct port_udp *port)
{
	return port->is_blocked || port->is_xdp_blocked ||
		(port->impairments && udp_impair_is_full(port));
}

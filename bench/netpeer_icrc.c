/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP stream with the minimum of RoCEv2: each packet has a BTH and an ICRC. The sender does not
 * copy the payload to compute the ICRC. The receiver checks the ICRC, then copies the payload to
 * its place. Acknowledgements come back. There are no queues, keys or retransmissions. So an
 * implementation of RoCEv2 on sockets, with the same ICRC code, cannot have a higher rate.
 *
 * The ICRC is urnic's. It covers IP and UDP headers, too; both ends use the same values for these,
 * which do not affect the time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "netpeer.h"
#include "netpeer_udp.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

enum {
	FRAME_BYTES = BTH_BYTES + ROCE_ICRC_BYTES, /* bytes of a packet besides its payload */
	/*
	 * The memory from which the sender sends again and again, and which the receiver fills. It
	 * is as long as a message of bench/run.
	 */
	MEMORY_BYTES = 1 << 20,
	BUNDLES = 2, /* per system call; the caches do not have room for more */
	ACK_BYTES = BTH_BYTES + 4, /* with an AETH */
	ACK_INTERVAL_BYTES = 128 << 10,
	SPIN_NS = 30000, /* how long a receiver polls before it sleeps, as in urnic */
};

struct stream {
	int fd;
	/* The payload of a packet. Packet n has place n % places in `memory`, on both sides. */
	uint32_t payload_bytes;
	uint32_t places; /* a power of two */
	uint8_t *memory;
	struct icrc_flow flow;
	struct icrc_lengths lengths;
};

static void stream_open(struct stream *stream, const struct job *job, int control_fd)
{
	static const uint8_t address[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};

	stream->payload_bytes = job->packet_bytes - FRAME_BYTES;
	stream->places = 1;
	while (2 * stream->places * stream->payload_bytes <= MEMORY_BYTES)
		stream->places *= 2;
	stream->memory = make_buffer(MEMORY_BYTES);
	icrc_flow_init(&stream->flow, address, address, ROCE_SOURCE_PORT_MIN, ROCE_UDP_PORT);
	stream->fd = open_beside(control_fd);
}

static uint8_t *place_of(const struct stream *stream, uint32_t psn)
{
	return stream->memory + (size_t)(psn % stream->places) * stream->payload_bytes;
}

static void header_make(uint8_t *to, enum opcode opcode, uint32_t psn)
{
	const struct bth bth = {.opcode = (uint8_t)opcode,
		.pkey = BTH_PKEY_DEFAULT,
		.psn = psn_from(psn & U24_MASK)};

	bth_encode(&bth, to);
}

/* --- receiving --- */

struct received {
	struct tally tally;
	uint32_t next_psn;
	uint64_t unacknowledged_bytes;
};

/* Check the packets of a bundle, and copy valid payload to its place. */
static void take_bundle(
	struct stream *stream, const uint8_t *bundle, size_t bytes, struct received *received)
{
	const uint32_t length = BTH_BYTES + stream->payload_bytes;
	uint16_t id = 0;

	for (; bytes >= length + ROCE_ICRC_BYTES; bytes -= length + ROCE_ICRC_BYTES) {
		struct bth bth;

		bth_decode(&bth, bundle);
		if (icrc_verify_any_id(&stream->flow, &stream->lengths, id, bundle, length, &id)) {
			memcpy(place_of(stream, bth.psn.value), bundle + BTH_BYTES,
				stream->payload_bytes);
			received->next_psn = bth.psn.value + 1;
			received->tally.bytes += stream->payload_bytes;
			received->unacknowledged_bytes += stream->payload_bytes;
		}
		id++;
		bundle += length + ROCE_ICRC_BYTES;
	}
}

static void acknowledge(struct stream *stream, struct received *received)
{
	uint8_t ack[ACK_BYTES + ROCE_ICRC_BYTES] = {0};

	header_make(ack, OPCODE_RC_ACKNOWLEDGE, received->next_psn - 1);
	icrc_seal(&stream->flow, 0, ack, ACK_BYTES);
	/* The next acknowledgement replaces a lost one. */
	send(stream->fd, ack, sizeof(ack), MSG_DONTWAIT);
	received->unacknowledged_bytes = 0;
}

/* Receive bundles that have arrived, and acknowledge them. Returns false if there were none. */
static bool take_in(struct stream *stream, struct mmsghdr *batch, struct received *received)
{
	int count = recvmmsg(stream->fd, batch, BUNDLES, MSG_DONTWAIT, NULL);

	if (count < 0 && errno != EAGAIN && errno != EINTR)
		give_up("receive");
	for (int i = 0; i < count; i++)
		take_bundle(stream, batch[i].msg_hdr.msg_iov->iov_base, batch[i].msg_len, received);
	if (received->unacknowledged_bytes >= ACK_INTERVAL_BYTES)
		acknowledge(stream, received);
	return count > 0;
}

void udp_icrc_serve(const struct job *job, int control_fd)
{
	static struct stream stream;
	struct mmsghdr batch[BUNDLES] = {0};
	struct iovec parts[BUNDLES];
	struct received received = {.next_psn = 0};
	uint64_t start_ns = 0, last_ns = 0;

	for (int i = 0; i < BUNDLES; i++) {
		parts[i] = (struct iovec){make_buffer(BUNDLE_BYTES_MAX), BUNDLE_BYTES_MAX};
		batch[i].msg_hdr.msg_iov = &parts[i];
		batch[i].msg_hdr.msg_iovlen = 1;
	}
	stream_open(&stream, job, control_fd);
	merge_datagrams(stream.fd);
	for (;;) {
		if (take_in(&stream, batch, &received)) {
			last_ns = now_ns();
			if (start_ns == 0)
				start_ns = last_ns;
		} else if (now_ns() - last_ns > SPIN_NS &&
			!wait_for_datagram(stream.fd, control_fd)) {
			break;
		}
	}
	received.tally.duration_ns = last_ns - start_ns;
	send_all(control_fd, &received.tally, sizeof(received.tally));
	close(stream.fd);
}

/* --- sending --- */

/*
 * Take an acknowledgement, and set the number of packets that are still unacknowledged. Returns
 * whether there was one.
 */
static bool ack_take(struct stream *stream, uint32_t next_psn, uint32_t *outstanding)
{
	uint8_t ack[ACK_BYTES + ROCE_ICRC_BYTES];
	uint16_t id;
	struct bth bth;

	if (recv(stream->fd, ack, sizeof(ack), MSG_DONTWAIT) != sizeof(ack) ||
		!icrc_verify_any_id(&stream->flow, &stream->lengths, 0, ack, ACK_BYTES, &id))
		return false;
	bth_decode(&bth, ack);
	*outstanding = (next_psn - (bth.psn.value + 1)) & U24_MASK;
	return true;
}

/*
 * Wait until at most `window` packets are unacknowledged, and return their number. If that takes
 * longer than REPORT_TIMEOUT_MS, all of them count as lost, and the number is 0.
 */
static uint32_t wait_for_window(
	struct stream *stream, uint32_t next_psn, uint32_t outstanding, uint32_t window)
{
	uint64_t since_ns = outstanding > window ? now_ns() : 0;

	while (outstanding > window) {
		if (ack_take(stream, next_psn, &outstanding))
			continue;
		if (now_ns() - since_ns > REPORT_TIMEOUT_MS * 1000000ull)
			return 0;
	}
	return outstanding;
}

/*
 * Seal the packets of a burst from the last to the first, and send them. The kernel copies from the
 * first packet on, so it begins with the payload that is in L1 from the sealing. In `frames` the
 * ICRC of each packet precedes the header of the next one, so that one piece has both.
 */
static void send_packets(struct stream *stream, uint32_t psn, uint32_t count)
{
	uint8_t frames[SEGMENTS_MAX * FRAME_BYTES];
	struct iovec pieces[2 * SEGMENTS_MAX + 1];

	for (uint32_t i = count; i-- > 0;) {
		uint8_t *frame = frames + i * FRAME_BYTES;
		uint8_t *payload = place_of(stream, psn + i);

		header_make(frame, OPCODE_RC_WRITE_MIDDLE, psn + i);
		icrc_seal_borrowed(&stream->flow, &stream->lengths, (uint16_t)i, frame,
			BTH_BYTES + stream->payload_bytes, payload, stream->payload_bytes);
		pieces[2 * i] = i ? (struct iovec){frame - ROCE_ICRC_BYTES, FRAME_BYTES}
				  : (struct iovec){frame, BTH_BYTES};
		pieces[2 * i + 1] = (struct iovec){payload, stream->payload_bytes};
	}
	pieces[2 * count] =
		(struct iovec){frames + count * FRAME_BYTES - ROCE_ICRC_BYTES, ROCE_ICRC_BYTES};
	send_burst(stream->fd, pieces, 2 * count + 1, stream->payload_bytes + FRAME_BYTES);
}

void udp_icrc_run(const struct job *job, int control_fd)
{
	static struct stream stream;
	uint32_t segments = BURST_BYTES_MAX / job->packet_bytes;
	uint32_t window = job->window_bytes / job->packet_bytes;
	uint32_t psn = 0, outstanding = 0;
	uint64_t sent_bytes = 0, end_ns;
	struct tally tally;

	if (segments > SEGMENTS_MAX)
		segments = SEGMENTS_MAX;
	stream_open(&stream, job, control_fd);
	end_ns = now_ns() + job->duration_ms * 1000000ull;
	while (now_ns() < end_ns) {
		if (window > 0)
			outstanding = wait_for_window(&stream, psn, outstanding, window);
		send_packets(&stream, psn, segments);
		psn += segments;
		outstanding += segments;
		sent_bytes += (uint64_t)segments * stream.payload_bytes;
	}
	send_all(control_fd, "", 1);
	receive_all(control_fd, &tally, sizeof(tally));
	close(stream.fd);
	print_bandwidth(tally);
	printf("lost_percent %.2f\n",
		100.0 * (double)(sent_bytes - tally.bytes) / (double)sent_bytes);
}

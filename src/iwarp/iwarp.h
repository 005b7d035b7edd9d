/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IWARP_IWARP_H
#define URNIC_IWARP_IWARP_H

/*
 * Reliable connections over a byte stream: RDMAP over DDP over MPA (RFC 5040, 5041, 5044, 7306).
 *
 * A queue pair of type QP_TYPE_IWARP has a stream. The worker carries the stream over TCP, the
 * simulator over a model of TCP; both are called the carrier here. The connection manager opens the
 * stream after MPA's request and reply. From then on the carrier moves bytes:
 *
 *     iwarp_offer()     where to receive the next bytes
 *     iwarp_received()  how many bytes were received
 *     iwarp_output()    which bytes to send
 *     iwarp_sent()      how many bytes the carrier has taken
 *     iwarp_ended()     no more bytes will arrive
 *     iwarp_wish()      whether to keep, end or close the stream
 *
 * Sending. Requests and READ responses become FPDUs; whole messages of both kinds alternate. With
 * CRCs or markers, FPDUs are staged in a buffer of the queue pair. This copies bytes out of the
 * program's memory once, so the CRC is right even if the program changes memory that a peer reads.
 * Otherwise a long payload is zero-copy: it stays in the program's memory until the carrier takes
 * it. A request without a response is done when the carrier has taken its last byte.
 *
 * Receiving. With CRCs or markers a FPDU is collected, checked, and then placed. Otherwise the
 * payload of a long segment goes straight to its destination once its header was checked. The last
 * bytes of the payload are placed last, for programs that poll them.
 *
 * The end. The queue pair goes to the error state because the program requests it, the peer has
 * ended the stream, or either side broke a rule. Staged bytes are sent, then a Terminate message if
 * a rule was broken. Then the stream is closed, which SIGNAL_QP_DISCONNECTED reports.
 *
 * Everything runs under the lane's lock. No peer can cause an allocation.
 */

#include <stdbool.h>

#include "qp/qp.h"
#include "wire/iwarp/mpa_frame.h"
#include "wire/iwarp/rdmap.h"

enum {
	IWARP_PAYLOAD_BYTES_MAX = 32768, /* the longest payload of a copied segment */
	/*
	 * The longest zero-copy payload, because a ULPDU may have at most 64,768 bytes (RFC 5044
	 * section 3).
	 */
	IWARP_ZEROCOPY_BYTES_MAX = 64704,
	/*
	 * A shorter payload is copied, because the copy is faster than passing one more piece to
	 * the kernel.
	 */
	IWARP_ZEROCOPY_BYTES_MIN = 4096,
	IWARP_TX_BATCH_BYTES = 65536, /* limit of copied bytes that are staged and not sent */
	/* Limit of all staged bytes, including zero-copy payloads. */
	IWARP_TX_ZEROCOPY_BYTES = 256 << 10,
	IWARP_TX_BYTES = IWARP_TX_BATCH_BYTES + 2 * FPDU_MARKED_BYTES_MAX,
	IWARP_PIECES_MAX = 32, /* limit of staged pieces; a power of two */
	IWARP_RX_BYTES = 2 * 65536,
	IWARP_SPANS_MAX = 2,
	/* A payload of at least this length is received at its destination. */
	IWARP_DIRECT_BYTES_MIN = 4096,
	IWARP_TAIL_BYTES = 64, /* the last bytes of a payload, which are placed after all others */
};

/*
 * IWARP_STALL_NS is how long a message, with all messages behind it, waits for a receive request
 * before the stream ends. Posting a receive request does not wake the stream: its lane looks for a
 * receive request every IWARP_STALL_LOOK_NS. RFC 5041 ends the stream at once. This stream waits,
 * because a receiver may read from TCP as late as it likes, and programs for InfiniBand sometimes
 * post receive requests a little late.
 */
#define IWARP_STALL_NS      1000000000ull
#define IWARP_STALL_LOOK_NS 100000ull

/*
 * How long a responder without the peer-to-peer mode waits for the initiator's first FPDU before it
 * sends a request. RFC 5044 section 7.1.2 has no limit. But siw as initiator does not request that
 * mode, so a server that speaks first would wait forever. The rule of the RFC protects an initiator
 * that is not yet in full operation. After IWARP_HOLD_NS the initiator is assumed to be in full
 * operation.
 */
#define IWARP_HOLD_NS 100000000ull

/* How long the stream waits for the peer to end its half. */
#define IWARP_CLOSE_NS 2000000000ull

enum iwarp_stream {
	IWARP_STREAM_NONE, /* never opened, or reset */
	IWARP_STREAM_OPEN,
	IWARP_STREAM_ENDING, /* staged bytes are sent; received bytes are discarded */
	IWARP_STREAM_ENDED, /* this end has closed its half; the peer has not */
	IWARP_STREAM_OVER,
};

/* What the queue pair requests the carrier to do with the stream. */
enum iwarp_wish {
	IWARP_KEEP,
	IWARP_END, /* close this end's half behind the sent bytes, and keep receiving */
	IWARP_CLOSE, /* close both halves */
};

/* The result of MPA's request and reply. */
struct iwarp_settings {
	bool has_crc;
	bool sends_markers;
	bool receives_markers;
	bool is_initiator;
	uint32_t ready; /* enum mpa_ready: the initiator's first message; 0: none */
	/* The most READs and atomics that this end serves at once; 0 to QP_RD_ATOMIC_MAX */
	uint32_t ird;
	uint32_t ord; /* the most READs and atomics that this end has outstanding */
};

/* Room for received bytes. */
struct iwarp_span {
	uint8_t *at;
	uint32_t bytes;
};

struct iwarp_part {
	const uint8_t *at;
	uint32_t bytes;
};

/* A READ or atomic request of the peer that is not answered yet. */
struct iwarp_pending {
	enum rdmap_opcode opcode;
	struct rdmap_read_request read;
	/* The response to an atomic, which was executed already */
	struct rdmap_atomic_response atomic;
};

/*
 * A staged piece of the stream: bytes in the queue pair's buffer, or program memory that a key
 * names.
 */
struct iwarp_piece {
	enum {
		IWARP_OWN, /* a copy in iwarp_transmit.bytes, from offset `at` on */
		/* Like IWARP_OWN, but a copy of all bytes of a FPDU before its zero-copy payload */
		IWARP_OWN_HEADER,
		IWARP_ZEROCOPY, /* zero-copy payload of a SEND or WRITE */
		IWARP_ZEROCOPY_READ, /* zero-copy payload of a READ response */
	} kind;
	uint32_t bytes; /* at least 1 */
	uint32_t key;
	uint64_t at; /* offset in iwarp_transmit.bytes, or the address that goes with `key` */
};

struct iwarp_transmit {
	struct iwarp_piece pieces[IWARP_PIECES_MAX]; /* a ring */
	uint32_t first_piece, piece_count;
	bool is_first_begun; /* the carrier has taken some bytes of the first piece */
	/*
	 * The stream ends within a FPDU, because the memory of the FPDU's zero-copy payload is no
	 * longer valid.
	 */
	bool is_cut;
	uint32_t tail; /* offset in bytes[] where the next bytes are staged */
	uint32_t staged_bytes; /* number of bytes of all pieces together */
	uint64_t position; /* offset in the stream behind all pieces */
	uint32_t index; /* index of the send request that is staged next, or partly staged */
	/* Number of staged bytes of request `index`, which is the MO of its next segment */
	uint32_t message_offset;
	bool is_in_message; /* a message of the send queue is partly staged, so answers wait */
	bool is_imm_due; /* the WRITE is staged, its immediate data is not */
	bool is_held; /* the responder sends no request before the initiator's first FPDU */
	uint64_t hold_end_ns; /* is_held ends at this time at the latest; 0: no limit */
	/* This end is the initiator, and has to send its ready message before anything else */
	bool is_ready_pending;
	bool is_turn_of_answers;
	uint32_t msn[DDP_QUEUE_COUNT]; /* MSN of the next message */
	uint32_t answers_out; /* number of outstanding READs and atomics */
	/* Why the request at `index` cannot be staged; it fails when it is the oldest */
	enum fault fault;
	struct mr_cached own; /* cached key of the program's SENDs and WRITEs */
	struct iwarp_pending pending[QP_RD_ATOMIC_MAX]; /* a ring */
	uint32_t pending_first, pending_count;
	uint32_t pending_offset; /* staged bytes of the response to the first pending request */
	uint8_t bytes[IWARP_TX_BYTES];
};

struct iwarp_receive {
	uint32_t start, end; /* bytes[start] to bytes[end - 1] are yet to be processed */
	uint32_t direct_bytes; /* bytes of the last offer that are outside of bytes[] */
	/*
	 * With markers: the position in the stream of the FPDU at `start`; if is_checked, the
	 * position of the FPDU behind it.
	 */
	uint64_t position;
	/* The FPDU at `start` is complete, with a good CRC, and its markers are removed. */
	bool is_checked;
	bool has_segment; /* the header of `segment` was checked, and removed from bytes[] */
	struct ddp_segment segment;
	uint32_t placed_bytes; /* bytes of the segment's payload that are at their destination */
	uint32_t trailer_bytes; /* length of the pad and CRC behind the payload */
	/* The next message waits for a receive request until this time; 0: no message waits. */
	uint64_t stall_end_ns;
	uint64_t stall_look_ns; /* when to look for a receive request again */
	bool is_ready_awaited; /* the next FPDU is the initiator's first */
	/* This initiator's ready message was a READ, whose empty response has not arrived. */
	bool is_ready_answer_awaited;
	uint32_t msn[DDP_QUEUE_COUNT]; /* MSN of the next message, or of the incomplete one */
	struct mr_cached remote; /* cached key of the peer's WRITEs */
	struct mr_cached local; /* cached key of receive requests */
	bool has_receive; /* `receive` was taken */
	struct recv_wqe receive;
	enum fault receive_fault; /* the fault of `receive` if its message fails */
	enum rdmap_opcode send_opcode; /* opcode of the message in `receive` */
	uint32_t send_bytes; /* received bytes of that message */
	/* Bytes of WRITE segments since the last message with immediate data. */
	uint32_t write_bytes;
	/* Index of the oldest READ or atomic without an answer, if there is one. */
	uint32_t answer_index;
	uint32_t answer_bytes; /* received bytes of a READ's response */
	uint8_t bytes[IWARP_RX_BYTES];
};

struct iwarp_qp {
	struct qp qp;
	enum iwarp_stream stream;
	struct iwarp_settings settings;
	bool is_peer_ended;
	void *carrier; /* carries the bytes (struct worker_stream); belongs to the worker */
	struct iwarp_transmit tx;
	struct iwarp_receive rx;
};

extern const struct qp_transport iwarp_transport;

static inline struct iwarp_qp *iwarp_from_qp(struct qp *qp)
{
	return container_of(qp, struct iwarp_qp, qp);
}

/*
 * Give a queue pair in INIT its stream: the queue pair goes to RTS. Returns 0; -EINVAL in another
 * state, or when it had a stream since its last reset.
 */
int iwarp_open(struct iwarp_qp *iwarp, const struct iwarp_settings *settings, uint64_t now_ns);

/*
 * Where to receive bytes.
 *
 * `spans`  Room for IWARP_SPANS_MAX. The caller fills the spans in order before it unlocks the
 *          lane, because the access to program memory among them is approved only until then.
 *
 * Returns the number of spans; 0 when the queue pair takes no more bytes now.
 */
unsigned iwarp_offer(struct iwarp_qp *iwarp, struct iwarp_span spans[IWARP_SPANS_MAX]);

/*
 * iwarp_offer() of a single span, IWARP_RX_BYTES at the returned address. Returns NULL when the
 * stream takes no bytes now, or when a segment is incomplete.
 */
static inline uint8_t *iwarp_offer_buffer(struct iwarp_qp *iwarp)
{
	struct iwarp_receive *rx = &iwarp->rx;

	if (iwarp->stream != IWARP_STREAM_OPEN || iwarp->is_peer_ended | rx->has_segment ||
		rx->start != rx->end || rx->stall_end_ns)
		return NULL;
	rx->start = 0;
	rx->end = 0;
	rx->direct_bytes = 0;
	return rx->bytes;
}

/* The first `bytes` bytes of the last offer, at least 1, were received. */
void iwarp_received(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns);

/*
 * Does a message wait for a receive request? Meanwhile iwarp_offer() offers nothing. iwarp_resume()
 * looks for a receive request again. The stream's deadline calls iwarp_resume(), and the carrier
 * may call it earlier. A program that posts a receive request does not wake the stream.
 */
static inline bool iwarp_is_stalled(const struct iwarp_qp *iwarp)
{
	return iwarp->rx.stall_end_ns != 0;
}
void iwarp_resume(struct iwarp_qp *iwarp, uint64_t now_ns);

/* No more bytes will arrive. `is_lost` says that no bytes can be sent either. */
void iwarp_ended(struct iwarp_qp *iwarp, bool is_lost, uint64_t now_ns);

/*
 * The bytes to be sent next, in order; there may be more behind them.
 *
 * `parts`  Room for IWARP_PIECES_MAX. The caller sends the parts before it unlocks the lane: the
 *          access to program memory among them is approved only until then.
 *
 * Returns the number of parts, none of them empty; 0 when there is nothing to send now.
 */
unsigned iwarp_output(
	struct iwarp_qp *iwarp, struct iwarp_part parts[IWARP_PIECES_MAX], uint64_t now_ns);

/*
 * iwarp_output() for the case of a single small SEND or WRITE with nothing else to send. Returns
 * the bytes of that request's FPDU. Otherwise returns NULL and does nothing.
 */
const uint8_t *iwarp_output_fast(struct iwarp_qp *iwarp, uint32_t *ret_bytes);

/* The carrier has taken the first `bytes` bytes of the last output. */
void iwarp_sent(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns);

/*
 * What to do with the stream. The carrier calls this after each of the calls above. After IWARP_END
 * the carrier closes this end's half once, and calls iwarp_half_closed().
 */
enum iwarp_wish iwarp_wish(const struct iwarp_qp *iwarp);
void iwarp_half_closed(struct iwarp_qp *iwarp, uint64_t now_ns);

/*
 * The next queue pair of this lane that has something to send, or NULL. The queue pair stays on the
 * list until iwarp_unschedule().
 */
static inline struct iwarp_qp *iwarp_first(struct lane *lane)
{
	return list_is_empty(&lane->tx_streams)
		? NULL
		: list_first(&lane->tx_streams, struct iwarp_qp, qp.tx_link);
}
void iwarp_unschedule(struct iwarp_qp *iwarp);

/*
 * Put the queue pair on the list. The carrier calls this when it takes bytes of the stream again.
 */
void iwarp_schedule(struct iwarp_qp *iwarp);

#endif

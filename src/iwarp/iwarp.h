/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IWARP_IWARP_H
#define URNIC_IWARP_IWARP_H

/*
 * Reliable connections over a byte stream: RDMAP over DDP over MPA (RFC 5040, 5041, 5044, 7306).
 *
 * A queue pair of type QP_TYPE_IWARP has a stream. The worker carries it over TCP, the simulator
 * over a model of TCP. The connection manager opens it after MPA's request and reply. From then on
 * the holder of the lane's lock moves bytes:
 *
 *     iwarp_offer()     where to receive the next bytes
 *     iwarp_received()  how many bytes were received
 *     iwarp_output()    which bytes to send
 *     iwarp_sent()      how many bytes the carrier has taken
 *     iwarp_ended()     no more bytes will arrive
 *     iwarp_wish()      whether to keep, end or close the stream
 *
 * Sending. Requests and READ responses become FPDUs; whole messages alternate. With CRCs or markers
 * they are staged in a buffer of the queue pair. This copies bytes out of the program's memory
 * once, so the CRC is right even if the program changes memory that a peer reads. Otherwise a long
 * payload is zero-copy: it stays in the program's memory until the carrier takes it. A request
 * without a response is done when the carrier has taken its last byte.
 *
 * Receiving. With CRCs or markers a FPDU is collected, checked, and then placed. Otherwise the
 * payload of a long segment goes straight to its destination once its header was checked. Its last
 * bytes are placed last, for programs that poll them.
 *
 * The end. The queue pair goes to the error state because the program requests it, the peer has
 * ended, or either side broke a rule. Staged bytes are sent, then a Terminate message if a rule was
 * broken. Then the stream is closed. SIGNAL_QP_DISCONNECTED reports that.
 *
 * Everything runs under the lane's lock. No peer can make it allocate.
 */

#include <stdbool.h>

#include "qp/qp.h"
#include "wire/iwarp/mpa_frame.h"
#include "wire/iwarp/rdmap.h"

enum {
	IWARP_PAYLOAD_BYTES_MAX = 32768, /* the longest payload of a copied segment */
	/*
	 * The longest zero-copy payload: the ULPDU has 64,768 bytes at most (RFC 5044 section 3).
	 */
	IWARP_ZEROCOPY_BYTES_MAX = 64704,
	/* Copying fewer bytes is faster than passing the kernel more pieces. */
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
 * How long a message, with all messages behind it, waits for a receive request before the stream
 * ends, and how often to look. RFC 5041 ends the stream at once. But a receiver may read from TCP
 * as late as it likes, and programs that were written for InfiniBand post a little late at times.
 */
#define IWARP_STALL_NS      1000000000ull
#define IWARP_STALL_LOOK_NS 100000ull

/*
 * How long a responder without the peer-to-peer mode waits for the initiator's first FPDU before it
 * sends a request. RFC 5044 section 7.1.2 has no limit. But siw as initiator does not request that
 * mode, and a server that speaks first would wait for ever. The rule of the RFC protects an
 * initiator that is not yet in full operation; after IWARP_HOLD_NS an initiator is.
 */
#define IWARP_HOLD_NS 100000000ull

/* How long a peer may take to end its half of the stream. */
#define IWARP_CLOSE_NS 2000000000ull

enum iwarp_stream {
	IWARP_STREAM_NONE, /* never opened, or reset */
	IWARP_STREAM_OPEN,
	IWARP_STREAM_ENDING, /* staged bytes are sent; received bytes are discarded */
	IWARP_STREAM_ENDED, /* our half is closed; the peer's is not */
	IWARP_STREAM_OVER,
};

/* The queue pair's request about its stream. */
enum iwarp_wish {
	IWARP_KEEP,
	IWARP_END, /* close our half, behind the sent bytes; keep receiving */
	IWARP_CLOSE, /* close both halves */
};

/* The result of MPA's request and reply. */
struct iwarp_settings {
	bool has_crc;
	bool sends_markers;
	bool receives_markers;
	bool is_initiator;
	uint32_t ready; /* enum mpa_ready: the initiator's first message; 0: none */
	uint32_t ird; /* READs and atomics that we serve at once; 0 to QP_RD_ATOMIC_MAX */
	uint32_t ord; /* READs and atomics that we have outstanding */
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
	struct rdmap_atomic_response atomic; /* executed already */
};

/* A staged piece of the stream: bytes in the queue pair's buffer, or memory that a key names. */
struct iwarp_piece {
	enum {
		IWARP_OWN, /* a copy in iwarp_transmit.bytes, from offset `at` on */
		IWARP_OWN_HEADER, /* such a copy: all of a FPDU before its zero-copy payload */
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
	/* The stream ends within a FPDU: the memory of its zero-copy payload has gone. */
	bool is_cut;
	uint32_t tail; /* offset in bytes[] where the next bytes are staged */
	uint32_t staged_bytes; /* bytes of all pieces together */
	uint64_t position; /* offset in the stream behind all pieces */
	uint32_t index; /* index of the send request that is staged next, or partly staged */
	uint32_t message_offset; /* staged bytes of request `index`: the MO of its next segment */
	bool is_in_message; /* a message of the send queue is partly staged: answers wait */
	bool is_imm_due; /* the WRITE is staged, its immediate data is not */
	bool is_held; /* the responder sends no request before the initiator's first FPDU */
	uint64_t hold_end_ns; /* is_held ends at this time at the latest; 0: no limit */
	bool is_ready_pending; /* the initiator has to send its ready message before all else */
	bool is_turn_of_answers;
	uint32_t msn[DDP_QUEUE_COUNT]; /* MSN of the next message */
	uint32_t answers_out; /* outstanding READs and atomics */
	enum fault fault; /* why the request at `index` cannot be staged; it fails in its turn */
	struct mr_cached own; /* cached key of the program's SENDs and WRITEs */
	struct iwarp_pending pending[QP_RD_ATOMIC_MAX]; /* a ring */
	uint32_t pending_first, pending_count;
	uint32_t pending_offset; /* staged bytes of the response to the first pending request */
	uint8_t bytes[IWARP_TX_BYTES];
};

struct iwarp_receive {
	uint32_t start, end; /* bytes[start .. end) are to be processed */
	uint32_t direct_bytes; /* bytes of the last offer that are outside of bytes[] */
	/*
	 * With markers: place in the stream of the FPDU at `start`, or if is_checked, of the next
	 * FPDU.
	 */
	uint64_t position;
	/* The FPDU at `start` is complete, with a good CRC, and its markers are removed. */
	bool is_checked;
	bool has_segment; /* the header of `segment` was checked, and removed from bytes[] */
	struct ddp_segment segment;
	uint32_t placed_bytes; /* bytes of the segment's payload that are at their destination */
	uint32_t trailer_bytes; /* pad and CRC */
	/* The next message waits for a receive request until then; 0: it does not. */
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
 * `spans`  Room for IWARP_SPANS_MAX; to be filled in order, at once: program memory among them is
 *          approved until the lane is unlocked.
 *
 * Returns the number of spans; 0 when the queue pair takes no more bytes now.
 */
unsigned iwarp_offer(struct iwarp_qp *iwarp, struct iwarp_span spans[IWARP_SPANS_MAX]);

/* iwarp_offer() between segments: IWARP_RX_BYTES in one span. NULL when a segment is incomplete. */
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
 * Does a message wait for a receive request? Nothing is offered then; iwarp_resume() looks again.
 */
static inline bool iwarp_is_stalled(const struct iwarp_qp *iwarp)
{
	return iwarp->rx.stall_end_ns != 0;
}
void iwarp_resume(struct iwarp_qp *iwarp, uint64_t now_ns);

/* No more bytes will arrive. `is_lost`: nor can bytes be sent. */
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
 * its bytes. Otherwise returns NULL and does nothing.
 */
const uint8_t *iwarp_output_fast(struct iwarp_qp *iwarp, uint32_t *ret_bytes);

/* The carrier has taken the first `bytes` bytes of the last output. */
void iwarp_sent(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns);

/*
 * What to do with the stream. The carrier calls this after each of the calls above. After IWARP_END
 * the carrier closes our half once, and calls iwarp_half_closed().
 */
enum iwarp_wish iwarp_wish(const struct iwarp_qp *iwarp);
void iwarp_half_closed(struct iwarp_qp *iwarp, uint64_t now_ns);

/*
 * The next queue pair of this lane to send, or NULL. It stays on the list until iwarp_unschedule().
 */
static inline struct iwarp_qp *iwarp_first(struct lane *lane)
{
	return list_is_empty(&lane->tx_streams)
		? NULL
		: list_first(&lane->tx_streams, struct iwarp_qp, qp.tx_link);
}
void iwarp_unschedule(struct iwarp_qp *iwarp);

/* Put the queue pair back on the list: its stream takes bytes again. */
void iwarp_schedule(struct iwarp_qp *iwarp);

#endif

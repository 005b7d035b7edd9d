/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IWARP_IWARP_H
#define URNIC_IWARP_IWARP_H

/*
 * Reliable connections over a byte stream: RDMAP over DDP over MPA (RFC 5040, 5041, 5044, 7306).
 *
 * A queue pair of type QP_TYPE_IWARP has a stream, which the runtime carries over TCP and the
 * simulator over a model of it. The connection manager opens it (MPA's request and reply are behind
 * us then); from then on, whoever drives the lane moves bytes:
 *
 *     iwarp_offer()     where shall what comes next go?
 *     iwarp_received()  so much has come
 *     iwarp_output()    what is to be sent?
 *     iwarp_sent()      so much has been taken
 *     iwarp_ended()     nothing more will come
 *     iwarp_wish()      what shall become of the stream?
 *
 * Sending. Requests and READ responses become FPDUs, whole messages in turn. With CRCs, or markers,
 * they are staged in a buffer of the queue pair: bytes are copied out of the program's memory once,
 * so that the CRC is that of what is sent even if the program changes what a peer reads. Without, a
 * long payload is lent: it stays where it is until it is taken.
 *
 * A request that needs no answer is done when its last byte was taken.
 *
 * Receiving. With CRCs, or markers, a FPDU is collected, checked, and then placed. Without, the
 * payload of a long segment goes straight to where it belongs once its header was checked, its last
 * bytes excepted: those are placed last, for programs that watch them.
 *
 * The end. The queue pair goes to the error state because the program wants it, or the peer has
 * ended, or somebody broke a rule. What was staged goes out, and behind it, if a rule was broken, a
 * Terminate message; then the stream is closed. SIGNAL_QP_DISCONNECTED says that it is over.
 *
 * All of this runs under the lane's lock. A peer can make none of it allocate.
 */

#include <stdbool.h>

#include "qp/qp.h"
#include "wire/mpa_frame.h"
#include "wire/rdmap.h"

enum {
	IWARP_PAYLOAD_BYTES_MAX = 32768, /* of a segment that we send */
	/* The same, of one that is lent: the ULPDU has 64,768 at most (RFC 5044 section 3) */
	IWARP_LOAN_BYTES_MAX = 64704,
	IWARP_LOAN_BYTES_MIN =
		4096, /* less is copied more quickly than the kernel takes it in pieces */
	IWARP_TX_BATCH_BYTES = 65536, /* staged bytes after which no more are, until they went */
	IWARP_TX_LENT_BYTES = 256 << 10, /* the same, lent ones among them */
	IWARP_TX_BYTES = IWARP_TX_BATCH_BYTES + 2 * FPDU_MARKED_BYTES_MAX,
	IWARP_PIECES_MAX = 32, /* of what is staged: a power of two */
	IWARP_RX_BYTES = 2 * 65536,
	IWARP_SPANS_MAX = 2,
	IWARP_DIRECT_BYTES_MIN = 4096, /* payload that is worth a place of its own */
	IWARP_TAIL_BYTES = 64, /* of a payload, that are placed last */
};

/*
 * How long a message waits for a receive request, with all that is behind it, before the stream is
 * ended for it; and how often to look. RFC 5041 has only the end; but a receiver may be as slow as
 * it likes in taking bytes from TCP, and programs that were written for InfiniBand post a little
 * late at times.
 */
#define IWARP_STALL_NS      1000000000ull
#define IWARP_STALL_LOOK_NS 100000ull

/*
 * How long a responder that did not agree on the peer-to-peer mode waits for the initiator's first
 * FPDU before it sends a request of its own. RFC 5044 section 7.1.2 has it wait for ever; but siw
 * as initiator does not ask for that mode, and where the server speaks first nothing would ever
 * come. What the rule protects, the initiator on its way into full operation, has long got there.
 */
#define IWARP_HOLD_NS 100000000ull

/* How long a peer may take to end its half of the stream. */
#define IWARP_CLOSE_NS 2000000000ull

enum iwarp_stream {
	IWARP_STREAM_NONE, /* never opened, or forgotten by a reset */
	IWARP_STREAM_OPEN,
	IWARP_STREAM_ENDING, /* what is staged goes out; what comes in is thrown away */
	IWARP_STREAM_ENDED, /* all has gone out: our half is closed, the peer's is waited for */
	IWARP_STREAM_OVER,
};

/* What the queue pair wants to become of its stream. */
enum iwarp_wish {
	IWARP_KEEP,
	IWARP_END, /* close our half, behind what was sent; go on receiving */
	IWARP_CLOSE, /* close it all */
};

/* What MPA's request and reply agreed. */
struct iwarp_settings {
	bool has_crc;
	bool sends_markers;
	bool receives_markers;
	bool is_initiator;
	uint32_t ready; /* enum mpa_ready: what the initiator sends first; 0: nothing */
	uint32_t ird; /* READs and atomics that we serve at once; 0 to QP_RD_ATOMIC_MAX */
	uint32_t ord; /* that we have under way */
};

/* A place for received bytes. */
struct iwarp_span {
	uint8_t *at;
	uint32_t bytes;
};

/* Bytes to be sent. */
struct iwarp_part {
	const uint8_t *at;
	uint32_t bytes;
};

/* A READ or atomic request of the peer's that is not answered yet. */
struct iwarp_owed {
	enum rdmap_opcode opcode;
	struct rdmap_read_request read;
	struct rdmap_atomic_response atomic; /* executed already */
};

/* What is staged, in the order of the stream: bytes of ours, or of the memory that a key names. */
struct iwarp_piece {
	enum {
		IWARP_OWN, /* bytes[at ...] */
		IWARP_OWN_HEADER, /* the same: all of a FPDU before a payload that is lent */
		IWARP_LENT, /* of a SEND or WRITE */
		IWARP_LENT_READ, /* of what the peer reads */
	} kind;
	uint32_t bytes; /* at least 1 */
	uint32_t key;
	uint64_t at; /* or the address that goes with the key */
};

struct iwarp_transmit {
	struct iwarp_piece pieces[IWARP_PIECES_MAX]; /* a ring */
	uint32_t first_piece, piece_count;
	bool is_first_begun; /* some of the first piece was taken */
	bool is_cut; /* within a FPDU: memory that was lent has gone */
	uint32_t tail; /* of bytes[], where what is staged next goes */
	uint32_t staged_bytes; /* of all pieces */
	uint64_t position; /* in the stream, behind them */
	uint32_t index; /* the send request to be staged next, or in the middle of it */
	uint32_t message_offset; /* MO of its next segment: so many bytes of it are staged */
	bool is_in_message; /* of the send queue: nothing may come between its segments */
	bool is_imm_due; /* the WRITE is staged, its immediate data is not */
	bool is_held; /* the responder sends no request before the initiator's first FPDU */
	uint64_t hold_end_ns; /* or before this; 0: there is no such time */
	bool is_ready_owed; /* the initiator has to say so, before all else */
	bool is_turn_of_answers;
	uint32_t msn[DDP_QUEUE_COUNT]; /* MSN of the next message */
	uint32_t answers_out; /* READs and atomics without an answer */
	enum fault fault; /* what the request at `index` fails with when its turn comes */
	struct mr_cached own; /* of the keys that SENDs and WRITEs name */
	struct iwarp_owed owed[QP_RD_ATOMIC_MAX]; /* a ring */
	uint32_t owed_first, owed_count;
	uint32_t owed_offset; /* bytes of the first one's response that are staged */
	uint8_t bytes[IWARP_TX_BYTES];
};

struct iwarp_receive {
	uint32_t start, end; /* bytes[start .. end) wait */
	uint32_t direct_bytes; /* of the last offer, that were not bytes[] */
	/*
	 * With markers: in the stream, of the FPDU that begins at `start` or is behind the one that
	 * does
	 */
	uint64_t position;
	bool is_checked; /* the FPDU at `start` is whole, has a good CRC, and no markers any more */
	bool has_segment; /* its header was checked, and has been taken out of bytes[] */
	struct ddp_segment segment;
	uint32_t placed_bytes; /* of its payload */
	uint32_t trailer_bytes; /* pad and CRC behind it */
	/* The next message waits for a receive request until then; 0: it does not */
	uint64_t stall_end_ns;
	uint64_t stall_look_ns; /* when to look again */
	bool is_ready_awaited; /* the next FPDU is the initiator's first */
	/* An empty READ response answers an initiator that was ready with a READ */
	bool is_ready_answer_awaited;
	uint32_t msn[DDP_QUEUE_COUNT]; /* of the next message, or of the one under way */
	struct mr_cached remote; /* of the keys that the peer's WRITEs name */
	struct mr_cached local; /* that receive requests name */
	bool has_receive; /* `receive` was taken */
	struct recv_wqe receive;
	enum fault receive_fault; /* that it completes with if its message does not */
	enum rdmap_opcode send_opcode; /* of the message that `receive` is for */
	uint32_t send_bytes; /* of it, so far */
	uint32_t write_bytes; /* WRITE segments since the last message with immediate data */
	uint32_t answer_index; /* the oldest READ or atomic without an answer, if there is one */
	uint32_t answer_bytes; /* of a READ's response, so far */
	uint8_t bytes[IWARP_RX_BYTES];
};

struct iwarp_qp {
	struct qp qp;
	enum iwarp_stream stream;
	struct iwarp_settings settings;
	bool is_peer_ended;
	void *carrier; /* of the bytes: the runtime's */
	struct iwarp_transmit tx;
	struct iwarp_receive rx;
};

extern const struct qp_transport iwarp_transport;

static inline struct iwarp_qp *iwarp_from_qp(struct qp *qp)
{
	return container_of(qp, struct iwarp_qp, qp);
}

/*
 * Give a queue pair in INIT its stream: it goes to RTS.
 *
 * Returns 0, or -EINVAL in another state, or when it had a stream since its last reset.
 */
int iwarp_open(struct iwarp_qp *iwarp, const struct iwarp_settings *settings, uint64_t now_ns);

/*
 * Where shall received bytes go?
 *
 * `spans`  Room for IWARP_SPANS_MAX; to be filled in order, at once: memory of the program among
 *          them is approved until the lane is unlocked.
 *
 * Returns how many spans there are; 0 when no more bytes are wanted.
 */
unsigned iwarp_offer(struct iwarp_qp *iwarp, struct iwarp_span spans[IWARP_SPANS_MAX]);

/* The same when nothing is in the middle: IWARP_RX_BYTES in one piece. NULL when something is. */
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

/* The first `bytes` bytes of what was offered last are there now. At least 1. */
void iwarp_received(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns);

/*
 * Does a message wait for a receive request? Nothing is offered then; ask again with
 * iwarp_resume().
 */
static inline bool iwarp_is_stalled(const struct iwarp_qp *iwarp)
{
	return iwarp->rx.stall_end_ns != 0;
}
void iwarp_resume(struct iwarp_qp *iwarp, uint64_t now_ns);

/*
 * Nothing more will come. `is_lost`: nor can anything be sent any more.
 */
void iwarp_ended(struct iwarp_qp *iwarp, bool is_lost, uint64_t now_ns);

/*
 * The bytes to be sent next, in order; more may come after them.
 *
 * `parts`  Room for IWARP_PIECES_MAX; to be sent at once: memory of the program among them is
 *          approved until the lane is unlocked.
 *
 * Returns how many parts there are, none of them empty; 0 for nothing now.
 */
unsigned iwarp_output(
	struct iwarp_qp *iwarp, struct iwarp_part parts[IWARP_PIECES_MAX], uint64_t now_ns);

/*
 * The same for a single small SEND or WRITE, when nothing else is to be sent: one part. NULL, with
 * nothing done, when this is not the case.
 */
const uint8_t *iwarp_output_fast(struct iwarp_qp *iwarp, uint32_t *ret_bytes);

/* The first `bytes` of them were taken. */
void iwarp_sent(struct iwarp_qp *iwarp, uint32_t bytes, uint64_t now_ns);

/*
 * What shall become of the stream? Asked after each of the calls above; IWARP_END is said once,
 * iwarp_half_closed() follows.
 */
enum iwarp_wish iwarp_wish(const struct iwarp_qp *iwarp);
void iwarp_half_closed(struct iwarp_qp *iwarp, uint64_t now_ns);

/*
 * The queue pair of this lane whose turn it is to send, or NULL; it leaves the list when
 * iwarp_output() has nothing, or here.
 */
static inline struct iwarp_qp *iwarp_first(struct lane *lane)
{
	return list_is_empty(&lane->tx_streams)
		? NULL
		: list_first(&lane->tx_streams, struct iwarp_qp, qp.tx_link);
}
void iwarp_unschedule(struct iwarp_qp *iwarp);

/* The same, to have it in the list again: its stream takes bytes again. */
void iwarp_schedule(struct iwarp_qp *iwarp);

#endif

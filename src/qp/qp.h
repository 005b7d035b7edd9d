/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: the common part of all types.
 *
 * struct qp has the attributes, the queues and the place in the lane. A transport embeds it in its
 * own struct (struct rc_qp and so on); other code calls the transport through `transport`. struct
 * qp_public, in NIC memory, is the part that other processes may read: state, peers, counters.
 *
 * The lane's lock covers everything here. Only qp_set_state() assigns the state. Room engine
 * creates and destroys queue pairs; transports and the front end refer to them.
 */
#ifndef URNIC_QP_QP_H
#define URNIC_QP_QP_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"
#include "base/prefetch.h"
#include "base/tracepoint.h"
#include "impair/impair.h"
#include "lane/counter.h"
#include "lane/lane.h"
#include "qp/congestion.h"
#include "qp/guard.h"
#include "qp/pace.h"
#include "qp/packet_origin.h"
#include "qp/qp_event.h"
#include "qp/qp_local.h"
#include "queue/completion_counter.h"
#include "queue/cq.h"
#include "queue/qp_type.h"
#include "queue/rq.h"
#include "queue/sq.h"
#include "queue/srq.h"
#include "wire/packet.h"
#include "wire/packet_run.h"

/*
 * The most READs and atomics that a responder remembers (QP_RD_ATOMIC_MAX), and that a requester
 * has outstanding (QP_INIT_RD_ATOMIC_MAX).
 */
enum {
	QP_RD_ATOMIC_MAX = 16,
	/* The same as rxe's, because a program may use the limit of its peer's device. */
	QP_INIT_RD_ATOMIC_MAX = 128,
};

/*
 * A path of a queue pair. `id` is the path's number in the port (port/udp/udp.h). The transport
 * compares the addresses with those of received packets. The NIC needs all fields to open the path,
 * and ibv_query_qp() reports them.
 */
struct qp_path {
	uint32_t id;
	uint32_t cnp_id; /* the same path, with the DSCP of CNPs; only if the lane has `cc` */
	uint32_t ifindex; /* the interface of the local address */
	struct gid local;
	struct gid remote;
	uint32_t flow_label; /* 20 bits */
	uint8_t traffic_class; /* only its upper six bits, the DSCP, have an effect */
	uint8_t hop_limit; /* 0 means 64 */
	uint8_t service_level; /* 0 to 15; has no effect */
	uint8_t static_rate; /* a code (IBTA 9.11) */
	uint32_t rate_kbps; /* the static rate in kbit/s, at most the port's rate; 0: no limit */
	/*
	 * InfiniBand only. Without a GRH, `local` and `remote` are those of
	 * wire/infiniband/lid_address.h.
	 */
	struct qp_path_ib {
		uint16_t dlid;
		uint8_t port; /* counted from 1; 0: a path over Ethernet */
		uint8_t path_bits;
		bool has_grh;
	} ib;
};

/* The attributes that ibv_modify_qp sets. */
struct qp_attr {
	enum qp_state cur_state;
	bool has_drain_event; /* raise SIGNAL_QP_DRAINED when SQD has been reached */
	uint32_t access; /* enum mr_access: what the peer may do through this queue pair */
	uint32_t pkey_index;
	uint32_t port; /* counted from 1 */
	uint32_t qkey;
	struct qp_path path;
	uint32_t path_mtu; /* enum ibv_mtu: 1 (256) to 5 (4096) */
	uint32_t dest_qpn;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t max_rd_atomic; /* the most READs and atomics outstanding as requester */
	uint32_t max_dest_rd_atomic; /* the most READs and atomics accepted as responder */
	uint32_t min_rnr_timer; /* a code, 0 to 31 (wire/rnr_timer.def) */
	uint32_t timeout; /* a code, 0 (no timeout) to 31 */
	uint32_t retry_cnt; /* 0 to 7 */
	uint32_t rnr_retry; /* 0 to 6; 7 means without limit */
	struct qp_path alt_path; /* valid if qp->has_alt_path */
	uint32_t alt_pkey_index;
	uint32_t alt_port;
	uint32_t alt_timeout; /* a code, as `timeout` */
	enum qp_migration migration;
	uint32_t rate_limit_kbps; /* the send queue's limit, at most PACE_RATE_KBPS_MAX; 0: none */
	/* The most bytes sent at once in spite of rate_limit_kbps; 0: the default (pace.h) */
	uint32_t burst_bytes;
};

struct qp_caps {
	uint32_t send_depth;
	uint32_t recv_depth;
	uint32_t send_sge_max;
	uint32_t recv_sge_max;
	uint32_t inline_bytes_max;
};

/* The public state of a queue pair, in NIC memory. */
struct qp_public {
	uint32_t qpn;
	uint32_t dest_qpn;
	uint32_t owner; /* the open device that the queue pair belongs to */
	uint16_t type;
	_Atomic uint16_t state;
	struct gid local;
	struct gid remote;
	uint64_t sq_offset;
	/* The receive queue that the queue pair uses: its own or a shared one; 0: none */
	uint64_t rq_offset;
	uint64_t next_offset; /* the next queue pair's struct qp_public in the lane's list */
	/* struct request_channel (local/channel/channel.h), which also has counters; 0: none. */
	_Atomic uint64_t channel_offset;
	uint64_t counters_offset; /* struct counters */
};

/* What transport->receive() has done with a packet. */
enum packet_verdict {
	/* The packet is the peer's next one, or another that the peer may have sent */
	PACKET_TAKEN,
	/* The packet had no effect: it is late, repeated, early, refused, or not the peer's */
	PACKET_DROPPED,
	/* The packet had no effect, and no peer would send it, so it counts as a try (guard.h) */
	PACKET_GUESSED,
};

/*
 * The operations of a queue pair type. Each type has one constant object; the engine has the table
 * of them.
 */
struct qp_transport {
	size_t object_bytes; /* size of the transport's object, whose first member is a struct qp */
	size_t cold_bytes; /* size of the memory at qp->cold; 0: none */
	/*
	 * Process a decoded packet to this queue pair. Any host may have sent the packet. A
	 * connected transport first calls qp_is_from_peer().
	 */
	enum packet_verdict (*receive)(struct qp *qp, const struct packet *packet,
		const struct packet_origin *origin, uint64_t now_ns);
	/*
	 * Write the next packet or run of packets (engine_next_packet). The caller has set *run to
	 * one packet without borrowed payload. Returns the length of each packet from BTH to pad;
	 * or 0, with *run unchanged, when there is nothing to send now.
	 */
	size_t (*next_packet)(struct qp *qp, struct packet_run *run, uint64_t now_ns);
	/*
	 * next_packet() while the queue pair waits for its rate: writes a single acknowledgement.
	 * NULL: the transport sends nothing meanwhile.
	 */
	size_t (*next_unpaced)(struct qp *qp, struct packet_run *run, uint64_t now_ns);
	/*
	 * The queue pair has waited for its rate and may send again. NULL: the caller puts the
	 * queue pair on lane->tx_data by qp_schedule().
	 */
	void (*resume)(struct qp *qp);
	/* The queue pair's deadline has passed. NULL for a transport that never sets a deadline. */
	void (*expire)(struct qp *qp, uint64_t now_ns);
	/* Work requests were added to the send queue. */
	void (*posted)(struct qp *qp, uint64_t now_ns);
	/* The state has changed from `old` to qp->state. Called before the queues are flushed. */
	void (*state_changed)(struct qp *qp, enum qp_state old, uint64_t now_ns);
	/*
	 * A peer on this host has reserved `wqe`, a receive request of `srq`, for a message, and
	 * then fallen back to packets. The queue pair uses the request for that message. NULL for
	 * transports whose peers cannot do that.
	 */
	void (*reserved)(struct qp *qp, struct srq *srq, const struct recv_wqe *wqe);
	/* The primary path has changed. May be NULL. */
	void (*migrated)(struct qp *qp);
	/* The queue pair is about to be destroyed: release what is the lane's. May be NULL. */
	void (*done)(struct qp *qp);
	/* Assert the invariants. For tests. */
	void (*check)(const struct qp *qp);
};

struct qp {
	struct lane *lane;
	const struct qp_transport *transport;
	struct qp_public *public;
	uint64_t public_offset;
	/* In NIC memory, too, but in other pages, which an idle queue pair does not touch */
	struct counters *counters;
	/* The neighbours in the lane's list of public states; NULL at the ends of the list */
	struct qp *published_before, *published_next;
	enum qp_type type;
	enum qp_state state;
	uint32_t qpn;
	uint32_t pd;
	/*
	 * The protection domain of receive requests. If the queue pair has a shared receive queue,
	 * it is that queue's domain.
	 */
	uint32_t recv_pd;
	uint32_t xrcd; /* the XRC domain of an XRC_RECV queue pair */
	bool is_xrcd_shared; /* is that domain shared with other processes? */
	struct cq *send_cq;
	struct cq *recv_cq;
	struct send_queue *sq;
	/*
	 * The shared receive queue; NULL: the queue pair has a receive queue of its own, or none.
	 * Each request to an XRC_RECV queue pair names a shared receive queue. qp_take_on() then
	 * sets `srq`, `rq`, `recv_cq`, `pd` and `recv_pd` to those of the named queue.
	 */
	struct srq *srq;
	/* The queue pair's own queue or the shared one; NULL when there is none */
	struct recv_queue *rq;
	uint64_t sq_offset;
	uint64_t rq_offset; /* 0 when the queue pair has no receive queue of its own */
	/*
	 * State that a connected queue pair does not touch before its first transfer. The state is
	 * in NIC memory that is zero from the start, so an idle queue pair uses no pages for it. If
	 * the transport receives by struct message, this state begins with the struct recv_wqe of
	 * that message.
	 */
	void *cold;
	bool is_all_signaled;
	uint8_t counted; /* enum counted_operation: the operations that have a completion counter */
	bool is_comm_established;
	bool has_alt_path; /* attr.alt_path was set */
	bool is_migration_refused; /* the event for a refused migration was raised */
	/* No process of this host has queue pair attr.dest_qpn, so requests fail at once. */
	bool is_peer_missing;
	/*
	 * The UDP source port of the last packet that the transport accepted; 0: none yet, or a
	 * datagram queue pair.
	 */
	uint16_t peer_port;
	struct guard guard[GUARD_KIND_COUNT]; /* the queue pair's allowance of tries (guard.h) */
	/* Windows of type 2 were bound since the creation or the last reset */
	bool has_bound_windows;
	/* In SQD, while requests that were started before SQD are incomplete */
	bool is_sq_draining;
	/* The first failure since RESET that is no flush: enum reason; 0: none */
	uint32_t first_reason;
	uint64_t first_wr_id;
	struct qp_caps caps;
	struct qp_attr attr;
	/*
	 * The P_Key in the datagrams that the queue pair writes: the default one. Over InfiniBand
	 * it is attr.pkey_index, which the port replaces by the P_Key.
	 */
	uint16_t pkey;
	uint32_t mtu_bytes; /* the path MTU; of a datagram queue pair, the port's MTU */
	struct deadline deadline;
	struct pace *pace; /* NULL: no rate was ever set */
	uint64_t pace_offset; /* the NIC memory of `pace` and `cc`; 0: not reserved */
	struct cc_flow *cc; /* NULL: no congestion control, or none was needed yet */
	bool has_cc; /* there is congestion control */
	bool is_cnp_pending; /* the notification point has to send a CNP */
	struct qp_local *local; /* NULL: the peer is on another host, or unknown */
	struct local_initiator *initiator; /* local/initiator/local_qp.h; NULL: no connection */
	/* Hints, read by any thread (qp_prefetch): where the next local post stores; 0: unknown */
	/* Distance from a remote address to its mapping in this process */
	_Atomic uintptr_t write_shift;
	_Atomic uintptr_t record_place;
	struct impair_flow *impair; /* NULL: the lane has no impairments */
	struct list tx_link;
	enum lane_tx tx_list;
	struct signal signal;
	void *user; /* qp_init.user */
	struct completion_counter *completion_counters[COUNTED_BITS]; /* by the bit of `counted` */
};

static inline void qp_count(struct qp *qp, enum counter counter, uint64_t amount)
{
	counter_add(qp->counters, counter, amount);
}

/* Does the shared receive queue match tags? If so, only the NIC posts to the send queue. */
static inline bool qp_has_tags(const struct qp *qp)
{
	return qp->srq && qp->srq->tags;
}

static inline bool qp_takes_sends(const struct qp *qp)
{
	return qp->state == QP_RTS || qp->state == QP_SQD || qp->state == QP_SQE ||
		qp->state == QP_ERR;
}

/*
 * Before a request is posted, prefetch the cache line that the peer polls. The line takes long to
 * arrive. The post writes it last, so the wait for the line overlaps with the rest of the post.
 */
static inline void qp_prefetch(const struct qp *qp, uint32_t opcode, uint64_t remote_address)
{
	uintptr_t shift = atomic_load_explicit(&qp->write_shift, memory_order_relaxed);
	uintptr_t record = atomic_load_explicit(&qp->record_place, memory_order_relaxed);

	if (opcode == WR_RDMA_WRITE && shift)
		prefetch_to_write((const void *)(shift + (uintptr_t)remote_address));
	else if (opcode == WR_SEND && record)
		prefetch_to_write((const void *)record);
}

/* A WRITE to `remote_address` has stored at `place` in this process. The lane is locked. */
static inline void qp_expect_write(struct qp *qp, const void *place, uint64_t remote_address)
{
	atomic_store_explicit(&qp->write_shift, (uintptr_t)place - (uintptr_t)remote_address,
		memory_order_relaxed);
}

/* The next message's record will be written at `place`. The lane is locked. */
static inline void qp_expect_record(struct qp *qp, const void *place)
{
	atomic_store_explicit(&qp->record_place, (uintptr_t)place, memory_order_relaxed);
}

/* The arguments of qp_init(). */
struct qp_init {
	enum qp_type type;
	uint32_t pd; /* unused for XRC_RECV */
	uint32_t xrcd; /* XRC_RECV only */
	struct xrc_file file; /* the XRC domain's file, if processes share the domain; else zeros */
	struct cq *send_cq; /* NULL for XRC_RECV */
	struct cq *recv_cq; /* NULL for XRC_SEND and XRC_RECV, which have no receive queue */
	struct srq *srq; /* outlives the queue pair; NULL: the queue pair gets its own queue */
	struct qp_caps caps; /* with `srq`, recv_depth and recv_sge_max are unused */
	uint32_t mtu_bytes; /* the port's MTU; a connection later gets the path MTU */
	bool is_all_signaled;
	uint32_t owner; /* shown in the public state */
	void *user; /* the front end's object, which this room does not use */
};

/*
 * Initialize a zeroed queue pair in state RESET. Its queues and public state are allocated from
 * lane->arena. Returns 0, or -ENOMEM with nothing allocated.
 */
int qp_init(struct qp *qp, struct lane *lane, const struct qp_init *init, uint32_t qpn,
	const struct qp_transport *transport);

/* Remove the queue pair from the lane's lists and free its NIC memory. */
void qp_done(struct qp *qp);

/*
 * Change attributes, and the state if ATTR_STATE is in `mask`.
 *
 * `to`    The requested state; qp->state when the mask does not have ATTR_STATE.
 * `mask`  enum qp_attr_mask. The program may have set any bits.
 * `attr`  The values for the bits in `mask`. attr->path.id and attr->alt_path.id name paths that
 *         the caller has opened.
 *
 * Returns 0; -EINVAL when the transition, the mask or a value is not allowed, or the send queue
 * still drains; -ENOMEM when pacing cannot be prepared. Errors change nothing.
 */
int qp_modify(struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr,
	uint64_t now_ns);

/*
 * Why qp_modify() returns -EINVAL: fill in the failure's reason, facts and text. The arguments are
 * those of the refused call; the queue pair has not changed since.
 */
void qp_modify_explain(const struct qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *attr, struct failure *ret_failure);

/*
 * Change the rate limit in RTS (ibv_modify_qp_rate_limit). `rate_kbps` 0 means no limit, and
 * `burst_bytes` 0 the default burst. Returns 0, -EINVAL or -ENOMEM.
 */
int qp_set_rate(struct qp *qp, uint32_t rate_kbps, uint32_t burst_bytes);

/*
 * Only this function assigns the state. ERR flushes both queues, SQE flushes the send queue, and
 * RESET empties both. No state changes a shared receive queue. But in ERR the queue pair signals
 * that it takes no more requests from that queue (IBTA 11.6.3.1).
 */
void qp_set_state(struct qp *qp, enum qp_state state, uint64_t now_ns);

/* `receive` and `next_packet` of a transport without RoCE packets. */
enum packet_verdict qp_refuse_packet(struct qp *qp, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns);
size_t qp_has_no_packets(struct qp *qp, struct packet_run *run, uint64_t now_ns);

/*
 * Post a work request. Returns 0; -EINVAL for a request that this queue pair cannot execute, or in
 * a state in which programs may not post; -ENOMEM when the queue is full. In the error states
 * requests are accepted and flushed (IBTA 10.3.1.6, 10.3.1.7). After one or more posts, the caller
 * calls transport->posted() once.
 */
int qp_post_send(struct qp *qp, const struct send_wr *wr);

/*
 * Post a batch that was begun on this queue pair's send queue. The caller has checked the requests
 * when it built them. Returns 0; -EINVAL in a state in which programs may not post, or when the
 * queue was emptied after the batch had begun. After a 0 the caller calls transport->posted().
 */
static inline int qp_post_batch(struct qp *qp, const struct sq_batch *batch)
{
	if (!qp_takes_sends(qp) || batch->first != qp->sq->posted)
		return -EINVAL;
	qp->sq->posted += batch->count;
	qp_count(qp, COUNTER_posted_sends, batch->count);
	trace_post_send(qp->qpn, batch->last->wr_id, batch->last->opcode, batch->last->total_bytes,
		batch->count);
	qp_event(qp->lane, qp, CAPTURED_POST, batch->last->wr_id, batch->last->opcode,
		batch->last->total_bytes, batch->count);
	return 0;
}

/*
 * Post a receive request, without the lane's lock. A caller that finds the queue pair in the error
 * state afterwards locks the lane and calls qp_flush(). Returns 0; -EINVAL for too many
 * scatter/gather entries, in RESET, or when the queue pair has no receive queue of its own; -ENOMEM
 * when the queue is full.
 */
int qp_post_recv(struct qp *qp, const struct recv_wr *wr);

/* Do the lane's impairments request an RNR NAK for the message that now needs a receive request? */
static inline bool qp_is_made_unready(const struct qp *qp)
{
	return qp->lane->impair && qp->type != QP_TYPE_UC &&
		impair_refuses_receive(qp->lane->impair, qp->impair);
}

/*
 * Take the oldest receive request, from the queue pair's own queue or the shared one. Returns false
 * when there is none.
 */
static inline bool qp_take_recv(struct qp *qp, struct recv_wqe *wqe)
{
	if (!qp->srq)
		return rq_take(qp->rq, wqe);
	return qp->srq->borrowed ? qp->srq->borrowed->take(qp->srq, qp->lane, wqe)
				 : srq_take(qp->srq, wqe, &qp->lane->signals);
}

/*
 * From now on count the completions of `operations` (enum counted_operation) on `counter`, which
 * outlives the queue pair. Returns 0; -EINVAL unless the state is RESET or INIT; -EBUSY when one of
 * the operations has a counter already. Errors change nothing.
 */
int qp_attach_counter(
	struct qp *qp, enum counted_operation operations, struct completion_counter *counter);

/* Complete the queued requests as flushed: in ERR both queues, in SQE only the send queue. */
void qp_flush(struct qp *qp, uint64_t now_ns);

/* Complete the oldest incomplete send request. An unsignaled success makes no completion. */
void qp_complete_send(struct qp *qp, enum fault fault, uint64_t now_ns);

/* Does the request make a completion when it succeeds? */
static inline bool qp_is_signaled(const struct qp *qp, const struct send_wqe *wqe)
{
	return qp->is_all_signaled || qp_has_tags(qp) || (wqe->flags & SEND_SIGNALED);
}

/* `wqe`, the oldest incomplete send request, has succeeded. */
static inline void qp_complete_success(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns)
{
	if (qp_is_signaled(qp, wqe) || qp->counted)
		qp_complete_send(qp, FAULT_NONE, now_ns);
	else
		qp->sq->completed++;
}

/*
 * The `count` oldest send requests, at least 1, have succeeded; `wqe` is the first of them. Returns
 * early when the queue pair goes to the error state.
 */
static inline void qp_complete_batch(
	struct qp *qp, const struct send_wqe *wqe, uint32_t count, uint64_t now_ns)
{
	for (;;) {
		qp_complete_success(qp, wqe, now_ns);
		if (!--count || qp->state == QP_ERR)
			return;
		wqe = sq_at(qp->sq, qp->sq->completed);
	}
}

/*
 * The oldest send request of an unreliable queue pair cannot be executed. It completes with
 * `fault`, and the queue pair goes to SQE: it sends nothing until the program moves it to RTS again
 * (IBTA 10.3.1.6). It still receives.
 */
void qp_fail_send(struct qp *qp, enum fault fault, uint64_t now_ns);

/*
 * Complete a receive request that was taken. The caller has set byte_count, imm, flags and opcode
 * in *cqe; the function sets the other fields.
 */
void qp_complete_recv(struct qp *qp, uint64_t wr_id, struct cqe *cqe, enum fault fault,
	bool is_solicited, uint64_t now_ns);

/* qp_complete_recv() for a message of `bytes` bytes without immediate data or flags. */
void qp_complete_message(struct qp *qp, uint64_t wr_id, uint32_t bytes, uint64_t now_ns);

/* qp_complete_recv() for a request of `srq`, an XRC shared receive queue of any process. */
void qp_complete_recv_of(struct qp *qp, struct srq *srq, uint64_t wr_id, struct cqe *cqe,
	enum fault fault, bool is_solicited, uint64_t now_ns);

/*
 * From now on the XRC_RECV queue pair takes its receive requests from `srq`. The queue pair is
 * between two messages.
 */
void qp_take_on(struct qp *qp, struct srq *srq);

/*
 * In SQD a transport starts no work request (IBTA 10.3.1.5). When the requests that it has started
 * are complete, the transport calls this function; a repeated call does nothing.
 */
void qp_sq_drained(struct qp *qp);

/*
 * The queue pair has something to send: put it on `list`, which is LANE_TX_DATA, or LANE_TX_ACK if
 * it has only an acknowledgement to send.
 */
void qp_schedule(struct qp *qp, enum lane_tx list);

/* Set or move the queue pair's deadline. */
static inline void qp_set_deadline(struct qp *qp, uint64_t at_ns)
{
	deadline_set(&qp->lane->deadlines, &qp->deadline, at_ns);
}

/* The identity of this queue pair for the memory table. */
static inline struct mr_user qp_mr_user(const struct qp *qp)
{
	return (struct mr_user){qp->pd, qp->qpn};
}

/* Do packets reach the transport in this state? */
static inline bool qp_is_receiving(const struct qp *qp)
{
	return qp->state != QP_RESET && qp->state != QP_INIT;
}

/* --- paths (qp_path.c) --- */

/* Are these the addresses of the queue pair and its peer, on either path? */
bool qp_is_address_of_peer(const struct qp *qp, const struct packet_origin *origin);

/* Publish the queue pair's addresses in NIC memory, after the paths have changed. */
void qp_path_publish(struct qp *qp);

/*
 * Migrate: the alternate path becomes the primary one, and vice versa. The caller has checked that
 * the queue pair is armed, or that the program requests the migration.
 */
void qp_migrate(struct qp *qp);

/*
 * The rest of qp_is_from_peer(), for a packet that is not from the primary path (`is_primary` is
 * false), or that may advance a path migration.
 */
bool qp_path_accept(struct qp *qp, const struct packet *packet, const struct packet_origin *origin,
	bool is_primary);

/*
 * Did the packet travel from the peer's address to the queue pair's, on either path? Counts the
 * packet as received or as refused. A packet on the alternate path with MigReq migrates the queue
 * pair (IBTA 17.2.8.1.4).
 */
static inline bool qp_is_from_peer(
	struct qp *qp, const struct packet *packet, const struct packet_origin *origin)
{
	bool is_from_peer = gid_is_equal(&qp->attr.path.remote, origin->source) &&
		gid_is_equal(&qp->attr.path.local, origin->destination);

	if (!is_from_peer || qp->attr.migration != QP_MIGRATED)
		is_from_peer = qp_path_accept(qp, packet, origin, is_from_peer);
	qp_count(qp, is_from_peer ? COUNTER_rcvd_pkts : COUNTER_bad_address_drops, 1);
	return is_from_peer;
}

/*
 * Is the guard of this kind up for packets from `origin` (guard.h)? Usually no guard of the lane is
 * up, and one time in the lane shows that.
 */
static inline bool qp_is_guarded(const struct qp *qp, enum guard_kind kind,
	const struct packet_origin *origin, uint64_t now_ns)
{
	return now_ns < qp->lane->guards.until_ns[kind] && guard_is_up(qp, kind, origin, now_ns);
}

const char *qp_state_name(enum qp_state state);

/* The name of the lowest bit of a mask of enum qp_attr_mask, as programs write it. */
const char *qp_attribute_name(uint32_t mask);

#endif

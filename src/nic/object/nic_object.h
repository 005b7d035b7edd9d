/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_OBJECT_NIC_OBJECT_H
#define URNIC_NIC_OBJECT_NIC_OBJECT_H

/*
 * What the files of the NIC's objects share. Only the files of this room and the NIC's parts
 * (nic/nic_part.h: rooms peer, xrc and connection) include this file.
 *
 * - nic_mr.c: memory regions, windows and device memory.
 * - nic_cq.c, nic_channel.c, nic_qp.c, nic_srq.c, nic_wq.c, nic_xrcd.c: queues and domains.
 * - nic_counter.c: completion counters.
 * - nic_ah.c, nic_multicast.c: destinations of datagrams. nic_raw.c: raw packets. nic_stream.c:
 *   iWARP.
 * - nic_object.c: events of objects.
 */

#include "event/event_queue.h"
#include "local/datagram.h"
#include "nic/nic_internal.h"
#include "nic/object/nic.h"
#include "nic/object/nic_stream.h"
#include "worker/worker_frames.h"
#include "worker/worker_streams.h"

/*
 * The alarm of a moderated completion queue on one lane. It expires when the queue's delayed signal
 * is due.
 */
struct nic_cq_hold {
	struct deadline alarm;
	struct nic_cq *cq;
};

/*
 * A completion channel. Threads that wait for its events collect the completions of its queues
 * (struct event_collector).
 */
struct nic_channel {
	struct event_collector collector;
	struct event_queue *queue;
	/*
	 * Index of the channel's struct waiter; 0: none, because the channel has no queue yet, or
	 * all waiters are taken
	 */
	uint32_t number;
	_Atomic uint32_t lane_mask; /* mask of the lanes that push into its completion queues */
	struct worker *_Atomic driven; /* the lane that its waiter drives or last drove */
	/* The lane whose sockets were last put into the descriptor; NULL: none */
	struct worker *_Atomic visited;
	_Atomic bool is_watching; /* the eventfd of `number` is in the descriptor */
	/*
	 * waiter_raises() at the last visit. Only the thread that visits uses this field and
	 * `visits`.
	 */
	uint32_t raises_seen;
	uint32_t visits;
	bool is_inherited; /* a parent process uses the same descriptor */
	uint64_t epoch; /* nic_epoch of the NIC that `number` belongs to */
};

struct nic_cq {
	struct cq cq;
	struct nic_channel *channel; /* NULL: its events go to no channel */
	nic_cq_event_fn *on_event;
	void *user;
	uint64_t epoch;
	uint32_t home; /* index of the lane of the queue pairs whose send requests complete in it */
	/* Mask of the lanes that push completions into the queue; a poll drives these lanes */
	_Atomic uint32_t lane_mask;
	/* An array of NIC_LANES_MAX from the first moderation on; NULL before */
	struct nic_cq_hold *holds;
};

/*
 * A queue pair of another process that this process has opened. The caller of an operation has no
 * lock.
 */
struct nic_borrowed_qp {
	const struct nic_borrowed_qp_ops *ops;
};

struct nic_borrowed_qp_ops {
	int (*modify)(struct nic_borrowed_qp *borrowed, enum qp_state to, uint32_t mask,
		const struct qp_attr *attr);
	struct nic_qp_state (*query)(struct nic_borrowed_qp *borrowed);
	void (*close)(struct nic_borrowed_qp *borrowed);
	uint32_t (*number)(const struct nic_borrowed_qp *borrowed);
};

struct nic_qp {
	struct qp *qp;
	struct worker_frames *frames; /* NULL unless this is a raw packet queue pair */
	/*
	 * NULL unless this is an iWARP queue pair. The stream's fd is -1 while the queue pair is
	 * not connected
	 */
	struct worker_stream *stream;
	/*
	 * The connection of `stream`. To change it, a thread locks the NIC and the worker
	 * (nic_stream.c).
	 */
	struct nic_stream_user *stream_user;
	struct nic_cq *send_cq;
	struct nic_xrcd *xrcd; /* NULL unless this is an XRC_RECV queue pair */
	struct worker *worker;
	nic_qp_event_fn *on_event;
	void *user;
	uint64_t epoch;
	uint32_t open_paths; /* the open paths, as bits ATTR_AV and ATTR_ALT_PATH */
	struct nic_local *local; /* the same-host connection to its peer; NULL: none */
	struct nic_ud_endpoint *endpoint; /* for a UD queue pair; NULL: none */
	/* The processes that have this XRC_RECV queue pair open (nic_target.h). */
	struct list borrowers;
	/* The program has destroyed the queue pair, which still exists for `borrowers` */
	bool is_released;
	/* NULL: the queue pair is this process's. Otherwise `qp` and `worker` are unset. */
	struct nic_borrowed_qp *borrowed;
};

struct nic_xrcd {
	struct list link; /* in nic.xrcds */
	uint32_t openings;
	uint32_t qp_count; /* number of queue pairs in the domain; they may outlive the openings */
	uint32_t id; /* not 0 */
	struct xrc_file file; /* zeros: no other process shares the domain */
	uint32_t ifindex; /* the device's interface */
	/* Its entry in NIC memory, which other processes read; NULL: none */
	struct nic_public_xrcd *public;
	/*
	 * Index of the lane for the domain's queue pairs: the lane of its newest SRQ, if it has one
	 */
	uint32_t home;
	uint32_t lane_mask; /* mask of the lanes of its queue pairs */
	uint64_t epoch;
};

struct nic_srq {
	struct srq srq;
	struct nic_cq *cq; /* NULL unless this is a tag-matching queue */
	/* nic_srq_post_tag() locks it; unset unless this is a tag-matching queue */
	struct worker *worker;
	nic_srq_event_fn *on_event;
	void *user;
	uint64_t epoch;
};

struct nic_wq {
	struct wq wq;
	struct nic_cq *cq;
	struct worker *worker; /* a thread that flushes the queue locks this worker */
	nic_wq_event_fn *on_event;
	void *user;
	uint64_t epoch;
};

struct nic_ah {
	struct list link; /* in nic.ahs */
	struct qp_path route;
	uint64_t epoch;
	/* Mask of the lanes that have tried to open the local address. Each tries once. */
	uint32_t tried_lanes;
	bool has_path[NIC_LANES_MAX];
	uint32_t path[NIC_LANES_MAX]; /* NIC_PATH_NONE on lanes where opening failed */
	/* The handle's remote address may be on this host; then room peer fills in `here` */
	bool may_be_here;
	struct datagram_path here[NIC_LANES_MAX];
};

/*
 * The value of nic_ah.path on a lane that could not open the path. Datagrams for that path are
 * dropped and counted.
 */
#define NIC_PATH_NONE UINT32_MAX

/*
 * The queue pair of this type with number `qpn`, which may be any value. NULL: there is none. The
 * NIC is locked.
 */
struct nic_qp *nic_qp_find(uint32_t qpn, enum qp_type type);

/*
 * Move queue pairs of the worker to the error state. If `ifindex` is not 0, these are the queue
 * pairs of that interface. If it is 0, urnicd has leased the worker's slot to another process: all
 * queue pairs fail, and each gets a fatal event, too. The worker is not locked.
 */
void nic_worker_fail(struct worker *worker, uint32_t ifindex);

/*
 * The first peer on this host has appeared: from now on let peers map all regions, present and
 * future, where that is safe (segment/segment.h). The NIC is not locked.
 */
void nic_mr_make_mappable(void);

/* The function for mr_table.touch, which on-demand regions need (memory/mr.h). */
bool nic_memory_touch(void *address, uint64_t bytes, bool is_written);

/*
 * A UD queue pair is about to be created on the lane: receive on all of init->locals. For the
 * lane's first UD queue pair, also open the path of every address handle there. May wait for
 * urnicd. The NIC is locked, the worker is not. Returns 0, or -errno when none of the addresses can
 * be opened.
 */
int nic_datagrams_start(struct worker *worker, const struct nic_qp_init *init);

/*
 * Take a queue pair out of all multicast groups. The NIC is locked, the queue pair's worker is not.
 */
void nic_multicast_forget(struct nic_qp *qp);

/* Log why a group of interface-local scope is refused. */
void nic_multicast_refuse_scope(void);

/*
 * The lanes in `lane_mask` push into the queue from now on, so a poll drives them. The NIC is
 * locked.
 */
static inline void nic_cq_add_lanes(struct nic_cq *cq, uint32_t lane_mask)
{
	atomic_fetch_or_explicit(&cq->lane_mask, lane_mask, memory_order_release);
	if (cq->channel)
		atomic_fetch_or_explicit(&cq->channel->lane_mask, lane_mask, memory_order_release);
}

/*
 * Do what nic_qp_modify() does, for a queue pair of this process. *ret_has_come becomes true if
 * this change has connected the first peer that could map memory of the program; the caller then
 * calls nic_mr_make_mappable().
 */
int nic_qp_change(struct nic_qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *requested, bool *ret_has_come);

/* The last user of the queue pair has closed it: destroy it. The NIC is locked. */
void nic_qp_end(struct nic_qp *qp);

/* A queue pair of the domain was destroyed. The NIC is locked. */
void nic_xrcd_put(struct nic_xrcd *xrcd);

/*
 * A queue pair of the domain is on this lane, so polls of the completion queues of the domain's
 * shared receive queues drive the lane. The NIC is locked.
 */
void nic_xrcd_add_lane(struct nic_xrcd *xrcd, uint32_t lane);

/*
 * Make the queue pairs of all lanes drop their references to this shared receive queue, which the
 * caller has removed from its table. The NIC is locked.
 */
void nic_srq_forget_on_lanes(const struct srq *srq);

/*
 * The offset of the directory of XRC shared receive queues, for other processes. 0 when there is
 * none; other processes then send packets. The NIC is locked.
 */
uint64_t nic_srq_share(void);

/* A completion queue is being created on the channel. The NIC is locked. */
void nic_channel_begin(struct nic_channel *channel);

/* In the child of a fork: close the copies of the parent's eventfds. */
void nic_channel_forget(void);

/* A queue of the channel was armed. Any thread may call, with no lock held. */
void nic_channel_arm(struct nic_channel *channel);

/* A queue of the channel is about to be destroyed. The NIC is locked. */
void nic_channel_leave(struct nic_channel *channel);

/*
 * Collect the records that peers on this host have left for the lanes in the mask `lanes`. Any
 * thread may call, with no worker locked.
 */
void nic_collect(uint32_t lanes);

/*
 * Handle SIGNAL_CQ_MODERATED: set the queue's alarm to the time at which the delayed signal is due.
 * The worker is locked.
 */
void nic_cq_hold(struct nic_cq *cq, struct worker *worker);
/* The function for worker_hooks.alarm: the time of `alarm` has come. */
void nic_cq_alarm(struct worker *worker, struct deadline *alarm);

/* Does the program wait for an event of the queue? The answer may be out of date. */
static inline bool nic_cq_is_armed(const struct nic_cq *cq)
{
	return cq_is_armed(&cq->cq);
}

/*
 * The Ethernet port of a raw packet queue pair. nic_frames_open() opens the port before the queue
 * pair is created, and returns 0 or -errno. nic_frames_begin() and nic_frames_end() begin and end
 * the use of the port by the queue pair; the worker is locked for these two. nic_frames_close()
 * closes the port. The NIC is locked for all four.
 */
int nic_frames_open(struct nic_qp *qp, uint32_t ifindex);
void nic_frames_begin(struct nic_qp *qp, const struct nic_qp_init *init);
void nic_frames_end(struct nic_qp *qp);
void nic_frames_close(struct nic_qp *qp);

/* Allocate qp->stream of an iWARP queue pair. The caller frees it. Returns 0 or -ENOMEM. */
int nic_stream_make(struct nic_qp *qp);

/* Handle SIGNAL_QP_DISCONNECTED: the queue pair's stream has ended. The worker is locked. */
void nic_stream_over(struct nic_qp *qp);

/* The queue pair is about to be destroyed. The NIC and the worker are locked. */
void nic_stream_forget(struct nic_qp *qp);

/* In the child of a fork: free the table of flows. */
void nic_flows_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_INTERNAL_H
#define URNIC_NIC_NIC_INTERNAL_H

/*
 * What the files of the NIC share. nic.c is its life, nic_mr.c its memory regions, nic_agent.c its
 * side of urnicd and its lanes; nic_cq.c, nic_channel.c, nic_qp.c, nic_srq.c, nic_wq.c and
 * nic_xrcd.c are its queues; nic_ah.c and nic_multicast.c say where datagrams go, nic_raw.c is for
 * raw packets, nic_stream.c for iWARP, nic_link.c for packets past the kernel's UDP, nic_capture.c
 * for captures. Besides them, only the NIC's parts (nic_part.h) include this: the rooms peer, xrc
 * and connection.
 *
 * Locks: see lock_order.def. Several workers' locks are held only by who holds the NIC's.
 */

#include <pthread.h>

#include "agent/agent_client.h"
#include "event/event_queue.h"
#include "local/datagram.h"
#include "nic/nic.h"
#include "nic/nic_stream.h"
#include "segment/nic_public.h"
#include "worker/worker.h"
#include "worker/worker_frames.h"
#include "worker/worker_streams.h"

/*
 * When a signal that is held back is due: an alarm on each lane that a moderated queue may be
 * served by.
 */
struct nic_cq_hold {
	struct deadline alarm;
	struct nic_cq *cq;
};

/* Beside a channel's queue of events: where those that wait for one look. */
struct nic_channel {
	struct event_lookout lookout;
	struct event_queue *queue;
	uint32_t number; /* of its attention; 0: none yet, or too many others have one */
	_Atomic uint32_t lane_mask; /* lanes that push into its completion queues */
	uint64_t epoch; /* of the NIC that the number is of */
};

struct nic_cq {
	struct cq cq;
	struct nic_channel *channel; /* NULL: nobody wants events */
	nic_cq_event_fn *on_event;
	void *user;
	uint64_t epoch;
	uint32_t home; /* lane of queue pairs that send into it */
	_Atomic uint32_t lane_mask; /* lanes that push into it: those a poll drives */
	struct nic_cq_hold *holds; /* NIC_LANES_MAX, once it was moderated; else NULL */
};

/*
 * A queue pair of another process that this one has open: what is done instead. Nothing is locked.
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
	struct worker_frames *frames; /* of a raw packet queue pair, else NULL */
	struct worker_stream stream; /* of an iWARP queue pair that has one; else its fd is -1 */
	struct nic_stream_user
		*stream_user; /* whose that is; under the NIC's and the worker's lock */
	struct nic_cq *send_cq;
	struct nic_xrcd *xrcd; /* of XRC_RECV, else NULL */
	struct worker *worker;
	nic_qp_event_fn *on_event;
	void *user;
	uint64_t epoch;
	uint32_t open_paths; /* ATTR_AV, ATTR_ALT_PATH */
	struct nic_local *local; /* NULL: not within this host */
	struct nic_ud_endpoint *endpoint; /* of one for datagrams; NULL: none (nic_datagram.h) */
	struct list borrowers; /* of XRC_RECV: other processes that have it open (nic_target.h) */
	bool is_released; /* by the program; it lives on for borrowers */
	/* It is another process's, and the rest is unset; else NULL */
	struct nic_borrowed_qp *borrowed;
};

struct nic_xrcd {
	struct list link; /* in nic.xrcds */
	uint32_t openings;
	uint32_t qp_count; /* in it; they may outlive the openings */
	uint32_t id; /* not 0 */
	struct xrc_file file; /* that other processes share it by; zeros: none */
	uint32_t ifindex; /* of its device */
	struct nic_public_xrcd *public; /* where others see it; NULL: nowhere */
	uint32_t home; /* the lane of a completion queue that is polled for it */
	uint32_t lane_mask; /* lanes of its queue pairs */
	uint64_t epoch;
};

struct nic_srq {
	struct srq srq;
	struct nic_cq *cq; /* of a tag-matching queue, else NULL */
	struct worker *worker; /* likewise: whose lock operations on its list take */
	nic_srq_event_fn *on_event;
	void *user;
	uint64_t epoch;
};

struct nic_wq {
	struct wq wq;
	struct nic_cq *cq;
	struct worker *worker; /* whose lock its flushes take */
	nic_wq_event_fn *on_event;
	void *user;
	uint64_t epoch;
};

struct nic_ah {
	struct list link; /* in nic.ahs */
	struct qp_path route;
	uint64_t epoch;
	uint32_t tried_lanes; /* where its address was asked for: once, whatever came of it */
	bool has_path[NIC_LANES_MAX];
	uint32_t path[NIC_LANES_MAX]; /* NIC_PATH_NONE on lanes where it could not be opened */
	bool may_be_here; /* its address may be one of this host, and lanes know it: */
	struct datagram_path here[NIC_LANES_MAX];
};

/* What no path is called: datagrams for it are dropped, and counted. */
#define NIC_PATH_NONE UINT32_MAX

/* Numbers of work queues: 16 bits, so that no queue pair has the same one. */
#define NIC_WQ_NUMBERS 65536

/*
 * URNIC_LINK: whether packets may go past the kernel's UDP. In the order in which setting_choice()
 * is given the words.
 */
enum nic_link {
	NIC_LINK_IF_POSSIBLE,
	NIC_LINK_OFF,
	NIC_LINK_ON, /* likewise, and it is said where it is not possible */
};

struct nic {
	bool is_up;
	enum nic_link link;
	bool has_link_thread;
	int link_kick; /* eventfd, with the thread: a lane has a question (nic_link.c) */
	int memory; /* memfd: the owner's side of NIC memory */
	int shared; /* memfd: the peers' side */
	struct arena arena;
	struct mr_table mrs;
	struct nic_public *public;
	uint32_t lane_count; /* how many there may be */
	uint32_t next_home;
	uint32_t moderated_count; /* queues with alarms: each lane has room for so many */
	struct srq_table *srqs;
	struct list memberships; /* of queue pairs in multicast groups */
	uint32_t wq_count;
	uint32_t last_wq_number;
	bool wq_by_number[NIC_WQ_NUMBERS];
	struct list ahs;
	bool has_datagrams[NIC_LANES_MAX]; /* lanes that every address handle is opened on */
	uint32_t last_xrcd; /* the number of the domain that was made last */
	struct worker
		*last_xrc_send; /* lane of the XRC_SEND queue pair that was made last, or NULL */
	bool is_local_on;
	bool is_stamping; /* a program reads when completions were made */
	struct local_owner owner;
	int life[2]; /* a pipe: peers hold copies of its reading end; ours alone is the other */
	struct borrower_table *borrowers; /* of ours */
	struct attention_table *attentions;
	bool has_attention[ATTENTION_COUNT]; /* a channel */
	int work_kick; /* eventfd: nic_control_wake() */
	struct list xrcds; /* struct nic_xrcd */
	struct worker *worker[NIC_LANES_MAX];
	bool has_agent;
	struct agent_client agent;
};

extern pthread_mutex_t nic_agent_lock;
extern struct nic nic;
/* Which NIC of this process's history objects belong to: a fork begins a new one. */
extern uint64_t nic_epoch;

/*
 * Lock and unlock the NIC. Its holder cannot be cancelled: set-up asks urnicd, and has much to
 * undo.
 */
void nic_enter(void);
void nic_leave(void);

/*
 * Between nic_enter() and nic_leave(): unlock the NIC for a wait, and lock it again. What was read
 * of the NIC before may have changed, and what nothing keeps may be gone. nic_take_again() is given
 * what nic_let_go() has returned.
 */
int nic_let_go(void);
void nic_take_again(int before);

/* --- asking urnicd (nic_agent.c) ---
 *
 * One thread at a time has its turn to ask urnicd. It has the NIC locked while it looks what there
 * is to ask, and while it commits the answer; while it waits, it has locked nothing. So a set-up
 * call that needs urnicd waits for it, and all others go on, as do those that end objects, and
 * fork():
 *
 *	nic_enter();
 *	...                                   urnicd is needed
 *	error = nic_request_begin();              the NIC was unlocked: look whether it is needed still
 *	nic_request_enter();                            the NIC is unlocked, nic_agent_lock is locked
 *	error = agent_client_...(&nic.agent)  which unlocks that around each wait
 *	nic_request_leave(fd);                     the NIC is locked, nic_agent_lock is not
 *	...                                   commit
 *	nic_request_end();
 *	nic_leave();
 *
 * Whatever calls a function that asks has the NIC unlocked meanwhile; such functions say so.
 */

/*
 * Begin a turn, and end it. The NIC is locked, and is unlocked meanwhile. Returns 0; or -ETIMEDOUT,
 * and the log has a sentence, when another thread waits for urnicd in vain.
 */
int nic_request_begin(void);
void nic_request_end(void);

/*
 * Within a turn: from the first to the second the connection is the caller's. `fd` is the
 * descriptor that has arrived, or -1: the child of a fork closes it until the NIC is locked.
 */
void nic_request_enter(void);
void nic_request_leave(int fd);

/*
 * The same for a thread that has not locked the NIC: a turn, in which the connection is the
 * caller's. Returns as nic_request_begin(), and has the turn on 0.
 */
int nic_turn_begin(void);
void nic_turn_end(void);

/*
 * Lock nic_agent_lock if that takes no wait and no thread has its turn: for what is sent without an
 * answer. Returns whether it is locked.
 */
bool nic_turn_is_free(void);

/* agent_client_unclaim(); it waits for no other thread's turn. */
void nic_agent_unclaim(struct agent_claim *claim);

/* The NIC is being made. And in the child of a fork: the connection is the parent's. */
void nic_agent_start(void);
void nic_agent_forget(void);

uint64_t nic_random_u64(void);

/* A random permutation, for the caller to free; NULL when there is no memory. */
struct permutation *nic_permutation_draw(void);

/* urnicd has said something, or ended. The control thread; nothing is locked. */
void nic_agent_ready(void);

/* Make the NIC if there is none. The NIC is locked. Returns 0 or -errno. */
int nic_start(void);

void nic_for_each_worker(void (*act)(struct worker *worker));

/*
 * Lock a worker and unlock it: whoever was at work in it when this was called is done when it
 * returns.
 */
void nic_worker_pass(struct worker *worker);

/*
 * A peer on this host has come: what is registered, and what will be, can be mapped by it where
 * that is sound (segment/segment.h). Once; the NIC is not locked.
 */
void nic_mr_make_mappable(void);

/* For on-demand regions; memory/mr.h. */
bool nic_memory_touch(void *address, uint64_t bytes, bool is_written);

/* Lane `index`, made if there is none yet: that asks. The NIC is locked. Returns 0 or -errno. */
int nic_worker_get(uint32_t index, struct worker **ret_worker);

/*
 * Make sure that the worker receives on a local address: asks if it does not. The NIC is locked,
 * the worker is not. Returns its index there, or -errno.
 */
int nic_address_open(struct worker *worker, const struct gid *local, uint32_t ifindex);

/* The index of an address that it receives on, or -1. Asks nobody. */
int nic_address_find(struct worker *worker, const struct gid *local, uint32_t ifindex);

/*
 * Have packets of an address go past the kernel's UDP where that is possible (nic_link.c), unless
 * the user wants it otherwise. The NIC is locked, and the worker.
 */
void nic_link_use(struct worker *worker, uint32_t index, uint32_t ifindex);

/* In a forked child: there is no thread that answers questions. */
void nic_link_forget(void);

/*
 * A queue pair for datagrams is to live on this lane: receive on all of init->locals, and open
 * every address handle on this lane too, if that was not done before. Asks. The NIC is locked, the
 * worker is not. Returns 0, or -errno when none of the addresses can be opened.
 */
int nic_datagrams_start(struct worker *worker, const struct nic_qp_init *init);

/* Take a queue pair out of all multicast groups. The NIC is locked, its worker is not. */
void nic_multicast_forget(struct nic_qp *qp);

/* Say why a group whose packets stay within an interface is refused. */
void nic_multicast_refuse_scope(void);

/* The lanes in this mask push into the queue: a poll drives them. The NIC is locked. */
static inline void nic_cq_add_lanes(struct nic_cq *cq, uint32_t lane_mask)
{
	atomic_fetch_or_explicit(&cq->lane_mask, lane_mask, memory_order_release);
	if (cq->channel)
		atomic_fetch_or_explicit(&cq->channel->lane_mask, lane_mask, memory_order_release);
}

/*
 * As nic_qp_modify(), for any thread. *ret_has_come: a peer has come for the first time that could
 * map our memory.
 */
int nic_qp_change(struct nic_qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *asked,
	bool *ret_has_come);

/* Nobody has the queue pair any more. The NIC is locked. */
void nic_qp_end(struct nic_qp *qp);

/* A queue pair of the domain is gone. The NIC is locked. */
void nic_xrcd_put(struct nic_xrcd *xrcd);

/*
 * A queue pair of the domain lives on this lane now: whoever polls for the domain drives it. The
 * NIC is locked.
 */
void nic_xrcd_add_lane(struct nic_xrcd *xrcd, uint32_t lane);

/*
 * No queue pair knows this shared receive queue any more, which is in no table. The NIC is locked.
 */
void nic_srq_forget_on_lanes(const struct srq *srq);

/*
 * Where other processes find our XRC shared receive queues, for nic.srqs; 0: they do not, and send
 * packets. The NIC is locked.
 */
uint64_t nic_srq_share(void);

/* The NIC is being made: room for channels. Returns 0 or -ENOMEM. The NIC is locked. */
int nic_channel_start(void);

/* A completion queue is being made on the channel. The NIC is locked. */
void nic_channel_begin(struct nic_channel *channel);

/* Take in what peers on this host have left on these lanes. Any thread, without a worker's lock. */
void nic_collect(uint32_t lanes);

/* SIGNAL_CQ_HELD: come back when the signal is due. The worker is locked. */
void nic_cq_hold(struct nic_cq *cq, struct worker *worker);
/* The worker's hook. */
void nic_cq_alarm(struct worker *worker, struct deadline *alarm);

/* --- nic_capture.c --- */

/*
 * The NIC has memory. If somebody captures on this host, it is told, and packets are shown from the
 * first one on.
 */
void nic_capture_start(void);

/*
 * A lane is being made: it shows its packets when it is asked to. The NIC is locked. Returns 0 or
 * -ENOMEM.
 */
int nic_capture_lane_start(struct worker *worker, struct nic_public_lane *public);

/* Does its owner wait for an event, or is it about to? A hint. */
static inline bool nic_cq_is_armed(const struct nic_cq *cq)
{
	return cq_is_armed(&cq->cq);
}

/*
 * The Ethernet port of a raw packet queue pair, in three steps: opened before there is a queue
 * pair, looked after once there is one (the worker is locked), closed. The NIC is locked. 0 or
 * -errno.
 */
int nic_frames_open(struct nic_qp *qp, uint32_t ifindex);
void nic_frames_begin(struct nic_qp *qp, const struct nic_qp_init *init);
void nic_frames_end(struct nic_qp *qp);
void nic_frames_close(struct nic_qp *qp);

/* SIGNAL_QP_DISCONNECTED. The worker is locked. */
void nic_stream_over(struct nic_qp *qp);

/* The queue pair is about to go. The NIC and the worker are locked. */
void nic_stream_forget(struct nic_qp *qp);

/* The child of a fork has no flows. */
void nic_flows_forget(void);

#endif

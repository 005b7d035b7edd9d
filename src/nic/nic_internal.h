/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_INTERNAL_H
#define URNIC_NIC_NIC_INTERNAL_H

/*
 * What the files of the NIC share. Only they and the NIC's parts (nic_part.h: rooms peer, xrc and
 * connection) include this.
 *
 * - nic.c: the life of the NIC. nic_agent.c: urnicd and the lanes. nic_mr.c: memory regions.
 * - nic_cq.c, nic_channel.c, nic_qp.c, nic_srq.c, nic_wq.c, nic_xrcd.c: queues and domains.
 * - nic_ah.c, nic_multicast.c: destinations of datagrams. nic_raw.c: raw packets. nic_stream.c:
 *   iWARP.
 * - nic_link.c: packets that bypass the kernel's UDP. nic_capture.c: captures.
 *
 * Locks: see lock_order.def. Only a thread that has the NIC locked locks several workers.
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

/* When the delayed signal of a moderated queue is due: an alarm on each lane that may serve it. */
struct nic_cq_hold {
	struct deadline alarm;
	struct nic_cq *cq;
};

/* A completion channel: its waiters collect completions of its queues (struct event_collector). */
struct nic_channel {
	struct event_collector collector;
	struct event_queue *queue;
	uint32_t number; /* of its waiter; 0: none yet, or all are taken */
	_Atomic uint32_t lane_mask; /* lanes that push into its completion queues */
	struct worker *_Atomic driven; /* the lane that the waiter drives or has driven */
	struct worker *_Atomic visited; /* the lane whose sockets are in the descriptor, or were */
	_Atomic bool is_watching; /* its waiter's eventfd is in the descriptor */
	uint32_t raises_seen; /* of the eventfd; only the visitor has this and: */
	uint32_t visits;
	bool is_inherited; /* the descriptor is also the parent's of this forked process */
	uint64_t epoch; /* the NIC that `number` belongs to */
};

struct nic_cq {
	struct cq cq;
	struct nic_channel *channel; /* NULL: no events */
	nic_cq_event_fn *on_event;
	void *user;
	uint64_t epoch;
	uint32_t home; /* lane of queue pairs that send into it */
	_Atomic uint32_t lane_mask; /* lanes that push into it: those a poll drives */
	/* NIC_LANES_MAX entries once the queue was moderated; else NULL */
	struct nic_cq_hold *holds;
};

/* Operations on a queue pair of another process that this one has opened. Nothing is locked. */
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
	struct worker_stream stream; /* of a connected iWARP queue pair; else its fd is -1 */
	/* the connection of `stream`; under the NIC's and the worker's lock */
	struct nic_stream_user *stream_user;
	struct nic_cq *send_cq;
	struct nic_xrcd *xrcd; /* of XRC_RECV, else NULL */
	struct worker *worker;
	nic_qp_event_fn *on_event;
	void *user;
	uint64_t epoch;
	uint32_t open_paths; /* ATTR_AV, ATTR_ALT_PATH */
	struct nic_local *local; /* NULL: the peer is not on this host */
	struct nic_ud_endpoint *endpoint; /* of a UD queue pair, NULL: none (nic_datagram.c) */
	/* processes that have this XRC_RECV queue pair open (nic_target.h) */
	struct list borrowers;
	bool is_released; /* the program has destroyed it; it lives on for borrowers */
	/* NULL: the queue pair is this process's. Otherwise `qp` and `worker` are unset. */
	struct nic_borrowed_qp *borrowed;
};

struct nic_xrcd {
	struct list link; /* in nic.xrcds */
	uint32_t openings;
	uint32_t qp_count; /* queue pairs in it; they may outlive the openings */
	uint32_t id; /* not 0 */
	struct xrc_file file; /* zeros: not shared */
	uint32_t ifindex; /* of the device */
	struct nic_public_xrcd *public; /* what other processes see; NULL: nothing */
	uint32_t home; /* lane of a completion queue that is polled for this domain */
	uint32_t lane_mask; /* lanes of its queue pairs */
	uint64_t epoch;
};

struct nic_srq {
	struct srq srq;
	struct nic_cq *cq; /* of a tag-matching queue, else NULL */
	struct worker *worker; /* likewise: its lock protects the matching list */
	nic_srq_event_fn *on_event;
	void *user;
	uint64_t epoch;
};

struct nic_wq {
	struct wq wq;
	struct nic_cq *cq;
	struct worker *worker; /* its lock protects flushes */
	nic_wq_event_fn *on_event;
	void *user;
	uint64_t epoch;
};

struct nic_ah {
	struct list link; /* in nic.ahs */
	struct qp_path route;
	uint64_t epoch;
	uint32_t tried_lanes; /* lanes that have tried to open the local address; each tries once */
	bool has_path[NIC_LANES_MAX];
	uint32_t path[NIC_LANES_MAX]; /* NIC_PATH_NONE on lanes where opening failed */
	bool may_be_here; /* its address may be one of this host, and lanes know it: */
	struct datagram_path here[NIC_LANES_MAX];
};

/* Datagrams for this path are dropped and counted. */
#define NIC_PATH_NONE UINT32_MAX

/* Numbers of work queues have 16 bits, and those of queue pairs more, so none are equal. */
#define NIC_WQ_NUMBERS 65536

/*
 * URNIC_LINK: may packets bypass the kernel's UDP? In the order of the words for setting_choice().
 */
enum nic_link {
	NIC_LINK_IF_POSSIBLE,
	NIC_LINK_OFF,
	NIC_LINK_ON, /* likewise; where that is impossible, the log says so */
};

struct nic {
	bool is_up;
	enum nic_link link;
	bool has_link_thread;
	int link_kick; /* eventfd: a lane has a lookup for the link thread (nic_link.c) */
	int memory; /* memfd: the owner's side of NIC memory */
	int shared; /* memfd: the peers' side */
	struct arena arena;
	struct mr_table mrs;
	struct nic_public *public;
	uint32_t lane_count; /* the most lanes */
	uint32_t next_home;
	uint32_t moderated_count; /* moderated queues; each lane has room for as many alarms */
	struct srq_table *srqs;
	struct list memberships; /* of queue pairs in multicast groups */
	uint32_t wq_count;
	uint32_t last_wq_number;
	bool wq_by_number[NIC_WQ_NUMBERS];
	struct list ahs;
	bool has_datagrams[NIC_LANES_MAX]; /* lanes that need every address handle */
	uint32_t last_xrcd; /* number of the newest domain */
	struct worker *last_xrc_send; /* lane of the newest XRC_SEND queue pair, or NULL */
	bool is_local_on;
	struct impair *impair; /* NULL: none */
	bool is_stamping; /* a program reads times of completions */
	struct local_owner owner;
	int life[2]; /* a pipe: peers have copies of [0]; [1] is ours alone, so it breaks with us */
	struct waiter_table *waiters;
	bool is_waiter_taken[WAITER_COUNT]; /* taken by a channel */
	int waiter_eventfd[WAITER_COUNT]; /* 0: none yet; otherwise plus 1 */
	int work_kick; /* eventfd: nic_control_wake() */
	struct list xrcds; /* struct nic_xrcd */
	struct worker *worker[NIC_LANES_MAX];
	bool has_agent;
	struct agent_client agent;
};

/* Set nic.impair (nic_impair.c). */
void nic_impair_start(void);

/* A stream is opened, which impairments do not reach: the log says so once. */
void nic_impair_stream(void);

extern pthread_mutex_t nic_agent_lock;
extern struct nic nic;
/* Number of the process's NIC, which objects copy: a fork begins a new one. */
extern uint64_t nic_epoch;

/*
 * Lock and unlock the NIC. The holder cannot be cancelled, because a set-up call has much to undo.
 */
void nic_enter(void);
void nic_leave(void);

/*
 * Between nic_enter() and nic_leave(): unlock the NIC for a wait, and lock it again. State of the
 * NIC that was read before may have changed, and unreferenced objects may be gone. The caller
 * passes the result of nic_let_go() to nic_take_again().
 */
int nic_let_go(void);
void nic_take_again(int before);

/*
 * --- requests to urnicd (nic_agent.c) ---
 *
 * One thread at a time has its turn at urnicd. It has the NIC locked while it decides what to
 * request, and while it commits the answer. It has nothing locked while it waits. So a second
 * set-up call that needs urnicd waits for the turn. All other calls go on, and so does fork():
 *
 * 	nic_enter();
 * 	...                                   urnicd is needed
 * 	error = nic_request_begin();          the NIC was unlocked: check the need again
 * 	nic_request_enter();                  the NIC is unlocked, nic_agent_lock is locked
 * 	error = agent_client_...(&nic.agent)  which unlocks that around each wait
 * 	nic_request_leave(fd);                the NIC is locked, nic_agent_lock is not
 * 	...                                   commit
 * 	nic_request_end();
 * 	nic_leave();
 *
 * A function that "may wait for urnicd" unlocks the NIC meanwhile.
 */

/*
 * Begin and end a turn. The NIC is locked; waiting for the turn unlocks it meanwhile. Returns 0; or
 * -ETIMEDOUT, with a sentence in the log, when urnicd does not answer the thread whose turn it is.
 */
int nic_request_begin(void);
void nic_request_end(void);

/*
 * Within a turn: lock nic_agent_lock and unlock the NIC, and the reverse. In between, the caller
 * may use the connection. `fd` is the descriptor that has arrived, or -1. If the process forks
 * before the NIC is locked again, the child closes it.
 */
void nic_request_enter(void);
void nic_request_leave(int fd);

/*
 * Begin and end a turn in a thread that has not locked the NIC. In between, the thread may use the
 * connection. Returns as nic_request_begin(); after an error the thread has no turn.
 */
int nic_turn_begin(void);
void nic_turn_end(void);

/*
 * Lock nic_agent_lock to send a message without an answer, if no thread has the lock or a turn.
 * Returns whether it is locked.
 */
bool nic_turn_is_free(void);

/* agent_client_unclaim(); does not wait for a turn. */
void nic_agent_unclaim(struct agent_claim *claim);

/* The NIC is being made. And: in the child of a fork, the connection is the parent's. */
void nic_agent_start(void);
void nic_agent_forget(void);

uint64_t nic_random_u64(void);

/* A random permutation, for the caller to free; NULL: out of memory. */
struct permutation *nic_permutation_draw(void);

/* urnicd has sent a message, or ended. Control thread; nothing is locked. */
void nic_agent_ready(void);

/* Make the NIC if there is none. The NIC is locked. Returns 0 or -errno. */
int nic_start(void);

void nic_for_each_worker(void (*act)(struct worker *worker));

/* The worker of a lane from `*index` on, which is advanced; NULL: there are no more. */
struct worker *nic_worker_next(uint32_t *index);

/* The worker whose lane has the slot, any number; NULL: none of this process. */
struct worker *nic_worker_of_slot(uint32_t slot);

/* The queue pair of this number, any value, and type; NULL: none. The NIC is locked. */
struct nic_qp *nic_qp_find(uint32_t qpn, enum qp_type type);

/* Lock a worker and unlock it: threads that were in it at the call have left it at the return. */
void nic_worker_pass(struct worker *worker);

/*
 * The first peer on this host has appeared: from now on let peers map regions, present and future
 * ones, where that is sound (segment/segment.h). The NIC is not locked.
 */
void nic_mr_make_mappable(void);

/* For on-demand regions; memory/mr.h. */
bool nic_memory_touch(void *address, uint64_t bytes, bool is_written);

/*
 * Lane `index`, made if there is none; may wait for urnicd. The NIC is locked. Returns 0 or -errno.
 */
int nic_worker_get(uint32_t index, struct worker **ret_worker);

/*
 * Make the worker receive on a local address; may wait for urnicd. The NIC is locked, the worker is
 * not. Returns the index of the address there, or -errno.
 */
int nic_address_open(struct worker *worker, const struct gid *local, uint32_t ifindex);

/* The index of an address that the worker receives on, or -1. */
int nic_address_find(struct worker *worker, const struct gid *local, uint32_t ifindex);

/*
 * Let packets of an address bypass the kernel's UDP, if possible (nic_link.c) and URNIC_LINK
 * permits it. The NIC and the worker are locked.
 */
void nic_link_use(struct worker *worker, uint32_t index, uint32_t ifindex);

/*
 * Before the first UD queue pair on a lane: receive on all of init->locals, and open every address
 * handle on this lane. May wait for urnicd. The NIC is locked, the worker is not. Returns 0, or
 * -errno when none of the addresses can be opened.
 */
int nic_datagrams_start(struct worker *worker, const struct nic_qp_init *init);

/* Take a queue pair out of all multicast groups. The NIC is locked, its worker is not. */
void nic_multicast_forget(struct nic_qp *qp);

/* Log why a group of interface-local scope is refused. */
void nic_multicast_refuse_scope(void);

/* The lanes in this mask push into the queue, so a poll drives them. The NIC is locked. */
static inline void nic_cq_add_lanes(struct nic_cq *cq, uint32_t lane_mask)
{
	atomic_fetch_or_explicit(&cq->lane_mask, lane_mask, memory_order_release);
	if (cq->channel)
		atomic_fetch_or_explicit(&cq->channel->lane_mask, lane_mask, memory_order_release);
}

/*
 * nic_qp_modify(), for any thread. *ret_has_come: this change has connected the first peer that
 * could map our memory.
 */
int nic_qp_change(struct nic_qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *requested, bool *ret_has_come);

/* The last user of the queue pair is gone. The NIC is locked. */
void nic_qp_end(struct nic_qp *qp);

/* A queue pair of the domain is gone. The NIC is locked. */
void nic_xrcd_put(struct nic_xrcd *xrcd);

/*
 * A queue pair of the domain lives on this lane: pollers of the domain drive it. The NIC is locked.
 */
void nic_xrcd_add_lane(struct nic_xrcd *xrcd, uint32_t lane);

/*
 * Detach the queue pairs of all lanes from this shared receive queue, which the caller has removed
 * from its table. The NIC is locked.
 */
void nic_srq_forget_on_lanes(const struct srq *srq);

/*
 * Offset of the directory of XRC shared receive queues, for other processes. 0: none; they send
 * packets. The NIC is locked.
 */
uint64_t nic_srq_share(void);

/*
 * The NIC is being made: allocate NIC memory for channels. The NIC is locked. Returns 0 or -ENOMEM.
 */
int nic_channel_start(void);

/* A completion queue is being made on the channel. The NIC is locked. */
void nic_channel_begin(struct nic_channel *channel);

/* A queue of the channel was armed. Any thread, with nothing locked. */
void nic_channel_arm(struct nic_channel *channel);

/* A queue of the channel is about to go. The NIC is locked. */
void nic_channel_leave(struct nic_channel *channel);

/* Collect what peers on this host have left on these lanes. Any thread, with no worker locked. */
void nic_collect(uint32_t lanes);

/* SIGNAL_CQ_MODERATED: set an alarm for when the delayed signal is due. The worker is locked. */
void nic_cq_hold(struct nic_cq *cq, struct worker *worker);
/* The worker's hook. */
void nic_cq_alarm(struct worker *worker, struct deadline *alarm);

/* --- nic_capture.c --- */

/*
 * NIC memory exists. Offer it to a capture that runs on this host, so that it gets the first
 * packet.
 */
void nic_capture_start(void);

/* A lane is being made: prepare it for captures. The NIC is locked. Returns 0 or -ENOMEM. */
int nic_capture_lane_start(struct worker *worker, struct nic_public_lane *public);

/* Does the queue's owner wait for an event? A hint. */
static inline bool nic_cq_is_armed(const struct nic_cq *cq)
{
	return cq_is_armed(&cq->cq);
}

/*
 * The Ethernet port of a raw packet queue pair: open it before there is a queue pair; begin to
 * receive once there is one (the worker is locked); close it. The NIC is locked. Return 0 or
 * -errno.
 */
int nic_frames_open(struct nic_qp *qp, uint32_t ifindex);
void nic_frames_begin(struct nic_qp *qp, const struct nic_qp_init *init);
void nic_frames_close(struct nic_qp *qp);

/* SIGNAL_QP_DISCONNECTED. The worker is locked. */
void nic_stream_over(struct nic_qp *qp);

/* The queue pair is about to go. The NIC and the worker are locked. */
void nic_stream_forget(struct nic_qp *qp);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_INTERNAL_H
#define URNIC_NIC_NIC_INTERNAL_H

/*
 * What the files of the NIC share. Only the files of this room, its objects (nic/object) and its
 * parts (nic_part.h: rooms peer, xrc and connection) include this file.
 *
 * - nic.c: the life of the NIC. nic_agent.c: urnicd and the lanes.
 * - nic_path.c: addresses and paths. nic_link.c: packets that bypass the kernel's UDP.
 *   nic_capture.c: captures. nic_fabric.c: InfiniBand.
 *
 * Locks: see os/lock_order.def. A thread that locks several workers at once has the NIC locked.
 */

#include <pthread.h>

#include "agent/agent_client.h"
#include "queue/waiter.h"
#include "segment/nic_public.h"
#include "worker/worker.h"

/*
 * The numbers of work queues are below this number. The numbers of queue pairs are not. So a work
 * queue and a queue pair never have the same number.
 */
#define NIC_WQ_NUMBERS 65536

/*
 * The values of URNIC_LINK: may packets bypass the kernel's UDP? nic.c names these values, in the
 * same order, in its call of setting_choice().
 */
enum nic_link {
	NIC_LINK_IF_POSSIBLE,
	NIC_LINK_OFF,
	NIC_LINK_ON, /* as NIC_LINK_IF_POSSIBLE, but the log says when it is impossible */
	/* Use AF_XDP; if that is impossible, log why, and do as NIC_LINK_IF_POSSIBLE does */
	NIC_LINK_XDP,
	/*
	 * As NIC_LINK_XDP, but the XDP program runs in front of the network stack, not in the
	 * driver
	 */
	NIC_LINK_XDP_GENERIC,
};

struct nic {
	bool is_up;
	enum nic_link link;
	bool has_link_thread;
	int link_kick; /* eventfd that wakes the link thread for a lane's lookup (nic_link.c) */
	int memory; /* memfd: the owner's side of NIC memory */
	int shared; /* memfd: the peers' side */
	struct arena arena;
	struct mr_table mrs;
	struct nic_public *public;
	uint32_t lane_count; /* the most lanes that the process uses */
	uint32_t next_home;
	/* Number of moderated queues; each lane has room for as many alarms */
	uint32_t moderated_count;
	struct srq_table *srqs;
	struct list memberships; /* of struct membership: queue pairs in multicast groups */
	uint32_t wq_count;
	uint32_t last_wq_number;
	bool wq_by_number[NIC_WQ_NUMBERS];
	struct list ahs;
	/* Does the lane have UD queue pairs? If so, it needs a path for each address handle */
	bool has_datagrams[NIC_LANES_MAX];
	uint32_t last_xrcd; /* number of the newest domain */
	/* The lane of the newest XRC_SEND queue pair; NULL: there was none */
	struct worker *last_xrc_send;
	bool is_local_on;
	struct impair *impair; /* NULL: none */
	bool is_selective_on; /* URNIC_SELECTIVE */
	bool is_spinning_off; /* URNIC_POLL */
	struct cc_params cc;
	bool is_stamping; /* a program reads the times of completions (nic_cq_stamp()) */
	struct local_owner owner;
	/*
	 * A pipe that breaks when this process ends: peers have copies of life[0], and only this
	 * process has life[1]
	 */
	int life[2];
	struct waiter_table *waiters;
	bool is_waiter_taken[WAITER_COUNT]; /* does a channel use the waiter? */
	/* The descriptor of each waiter's eventfd, plus 1; 0: there is none yet */
	int waiter_eventfd[WAITER_COUNT];
	int work_kick; /* eventfd that nic_control_wake() raises */
	struct list xrcds; /* of struct nic_xrcd */
	struct worker *worker[NIC_LANES_MAX];
	bool has_agent;
	struct agent_client agent;
};

/* Set nic.impair (nic_impair.c). */
void nic_impair_start(void);

/* Set nic.cc, for all lanes that are made later (nic_congestion.c). */
void nic_congestion_start(void);

/* The congestion control of a lane; NULL: off. */
const struct cc_params *nic_congestion(void);

/*
 * A stream is being opened: log that impairments have no effect on streams. Only the first call
 * logs.
 */
void nic_impair_stream(void);

extern pthread_mutex_t nic_agent_lock;
extern struct nic nic;
/*
 * The number of the process's NIC, which each object copies. It changes at a fork, so the child
 * recognizes objects of its parent.
 */
extern uint64_t nic_epoch;

/*
 * Lock and unlock the NIC. The thread that has the NIC locked cannot be cancelled, because a
 * cancelled set-up call would leave its work half done.
 */
void nic_enter(void);
void nic_leave(void);

/*
 * For a wait between nic_enter() and nic_leave(): nic_wait_begin() unlocks the NIC, and
 * nic_wait_end() locks it again. The caller passes the result of nic_wait_begin() to
 * nic_wait_end(). During the wait, other threads may change the NIC's state, and may destroy
 * objects to which the caller has no reference.
 */
int nic_wait_begin(void);
void nic_wait_end(int before);

/*
 * --- requests to urnicd (nic_agent.c) ---
 *
 * One thread at a time has its turn at urnicd. While that thread decides what to request, and while
 * it commits the answer, it has the NIC locked. It has no lock while it waits for urnicd. So a
 * second set-up call that needs urnicd waits for its turn, but all other calls can run, and so can
 * fork():
 *
 *     nic_enter();
 *     ...                                   urnicd is needed
 *     error = nic_request_begin();          the NIC was unlocked: check the need again
 *     nic_request_enter();                  the NIC is unlocked, nic_agent_lock is locked
 *     error = agent_client_...(&nic.agent)  unlocks nic_agent_lock around each wait
 *     nic_request_leave(fd);                the NIC is locked, nic_agent_lock is not
 *     ...                                   commit
 *     nic_request_end();
 *     nic_leave();
 *
 * A function that "may wait for urnicd" unlocks the NIC during the wait.
 */

/*
 * Begin and end a turn. The NIC is locked; nic_request_begin() unlocks it while it waits for the
 * turn. Returns 0. If urnicd does not answer the thread that has the turn, nic_request_begin() logs
 * why, and returns -ETIMEDOUT.
 */
int nic_request_begin(void);
void nic_request_end(void);

/*
 * Within a turn: nic_request_enter() unlocks the NIC and locks nic_agent_lock; nic_request_leave()
 * does the reverse. In between, the caller may use the connection. `fd` is the descriptor that the
 * caller has received from urnicd, or -1. If the process forks before the NIC is locked again, the
 * child closes `fd`.
 */
void nic_request_enter(void);
void nic_request_leave(int fd);

/*
 * Begin and end a turn in a thread that has not locked the NIC. In between, the thread may use the
 * connection. Returns what nic_request_begin() does; after an error the thread does not have the
 * turn.
 */
int nic_turn_begin(void);
void nic_turn_end(void);

/*
 * Try to lock nic_agent_lock, so that the caller can send urnicd a message that has no answer.
 * Returns true with the lock taken. Returns false when another thread has the lock or the turn.
 */
bool nic_turn_try(void);
/*
 * nic_turn_try() that waits for nic_agent_lock. So it returns false only when another thread has
 * the turn. That thread calls nic_control_send_strays() when its turn ends.
 */
bool nic_turn_try_after_wait(void);

/*
 * Log why urnicd has refused a request, if `error` is not 0. Returns `error`. nic_agent_lock is
 * locked.
 */
int nic_agent_log(int error);

/* Do what agent_client_unclaim() does, but do not wait for a turn. nic_agent_lock is not locked. */
void nic_agent_unclaim(struct agent_claim *claim);

/*
 * nic_agent_start(): the NIC is being created. nic_agent_forget(): in the child of a fork, close
 * the connection, which is the parent's.
 */
void nic_agent_start(void);
void nic_agent_forget(void);

/* nic_random.c: before all other draws. Returns 0, or -errno if there are no random numbers. */
int nic_random_start(void);
/* In the child of a fork: the parent will use the bytes that were drawn in advance. */
void nic_random_forget(void);

uint64_t nic_random_u64(void);

/* The NIC is locked. Takes a system call only once in many calls. */
uint8_t nic_random_byte(void);

/* Returns a random permutation, which the caller frees; NULL when out of memory. */
struct permutation *nic_permutation_draw(void);

/* urnicd has sent a message, or has ended. The control thread calls this, with no lock. */
void nic_agent_ready(void);

/*
 * Create the NIC's memory and tables, if that was not done yet. The NIC is locked. Returns 0 or
 * -errno.
 */
int nic_start(void);

/* From now on a forked child forgets its parent's NIC, and has none of its own. */
void nic_fork_watch(void);

void nic_for_each_worker(void (*act)(struct worker *worker));

/*
 * The first worker whose lane has index `*index` or a later one. Sets *index to the index after it.
 * NULL: there are no more.
 */
struct worker *nic_worker_next(uint32_t *index);

/*
 * The worker whose lane has slot `slot`, which may be any number. NULL: no lane of this process has
 * that slot.
 */
struct worker *nic_worker_of_slot(uint32_t slot);

/*
 * Lock a worker and unlock it again. So any thread that had the worker locked before this call has
 * unlocked it on return.
 */
void nic_worker_pass(struct worker *worker);

/*
 * Get lane `index`, and create it if it does not exist; may wait for urnicd. The NIC is locked.
 * Returns 0 or -errno.
 */
int nic_worker_get(uint32_t index, struct worker **ret_worker);

/*
 * Make the worker receive on a local address; may wait for urnicd. The NIC is locked, the worker is
 * not. Returns the address's index on that worker, or -errno.
 */
int nic_address_open(struct worker *worker, const struct gid *local, uint32_t ifindex);

/*
 * Open a path to queue pair `dest_qpn`, and set path->id and path->cnp_id. `pkey_index` is used for
 * InfiniBand only. The NIC is locked, the worker is not. Returns 0 or -errno.
 */
int nic_path_open(
	struct worker *worker, struct qp_path *path, uint32_t dest_qpn, uint32_t pkey_index);

/* Close the path. The NIC and the worker are locked. */
void nic_path_close(struct worker *worker, const struct qp_path *path);

/* The index of an address on which the worker receives, or a negative number. */
int nic_address_find(struct worker *worker, const struct gid *local, uint32_t ifindex);

/*
 * Let the packets of the worker's address `index` bypass the kernel's UDP, if that is possible
 * (nic_link.c) and URNIC_LINK permits it. The NIC and the worker are locked.
 */
void nic_link_use(struct worker *worker, uint32_t index, uint32_t ifindex);

/* In the child of a fork, where the link thread does not exist: close its eventfd. */
void nic_link_forget(void);

/* --- nic_capture.c --- */

/*
 * NIC memory exists. Offer it to a capturing process that runs on this host, so that the capture
 * includes the first packet.
 */
void nic_capture_start(void);

/* A lane is being created: prepare it for captures. The NIC is locked. Returns 0 or -ENOMEM. */
int nic_capture_lane_start(struct worker *worker, struct nic_public_lane *public);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_PART_H
#define URNIC_NIC_NIC_PART_H

/*
 * The parts of the NIC that its objects do not know: other processes of the host, XRC domains that
 * processes share, connection managers. Each part is a table of hooks. The NIC calls the hooks at
 * set-up, at the end of objects and for rare events. Posting, polling and packets call none.
 *
 * A part keeps its own state. Every hook may be NULL.
 *
 * Unless a hook says otherwise, the NIC is locked and no worker is.
 */

#include <stdbool.h>
#include <stdint.h>

struct gid;
struct nic_ah;
struct nic_peer;
struct nic_public_lane;
struct nic_qp;
struct nic_qp_init;
struct nic_xrcd;
struct worker;

struct nic_part {
	/* The NIC is being made. NIC memory exists. */
	void (*start)(void);
	/* A lane is being made. Returns 0 or -ENOMEM. */
	int (*lane_start)(struct worker *worker, struct nic_public_lane *public);
	/*
	 * Do the work for which nic_control_wake() was called. Control thread; nothing is locked.
	 */
	void (*work)(void);
	/* A descriptor of nic_control_watch_peer() broke. Control thread; nothing is locked. */
	void (*peers_check)(void);
	/* A process of the host has ended. */
	void (*peer_exited)(const struct nic_peer *peer);

	void (*qp_created)(struct nic_qp *qp, const struct nic_qp_init *init);
	/*
	 * The queue pair is in RTR. May wait for urnicd (nic_internal.h). Returns whether its peer
	 * is a process of this host that could map memory of the program.
	 */
	bool (*qp_connected)(struct nic_qp *qp);
	/* The queue pair is in RESET, or about to be destroyed. */
	void (*qp_disconnected)(struct nic_qp *qp);
	/* The queue pair is about to be destroyed. */
	void (*qp_ending)(struct nic_qp *qp);
	/*
	 * The queue pair's events (enum signal_event) were passed to its creator. The worker is
	 * locked; the NIC may be unlocked.
	 */
	void (*qp_events)(struct nic_qp *qp, uint32_t events);

	/* The address handle got a path on the lane, or is about to lose it. */
	void (*ah_opened)(struct nic_ah *ah, struct worker *worker);
	void (*ah_closing)(struct nic_ah *ah, struct worker *worker);
	/* The addresses of an interface's device have changed to these. */
	void (*addresses_changed)(uint32_t ifindex, const struct gid *locals, uint32_t local_count);

	/*
	 * A shared receive queue of an XRC domain has left its table: wait until no connection uses
	 * it. Returns false when a stopped peer does; then the memory of the queue must never be
	 * used again.
	 */
	bool (*srq_leave)(void);
	/*
	 * Wait until no borrower executes requests in our memory. Returns false when a stopped one
	 * does.
	 */
	bool (*borrowers_leave)(void);
	/* The XRC domain is going; its queue pairs are gone. */
	void (*xrcd_ending)(const struct nic_xrcd *xrcd);

	/*
	 * In the child of a fork: forget the parent's NIC, whose memory still exists. Last part
	 * first.
	 */
	void (*forget)(void);
	/*
	 * Around a fork: all workers are locked, nic_agent_lock is not. fork_prepare runs last part
	 * first. The other hooks run after it, in order. All run even if there is no NIC.
	 */
	void (*fork_prepare)(void);
	void (*fork_prepare_last)(void); /* after all other locks */
	void (*fork_parent)(void);
	void (*fork_child)(void);
};

/* The parts, NULL last (nic_parts.c). */
extern const struct nic_part *const nic_parts[];

/* Call a hook that returns nothing, for each part that has it, in order. */
#define NIC_PARTS_CALL(hook, ...)                                                      \
	do {                                                                           \
		for (const struct nic_part *const *part_ = nic_parts; *part_; part_++) \
			if ((*part_)->hook)                                            \
				(*part_)->hook(__VA_ARGS__);                           \
	} while (0)

/* The same, last part first. */
#define NIC_PARTS_CALL_BACKWARDS(hook)                          \
	do {                                                    \
		for (uint32_t i_ = nic_part_count(); i_-- > 0;) \
			if (nic_parts[i_]->hook)                \
				nic_parts[i_]->hook();          \
	} while (0)

static inline uint32_t nic_part_count(void)
{
	uint32_t count = 0;

	while (nic_parts[count])
		count++;
	return count;
}

#endif

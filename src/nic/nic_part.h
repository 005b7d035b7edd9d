/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_PART_H
#define URNIC_NIC_NIC_PART_H

/*
 * The parts of the NIC that its objects do not know: other processes of the host, XRC domains that
 * processes share, connection managers. Each part is a table of hooks. The NIC calls the hooks at
 * set-up, at the end of objects and for rare events; posting, polling and packets call none.
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
	/* The NIC is being made. It has memory. */
	void (*start)(void);
	/* A lane is being made. Returns 0 or -ENOMEM. */
	int (*lane_start)(struct worker *worker, struct nic_public_lane *public);
	/* Somebody has called nic_control_wake(). The control thread; nothing is locked. */
	void (*work)(void);
	/* A descriptor of nic_control_watch_peer() broke. The control thread; nothing is locked. */
	void (*peers_check)(void);
	/* This process of the host has ended. */
	void (*peer_exited)(const struct nic_peer *peer);

	/* The queue pair was made. */
	void (*qp_created)(struct nic_qp *qp, const struct nic_qp_init *init);
	/*
	 * It is in RTR. Asks (nic_internal.h). Returns whether its peer is a process of this host
	 * that could map our memory.
	 */
	bool (*qp_connected)(struct nic_qp *qp);
	/* It is in RESET, or about to be destroyed. */
	void (*qp_disconnected)(struct nic_qp *qp);
	/* It is about to be destroyed. */
	void (*qp_ending)(struct nic_qp *qp);
	/*
	 * The program was told these events (enum signal_event). The worker is locked, the NIC need
	 * not be.
	 */
	void (*qp_events)(struct nic_qp *qp, uint32_t events);

	/* The address handle has a path on the lane, or is about to lose it. */
	void (*ah_opened)(struct nic_ah *ah, struct worker *worker);
	void (*ah_closing)(struct nic_ah *ah, struct worker *worker);
	/* The device of this interface has these addresses now. */
	void (*addresses_changed)(uint32_t ifindex, const struct gid *locals, uint32_t local_count);

	/*
	 * A shared receive queue of an XRC domain is found no longer: wait until no connection uses
	 * it. False when a peer stands still there: then its memory must never be used again.
	 */
	bool (*srq_leave)(void);
	/* Wait until no borrower is at work in our memory. False when one stands still there. */
	bool (*borrowers_leave)(void);
	/* The XRC domain is going, and has no queue pairs any more. */
	void (*xrcd_ending)(const struct nic_xrcd *xrcd);

	/*
	 * The NIC goes, in the child of a fork; its memory is still there. From the last part to
	 * the first.
	 */
	void (*forget)(void);
	/*
	 * A fork: all workers are locked, nic_agent_lock is not. From the last part to the first;
	 * the others, after it, in order, and also where there is no NIC.
	 */
	void (*fork_prepare)(void);
	void (*fork_prepare_last)(void); /* after all other locks */
	void (*fork_parent)(void);
	void (*fork_child)(void);
};

/* The parts, NULL last: the one place that knows all (nic_parts.c). */
extern const struct nic_part *const nic_parts[];

/* Call a hook that returns nothing, of each part that has it, in order. */
#define NIC_PARTS_CALL(hook, ...)                                                      \
	do {                                                                           \
		for (const struct nic_part *const *part_ = nic_parts; *part_; part_++) \
			if ((*part_)->hook)                                            \
				(*part_)->hook(__VA_ARGS__);                           \
	} while (0)

/* The same, from the last to the first. */
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

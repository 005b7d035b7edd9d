/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_PART_H
#define URNIC_NIC_NIC_PART_H

/*
 * The parts of the NIC are its objects (nic/object) and three rooms: peer serves other processes of
 * the host, xrc serves XRC domains that processes share, and connection serves connection managers.
 * The NIC's own files do not refer to the parts. Each part is a table of hooks. The NIC calls the
 * hooks at set-up, when objects are destroyed, and for rare events. Posts, polls and received
 * packets call no hook.
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
struct worker_hooks;

struct nic_part {
	/* The NIC is being created. NIC memory exists. */
	void (*start)(void);
	/* A lane is being created. Returns 0 or -ENOMEM. */
	int (*lane_start)(struct worker *worker, struct nic_public_lane *public);
	/*
	 * Do the work for which nic_control_wake() was called. The control thread calls this with
	 * no lock.
	 */
	void (*work)(void);
	/* A pipe of nic_control_watch_peer() broke. The control thread calls this with no lock. */
	void (*peers_check)(void);
	/*
	 * urnicd has leased the lane's slot to another process, or the lane's port has gone. No
	 * worker is locked; the NIC may be unlocked.
	 */
	void (*lane_lost)(struct worker *worker);
	/* The process `peer` on this host has ended. */
	void (*peer_exited)(const struct nic_peer *peer);

	void (*qp_created)(struct nic_qp *qp, const struct nic_qp_init *init);
	/*
	 * The queue pair is in RTR. May wait for urnicd (nic_internal.h). Returns whether its peer
	 * is in another process of this host, which could map memory of the program.
	 */
	bool (*qp_connected)(struct nic_qp *qp);
	/* The queue pair is in RESET, or about to be destroyed. */
	void (*qp_disconnected)(struct nic_qp *qp);
	/* The queue pair is about to be destroyed. */
	void (*qp_ending)(struct nic_qp *qp);
	/*
	 * The NIC has passed `events` (enum signal_event) of the queue pair to the program. The
	 * worker is locked; the NIC may be unlocked.
	 */
	void (*qp_events)(struct nic_qp *qp, uint32_t events);

	/*
	 * ah_opened: the address handle has got a path on the lane. ah_closing: the path is about
	 * to be closed.
	 */
	void (*ah_opened)(struct nic_ah *ah, struct worker *worker);
	void (*ah_closing)(struct nic_ah *ah, struct worker *worker);
	/* The addresses of the device of interface `ifindex` have changed to `locals`. */
	void (*addresses_changed)(uint32_t ifindex, const struct gid *locals, uint32_t local_count);

	/*
	 * Other processes can no longer find a shared receive queue of an XRC domain: wait until no
	 * connection uses it. Returns false when a suspended peer may still use it; then the memory
	 * of the queue must never be reused.
	 */
	bool (*srq_leave)(void);
	/*
	 * Wait until no borrower executes requests in this process's memory. Returns false when a
	 * suspended borrower may still do so.
	 */
	bool (*borrowers_leave)(void);
	/* The XRC domain is about to be freed; its queue pairs were destroyed. */
	void (*xrcd_ending)(const struct nic_xrcd *xrcd);

	/*
	 * In the child of a fork: forget the parent's NIC, whose memory is still mapped. The last
	 * part's hook is called first.
	 */
	void (*forget)(void);
	/*
	 * Around a fork. fork_prepare is called with all workers locked and nic_agent_lock
	 * unlocked. fork_prepare_last is called with nic_agent_lock locked, too. For both, the last
	 * part's hook is called first. For fork_parent and fork_child, the first part's hook is
	 * called first. These four hooks are called even if there is no NIC.
	 */
	void (*fork_prepare)(void);
	void (*fork_prepare_last)(void); /* all other locks are taken */
	void (*fork_parent)(void);
	void (*fork_child)(void);
};

/* Functions of the NIC's objects, which a lane calls (object/nic_object.c). */
extern const struct worker_hooks nic_worker_hooks;

/* The parts, followed by NULL (nic_parts.c). */
extern const struct nic_part *const nic_parts[];

/* Call a hook that returns nothing, for each part that has it, from the first part to the last. */
#define NIC_PARTS_CALL(hook, ...)                                                      \
	do {                                                                           \
		for (const struct nic_part *const *part_ = nic_parts; *part_; part_++) \
			if ((*part_)->hook)                                            \
				(*part_)->hook(__VA_ARGS__);                           \
	} while (0)

/* NIC_PARTS_CALL() from the last part to the first. */
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

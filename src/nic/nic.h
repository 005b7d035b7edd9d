/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_H
#define URNIC_NIC_NIC_H

/*
 * The NIC of this process: what the ABI front ends call.
 *
 * The first call that needs the NIC makes it: NIC memory (a memfd), the table of memory regions,
 * and the lanes. The first queue pair on a lane makes the lane: urnicd leases it a slot, and its
 * thread starts. No constructor starts anything.
 *
 * Completion queues are bound to lanes in rotation. A queue pair lives on the lane of its send
 * completion queue. An XRC_RECV queue pair, without one, lives on the lane of a completion queue of
 * its domain. So a thread that polls one completion queue drives one lane, and threads with a queue
 * each do not meet.
 *
 * Set-up calls serialize on one lock, and may wait for urnicd. Data-path calls (post, poll, arm)
 * take the lane's lock or none. Objects are the NIC's: the caller destroys each once, queue pairs
 * before their completion queues. No call uses an object that another thread is destroying.
 *
 * After fork() the child has no NIC; its first call makes one. Inherited objects are dead: posts
 * and polls find nothing, and destroying frees the child's copy only.
 *
 * Errors are -errno. For a refusal of the system (urnicd, ports, memory) the log also has a
 * sentence (os/log.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/gid.h"
#include "ether/flow.h"
#include "ether/raw.h"
#include "memory/mr.h"
#include "qp/qp.h"
#include "queue/cq.h"
#include "queue/tags.h"

struct event_queue;
struct nic_ah;
struct nic_channel;
struct nic_cq;
struct nic_flow;
struct nic_owner;
struct nic_qp;
struct nic_srq;
struct nic_wq;
struct nic_xrcd;

/* --- memory regions and windows ----------------------------------------------------------- */

/* mr_table_add() on the process's NIC. -ENOMEM also when there is no memory for a NIC. */
int nic_mr_register(const struct mr_region *region, uint32_t *ret_key)
	URNIC_EXPORT_AS(nic_mr_register);

/* mr_table_add_null() on the process's NIC. */
int nic_mr_register_null(uint32_t pd, uint32_t *ret_key) URNIC_EXPORT_AS(nic_mr_register_null);

/*
 * mr_table_change(): the region with this key becomes `region`, between two packets. On return the
 * NIC no longer accesses the region's former memory.
 */
int nic_mr_change(uint32_t key, uint32_t pd, const struct mr_region *region)
	URNIC_EXPORT_AS(nic_mr_change);

/*
 * Deregister. Waits for copies in progress; on return the NIC no longer reads or writes the region.
 * Returns 0; -EINVAL when `pd` has no region with this key; -EBUSY when windows are bound to it.
 */
int nic_mr_deregister(uint32_t key, uint32_t pd) URNIC_EXPORT_AS(nic_mr_deregister);

/*
 * Find the address of [iova, iova + bytes) in a region of `pd` that grants `access` (enum
 * mr_access). Returns 0; -ENOENT for an unknown key; -EPERM for another protection domain or
 * missing rights; -EFAULT for a range outside of the region.
 */
int nic_mr_find(uint32_t key, uint32_t pd, uint32_t access, uint64_t iova, uint64_t bytes,
	void **ret_address) URNIC_EXPORT_AS(nic_mr_find);

/* Zeroed NIC memory for programs (device memory of verbs). */
struct nic_dm {
	uint8_t *memory;
	uint64_t bytes;
	/* Private: */
	uint64_t offset;
	uint64_t epoch;
	struct nic_owner *owner; /* of imported memory, else NULL */
	void (*release)(struct nic_owner *owner); /* set with `owner` */
};

/* Allocate `bytes` (1 to 2^32) at a multiple of 2^log_align (0 to 31). Returns 0 or -ENOMEM. */
int nic_dm_create(uint64_t bytes, uint32_t log_align, struct nic_dm *ret_dm)
	URNIC_EXPORT_AS(nic_dm_create);

/* False after a fork, in the child. */
bool nic_dm_is_alive(const struct nic_dm *dm) URNIC_EXPORT_AS(nic_dm_is_alive);

/* Free the memory. The caller has deregistered all regions in it. */
void nic_dm_destroy(struct nic_dm *dm) URNIC_EXPORT_AS(nic_dm_destroy);

/*
 * mw_add() and mw_remove(): make an unbound memory window; end one, bound or not. The tag of a new
 * window of type 2 is 0, as with kernel devices; the binder chooses it.
 */
int nic_mw_create(uint32_t pd, enum mr_kind kind, uint32_t *ret_key) URNIC_EXPORT_AS(nic_mw_create);
int nic_mw_destroy(uint32_t key, uint32_t pd) URNIC_EXPORT_AS(nic_mw_destroy);

/* --- completion channels ------------------------------------------------------------------ */

/*
 * Let threads that wait for events in `queue` collect the completions of its completion queues
 * themselves (struct event_collector). `queue` outlives the channel. Returns 0 or -ENOMEM.
 */
int nic_channel_create(struct event_queue *queue, struct nic_channel **ret_channel)
	URNIC_EXPORT_AS(nic_channel_create);
/* The channel has no completion queues and no waiters. */
void nic_channel_destroy(struct nic_channel *channel) URNIC_EXPORT_AS(nic_channel_destroy);

/* --- completion queues -------------------------------------------------------------------- */

/*
 * Events of a completion queue, as bits of enum signal_event. Any thread calls, with a lane locked.
 * The function may wake threads, and may not call the NIC.
 */
typedef void nic_cq_event_fn(void *user, uint32_t events);

/*
 * Create a queue for at least `capacity` entries, 1 to CQ_CAPACITY_MAX. `channel` is the one to
 * which `on_event` posts; NULL: none. Returns 0 or -ENOMEM.
 */
int nic_cq_create(uint32_t capacity, struct nic_channel *channel, nic_cq_event_fn *on_event,
	void *user, struct nic_cq **ret_cq) URNIC_EXPORT_AS(nic_cq_create);
void nic_cq_destroy(struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_destroy);

/* The entries that the queue has room for. */
uint32_t nic_cq_capacity(const struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_capacity);

/*
 * Take up to `count` completions. If there are none, first drive the queue's lanes in this thread.
 * Returns how many were copied to `out`. Any thread.
 */
uint32_t nic_cq_poll(struct nic_cq *cq, uint32_t count, struct cqe *out)
	URNIC_EXPORT_AS(nic_cq_poll);

/* Take the next completion, if there is one, without driving a lane. Any thread. */
bool nic_cq_next(struct nic_cq *cq, struct cqe *out) URNIC_EXPORT_AS(nic_cq_next);

/* cq_resize(); -EIO for a queue from before a fork. */
int nic_cq_resize(struct nic_cq *cq, uint32_t capacity) URNIC_EXPORT_AS(nic_cq_resize);

/* cq_moderate(), in microseconds. Returns 0; -ENOMEM; -EIO for a queue from before a fork. */
int nic_cq_moderate(struct nic_cq *cq, uint32_t count, uint32_t period_us)
	URNIC_EXPORT_AS(nic_cq_moderate);

/* cq_ignore_overrun(). Call it before the first queue pair uses the queue. */
void nic_cq_ignore_overrun(struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_ignore_overrun);

/*
 * A program is going to read the times of completions (cqe.made_ns). Without this call, requests
 * that need no packet may have an earlier time, because posting then does not read the clock.
 */
void nic_cq_stamp(void) URNIC_EXPORT_AS(nic_cq_stamp);

/* Request one SIGNAL_COMPLETION event (queue/cq.h). Any thread. */
void nic_cq_arm(struct nic_cq *cq, enum cq_arm arm) URNIC_EXPORT_AS(nic_cq_arm);

/* --- XRC domains (IBTA annex A14) ---------------------------------------------------------- */

/*
 * Make a domain: the common owner of XRC shared receive queues and XRC_RECV queue pairs. Other
 * processes that open the same `file` on the same interface share its queues; a zeroed `file` is
 * shared with none. Destroy it after the queues and queue pairs. Returns 0 or -ENOMEM.
 */
int nic_xrcd_create(const struct xrc_file *file, uint32_t ifindex, struct nic_xrcd **ret_xrcd)
	URNIC_EXPORT_AS(nic_xrcd_create);
void nic_xrcd_destroy(struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_destroy);

/* Is a domain of the same file open in another process? And: publish that this process has one. */
bool nic_xrcd_is_elsewhere(const struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_is_elsewhere);
void nic_xrcd_show(struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_show);

/* False for a domain from before a fork. */
bool nic_xrcd_is_alive(const struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_is_alive);

/* --- shared receive queues ---------------------------------------------------------------- */

/* The most shared receive queues in a process. */
#define NIC_SRQ_COUNT_MAX 16384

/* As nic_cq_event_fn, for SIGNAL_SRQ_LIMIT. */
typedef void nic_srq_event_fn(void *user, uint32_t events);

struct nic_srq_init {
	uint32_t pd; /* of the memory that its requests name */
	struct nic_xrcd *xrcd; /* NULL: not an XRC queue */
	/* of an XRC or tag-matching queue only: where receive requests complete */
	struct nic_cq *cq;
	uint32_t tag_count; /* entries of the matching list of a tag-matching queue, else 0 */
	uint32_t ifindex;
	uint32_t depth; /* 1 to 2^20 */
	uint32_t sge_count_max; /* up to SGE_COUNT_MAX */
	nic_srq_event_fn *on_event;
	void *user;
};

/*
 * Returns 0; -ENOMEM; -EINVAL for a domain or completion queue from before a fork. An XRC or
 * tag-matching queue needs a slot; without one, the error is that of nic_qp_create(). Destroy the
 * queue after the queue pairs that use it. An XRC queue may go at any time, but before its
 * completion queue.
 */
int nic_srq_create(const struct nic_srq_init *init, struct nic_srq **ret_srq)
	URNIC_EXPORT_AS(nic_srq_create);
void nic_srq_destroy(struct nic_srq *srq) URNIC_EXPORT_AS(nic_srq_destroy);

/*
 * The queue's number, below 2^24. An ordinary queue's is unique in the process. An XRC queue's,
 * which peers name, is unique on the host.
 */
uint32_t nic_srq_number(const struct nic_srq *srq) URNIC_EXPORT_AS(nic_srq_number);

/*
 * Change the depth, then the limit; NULL leaves one as it is, limit 0 disarms. If fewer requests
 * than the limit are posted already, the event follows at once.
 *
 * Returns 0; -EINVAL for a depth below the posted requests, or a limit above the depth; -ENOMEM. On
 * an error nothing has changed.
 */
int nic_srq_modify(struct nic_srq *srq, const uint32_t *depth, const uint32_t *limit)
	URNIC_EXPORT_AS(nic_srq_modify);

struct nic_srq_attr {
	uint32_t depth;
	uint32_t sge_count_max;
	uint32_t limit; /* 0: off */
};

void nic_srq_query(struct nic_srq *srq, struct nic_srq_attr *ret_attr)
	URNIC_EXPORT_AS(nic_srq_query);

/* As nic_qp_post_recv(). Any thread. */
int nic_srq_post(struct nic_srq *srq, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_srq_post);

/*
 * Execute one operation on the matching list of a tag-matching queue, before this call returns.
 * Returns 0, -EINVAL or -ENOMEM as tags_execute(); -EINVAL also for any other queue. Any thread.
 */
int nic_srq_post_tag(struct nic_srq *srq, struct tag_wr *wr) URNIC_EXPORT_AS(nic_srq_post_tag);

/* --- queue pairs -------------------------------------------------------------------------- */

/* As nic_cq_event_fn, for a queue pair. */
typedef void nic_qp_event_fn(void *user, uint32_t events);

/* Receive work queues into which a raw packet queue pair delivers (ether/rss.h). */
struct nic_spread {
	uint32_t count; /* a power of two, 1 to RAW_TABLE_MAX */
	struct nic_wq *const *wqs;
	uint32_t fields; /* enum rss_field */
	uint8_t key[RSS_KEY_BYTES];
};

struct nic_qp_init {
	enum qp_type type;
	uint32_t pd; /* not of XRC_RECV */
	uint32_t ifindex; /* of the device's interface; shown by `urnic stat` */
	struct nic_cq *send_cq; /* NULL for XRC_RECV */
	struct nic_cq *recv_cq; /* NULL for XRC_SEND and XRC_RECV */
	struct nic_xrcd *xrcd; /* of XRC_RECV */
	struct nic_srq *srq; /* NULL: a receive queue of its own */
	struct qp_caps caps; /* within the limits that the device advertises */
	uint32_t mtu_bytes; /* of the port: limits the length of a datagram */
	/* the device's addresses, on which UD queue pairs receive; borrowed */
	const struct gid *locals;
	uint32_t local_count;
	const struct nic_spread *spread; /* NULL: none */
	bool is_all_signaled;
	nic_qp_event_fn *on_event;
	void *user;
};

/* Does the NIC have queue pairs of this type? Any thread. */
bool nic_has_qp_type(enum qp_type type) URNIC_EXPORT_AS(nic_has_qp_type);

/*
 * Create a queue pair in state RESET. A UD queue pair receives on all of `locals` from now on.
 *
 * Returns 0; -ENOMEM; -EOPNOTSUPP for an unsupported type; -EINVAL for queues from before a fork;
 * -EPERM for raw packets without CAP_NET_RAW; -EAGAIN when all slots of the host are leased;
 * -ENOENT when urnicd is not found; or another -errno of getting a slot.
 */
int nic_qp_create(const struct nic_qp_init *init, struct nic_qp **ret_qp)
	URNIC_EXPORT_AS(nic_qp_create);
void nic_qp_destroy(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_destroy);

/*
 * Open the XRC_RECV queue pair `number` of the domain. It may belong to another process that has
 * opened the same file, or be one that this process keeps for others. The opener gets its events,
 * and modifies and queries it like its own. Destroying it closes it; the last close ends it. If its
 * owner process ends, the queue pair is in the error state, and the opener gets SIGNAL_QP_FATAL.
 *
 * Returns 0; -EINVAL when there is none; -ENOMEM; -ETIMEDOUT when the owner does not answer; or
 * another -errno.
 */
int nic_target_open(struct nic_xrcd *xrcd, uint32_t number, nic_qp_event_fn *on_event, void *user,
	struct nic_qp **ret_qp) URNIC_EXPORT_AS(nic_target_open);

uint32_t nic_qp_number(const struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_number);

/*
 * qp_modify(). Opens and closes paths: the `path` of `requested` (ATTR_AV) and its `alt_path`
 * (ATTR_ALT_PATH) name the addresses; their `id` is ignored.
 *
 * Returns 0; -EINVAL as qp_modify(), or for addresses of two families; -EADDRINUSE when another
 * program has UDP port 4791 of the local address; or another -errno of opening the path.
 */
int nic_qp_modify(struct nic_qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *requested) URNIC_EXPORT_AS(nic_qp_modify);

/*
 * qp_set_rate(): limit the rate of the send queue, in RTS. Returns 0, -EINVAL, -ENOMEM, or -EIO
 * after a fork.
 */
int nic_qp_set_rate(struct nic_qp *qp, uint32_t rate_kbps, uint32_t burst_bytes)
	URNIC_EXPORT_AS(nic_qp_set_rate);

struct nic_qp_state {
	enum qp_state state;
	bool is_sq_draining; /* in SQD, and not yet drained */
	bool has_path; /* attr.path was set */
	bool has_alt_path;
	struct qp_attr attr;
};

struct nic_qp_state nic_qp_query(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_query);

/*
 * The interface of a device was removed: move its queue pairs (nic_qp_init.ifindex) to the error
 * state, except those in RESET.
 */
void nic_interface_removed(uint32_t ifindex) URNIC_EXPORT_AS(nic_interface_removed);

/*
 * The addresses of a device's interface have changed: receive datagrams for its queue pairs on
 * these from now on.
 */
void nic_addresses_changed(uint32_t ifindex, const struct gid *locals, uint32_t local_count)
	URNIC_EXPORT_AS(nic_addresses_changed);

/*
 * Post requests in order until one is refused, and send what may be sent now. Returns 0, -EINVAL or
 * -ENOMEM as qp_post_send(); *ret_posted is the number of posted requests. Any thread.
 */
int nic_qp_post_send(struct nic_qp *qp, const struct send_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_qp_post_send);

/*
 * Post requests that the caller has built in place (queue/sq.h) in the queue that
 * nic_qp_send_queue() returns. After a fork that queue has no slots; for a borrowed queue pair it
 * is NULL. Until the batch is posted, no other thread posts to the queue pair. nic_qp_post_batch()
 * returns 0, or -EINVAL with nothing posted.
 */
struct send_queue *nic_qp_send_queue(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_send_queue);
int nic_qp_post_batch(struct nic_qp *qp, const struct sq_batch *batch)
	URNIC_EXPORT_AS(nic_qp_post_batch);

/* Can queue pairs of this type send this opcode? Any `opcode` is legal input. */
bool nic_can_send(enum qp_type type, uint32_t opcode) URNIC_EXPORT_AS(nic_can_send);

int nic_qp_post_recv(struct nic_qp *qp, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_qp_post_recv);

/* --- multicast groups --------------------------------------------------------------------- */

enum {
	NIC_GROUP_COUNT_MAX =
		32, /* groups per process; one address on two interfaces counts twice */
	NIC_GROUP_QP_COUNT_MAX = 64, /* queue pairs per group */
};

/*
 * Receive the packets sent to a multicast group.
 *
 * `mgid`     An IPv6 multicast address, or `ff0e::ffff:a.b.c.d` for an IPv4 group.
 * `ifindex`  The interface to join on.
 *
 * Returns 0, also when the queue pair is in the group already; -EINVAL for another type of queue
 * pair or an address that is not multicast; -ENOMEM beyond the limits above; or the -errno of
 * joining.
 */
int nic_multicast_attach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex)
	URNIC_EXPORT_AS(nic_multicast_attach);

/* Returns 0, or -EINVAL when the queue pair is not in the group. */
int nic_multicast_detach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex)
	URNIC_EXPORT_AS(nic_multicast_detach);

/* Is the queue pair in any group? Destroying the queue pair leaves its groups. */
bool nic_multicast_is_attached(const struct nic_qp *qp) URNIC_EXPORT_AS(nic_multicast_is_attached);

/* --- address handles ---------------------------------------------------------------------- */

/*
 * The most address handles of one device. A lane has paths for those of four devices; further
 * handles get -ENOMEM there.
 */
#define NIC_AH_COUNT_MAX 65536

/*
 * Open the path to `route` (its id is ignored) on every lane that has or gets UD queue pairs, so
 * that a post need not. Multicast addresses are allowed. `::ffff:a.b.c.d` and `ff0e::ffff:a.b.c.d`
 * are the same group.
 *
 * Returns 0; -EINVAL for addresses of two families; -ENOMEM; -EADDRINUSE when another program has
 * UDP port 4791 of the local address; or another -errno of opening the path.
 */
int nic_ah_create(const struct qp_path *route, struct nic_ah **ret_ah)
	URNIC_EXPORT_AS(nic_ah_create);

/* Datagrams that are posted and not yet sent are lost. */
void nic_ah_destroy(struct nic_ah *ah) URNIC_EXPORT_AS(nic_ah_destroy);

/*
 * Set the path and rate of `target`, for datagrams from this queue pair; its queue pair number and
 * Q_Key stay. Any thread.
 */
void nic_ah_target(const struct nic_ah *ah, const struct nic_qp *qp, struct datagram_target *target)
	URNIC_EXPORT_AS(nic_ah_target);

/* --- raw packets -------------------------------------------------------------------------- */

/* The most work queues of a process. */
#define NIC_WQ_COUNT_MAX 16384

/* As nic_cq_event_fn, for a work queue. */
typedef void nic_wq_event_fn(void *user, uint32_t events);

struct nic_wq_init {
	uint32_t pd;
	struct nic_cq *cq;
	uint32_t depth; /* 1 to 2^20 */
	uint32_t sge_count_max; /* up to SGE_COUNT_MAX */
	nic_wq_event_fn *on_event;
	void *user;
};

/*
 * Create a receive work queue in state RESET. Returns 0; -ENOMEM; -EINVAL for a completion queue
 * from before a fork; or an error of getting a slot, as nic_qp_create().
 */
int nic_wq_create(const struct nic_wq_init *init, struct nic_wq **ret_wq)
	URNIC_EXPORT_AS(nic_wq_create);

/* Destroy the queue pairs that deliver into it first. */
void nic_wq_destroy(struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_destroy);

uint32_t nic_wq_number(const struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_number);
enum wq_state nic_wq_state(const struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_state);

/*
 * Legal transitions: any state to RESET, RESET to READY, READY to ERROR. Returns 0; -EINVAL for any
 * other; -EIO for a queue from before a fork.
 */
int nic_wq_modify(struct nic_wq *wq, enum wq_state to) URNIC_EXPORT_AS(nic_wq_modify);

/* As nic_qp_post_recv(). */
int nic_wq_post_recv(struct nic_wq *wq, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_wq_post_recv);

/*
 * Steer frames to a raw packet queue pair.
 *
 * `rule`  Kind, priority, tag, value, mask and counters are the caller's, the rest is set here. The
 *         counters outlive the flow.
 *
 * Returns 0; -EINVAL for a queue pair of another type; -ENOMEM; or another -errno of the socket.
 */
int nic_flow_create(struct nic_qp *qp, const struct flow_rule *rule, struct nic_flow **ret_flow)
	URNIC_EXPORT_AS(nic_flow_create);

/* Destroy flows before their queue pair. */
void nic_flow_destroy(struct nic_flow *flow) URNIC_EXPORT_AS(nic_flow_destroy);

#endif

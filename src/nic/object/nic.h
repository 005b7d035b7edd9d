/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_OBJECT_NIC_H
#define URNIC_NIC_OBJECT_NIC_H

/*
 * The NIC of this process. The ABI front ends call these functions.
 *
 * The first call that needs the NIC creates it: NIC memory (two memfds) and the table of memory
 * regions. The first queue pair or queue that needs a lane creates it: urnicd leases a slot, and
 * the lane's thread starts. Loading the library starts nothing.
 *
 * Completion queues are bound to lanes in rotation. A queue pair is on the lane of its send
 * completion queue. An XRC_RECV queue pair has no send completion queue; it is on the lane of the
 * newest XRC_SEND queue pair. If there is none, it is on the lane of its domain's newest shared
 * receive queue, or else on a lane chosen in rotation. So a thread that polls one completion queue
 * drives one lane, and threads that poll different queues seldom wait for each other.
 *
 * Set-up calls serialize on one lock, and may wait for urnicd. Data-path calls (post, poll, arm)
 * take the lane's lock or no lock. The NIC allocates the objects. The caller destroys each of them
 * once, queue pairs before their completion queues, and uses no object that another thread is
 * destroying.
 *
 * After fork() the child has no NIC; its first call creates one. Objects that the child has
 * inherited do not work in the child: posts fail, polls find no completions, and destroying an
 * object frees only the child's copy of it.
 *
 * Errors are returned as -errno. When urnicd or the kernel refuses something, the log also says why
 * (os/log.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/gid.h"
#include "ether/flow.h"
#include "ether/raw.h"
#include "memory/mr.h"
#include "qp/qp.h"
#include "queue/completion_counter.h"
#include "queue/cq.h"
#include "queue/tags.h"

struct event_queue;
struct nic_ah;
struct nic_channel;
struct nic_counter;
struct nic_cq;
struct nic_flow;
struct nic_owner;
struct nic_qp;
struct nic_srq;
struct nic_wq;
struct nic_xrcd;

/* --- memory regions and windows ----------------------------------------------------------- */

/*
 * Register a region: call mr_table_add() for the process's table. Returns what mr_table_add() does,
 * or the -errno of the failed creation of the NIC.
 */
int nic_mr_register(const struct mr_region *region, uint32_t *ret_key)
	URNIC_EXPORT_AS(nic_mr_register);

/* Register a null region: call mr_table_add_null() for the process's table. */
int nic_mr_register_null(uint32_t pd, uint32_t *ret_key) URNIC_EXPORT_AS(nic_mr_register_null);

/*
 * Replace the region with `key`, which belongs to `pd`, by `region` (mr_table_change()). No packet
 * finds a half-changed region. On return the NIC no longer accesses the region's former memory.
 */
int nic_mr_change(uint32_t key, uint32_t pd, const struct mr_region *region)
	URNIC_EXPORT_AS(nic_mr_change);

/*
 * Deregister a region. Waits for copies in progress, so on return the NIC no longer reads or writes
 * its memory. Returns 0; -EINVAL when `pd` has no region with this key; -EBUSY when windows are
 * bound to it.
 */
int nic_mr_deregister(uint32_t key, uint32_t pd) URNIC_EXPORT_AS(nic_mr_deregister);

/*
 * Find the address in this process of [iova, iova + bytes) in the region with `key`, which belongs
 * to `pd` and grants `access` (enum mr_access). Returns 0; -ENOENT for an unknown key; -EPERM for
 * another protection domain or missing rights; -EFAULT for a range outside of the region.
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
	struct nic_owner *owner; /* the owner of imported memory, else NULL */
	void (*release)(struct nic_owner *owner); /* releases `owner`; NULL if `owner` is NULL */
};

/* Allocate `bytes` (1 to 2^32) at a multiple of 2^log_align (0 to 31). Returns 0 or -ENOMEM. */
int nic_dm_create(uint64_t bytes, uint32_t log_align, struct nic_dm *ret_dm)
	URNIC_EXPORT_AS(nic_dm_create);

/* Returns false in the child of a fork, for memory of the parent. */
bool nic_dm_is_alive(const struct nic_dm *dm) URNIC_EXPORT_AS(nic_dm_is_alive);

/* Free the memory. The caller has deregistered all regions in it. */
void nic_dm_destroy(struct nic_dm *dm) URNIC_EXPORT_AS(nic_dm_destroy);

/*
 * nic_mw_create() creates an unbound memory window (mw_add()). nic_mw_destroy() destroys a window,
 * bound or not (mw_remove()). The low byte of a new type 2 window's key is 0, as with kernel
 * devices; the program that binds the window chooses that byte.
 */
int nic_mw_create(uint32_t pd, enum mr_kind kind, uint32_t *ret_key) URNIC_EXPORT_AS(nic_mw_create);
int nic_mw_destroy(uint32_t key, uint32_t pd) URNIC_EXPORT_AS(nic_mw_destroy);

/* --- completion channels ------------------------------------------------------------------ */

/*
 * Create a channel. From then on, threads that wait for events in `queue` collect the completions
 * of the channel's completion queues (struct event_collector). `queue` outlives the channel.
 * Returns 0 or -ENOMEM.
 */
int nic_channel_create(struct event_queue *queue, struct nic_channel **ret_channel)
	URNIC_EXPORT_AS(nic_channel_create);
/*
 * Destroy a channel. The caller has destroyed its completion queues, and no thread waits for their
 * events.
 */
void nic_channel_destroy(struct nic_channel *channel) URNIC_EXPORT_AS(nic_channel_destroy);

/* --- completion queues -------------------------------------------------------------------- */

/*
 * A function that receives the events of a completion queue, as bits of enum signal_event. The NIC
 * calls the function in any thread, with a lane locked. The function may wake threads, but may not
 * call the NIC.
 */
typedef void nic_cq_event_fn(void *user, uint32_t events);

/*
 * Create a queue for at least `capacity` entries, 1 to CQ_CAPACITY_MAX. `channel` is the completion
 * channel to which `on_event` posts; NULL: none. Returns 0 or -ENOMEM.
 */
int nic_cq_create(uint32_t capacity, struct nic_channel *channel, nic_cq_event_fn *on_event,
	void *user, struct nic_cq **ret_cq) URNIC_EXPORT_AS(nic_cq_create);
void nic_cq_destroy(struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_destroy);

/* The number of entries that the queue has room for. */
uint32_t nic_cq_capacity(const struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_capacity);

/*
 * Take up to `count` completions. If the queue is empty, drive its lanes in this thread, and try
 * again. Returns the number of completions that were copied to `out`. Any thread may call.
 */
uint32_t nic_cq_poll(struct nic_cq *cq, uint32_t count, struct cqe *out)
	URNIC_EXPORT_AS(nic_cq_poll);

/* Take the next completion, if there is one, without driving a lane. Any thread may call. */
bool nic_cq_next(struct nic_cq *cq, struct cqe *out) URNIC_EXPORT_AS(nic_cq_next);

/* Resize a queue. Returns what cq_resize() does, or -EIO for a queue from before a fork. */
int nic_cq_resize(struct nic_cq *cq, uint32_t capacity) URNIC_EXPORT_AS(nic_cq_resize);

/*
 * Moderate the events of a queue (cq_moderate()). Returns 0; -ENOMEM; -EIO for a queue from before
 * a fork.
 */
int nic_cq_moderate(struct nic_cq *cq, uint32_t count, uint32_t period_us)
	URNIC_EXPORT_AS(nic_cq_moderate);

/*
 * Let the queue ignore overruns (cq_ignore_overrun()). The caller does this before the first queue
 * pair uses the queue.
 */
void nic_cq_ignore_overrun(struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_ignore_overrun);

/*
 * From now on read the clock in every post, because a program reads the times of completions
 * (cqe.made_ns). Without this call, the completion of a request that needs no packet may show an
 * earlier time.
 */
void nic_cq_stamp(void) URNIC_EXPORT_AS(nic_cq_stamp);

/* Request one SIGNAL_COMPLETION event (queue/cq.h). Any thread may call. */
void nic_cq_arm(struct nic_cq *cq, enum cq_arm arm) URNIC_EXPORT_AS(nic_cq_arm);

/* --- XRC domains (IBTA annex A14) ---------------------------------------------------------- */

/*
 * Open a domain, to which XRC shared receive queues and XRC_RECV queue pairs belong. Processes that
 * open the same `file` on the same interface share the domain's queues. If `file` is zeroed, no
 * other process shares them. The caller destroys the domain after its queues and queue pairs.
 * Returns 0 or -ENOMEM.
 */
int nic_xrcd_create(const struct xrc_file *file, uint32_t ifindex, struct nic_xrcd **ret_xrcd)
	URNIC_EXPORT_AS(nic_xrcd_create);
void nic_xrcd_destroy(struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_destroy);

/*
 * nic_xrcd_is_elsewhere() returns whether another process has a domain of the same file open.
 * nic_xrcd_show() publishes that this process has the domain open.
 */
bool nic_xrcd_is_elsewhere(const struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_is_elsewhere);
void nic_xrcd_show(struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_show);

/* Returns false for a domain from before a fork. */
bool nic_xrcd_is_alive(const struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_is_alive);

/* --- shared receive queues ---------------------------------------------------------------- */

/* The most shared receive queues in a process. */
#define NIC_SRQ_COUNT_MAX 16384

/* nic_cq_event_fn for SIGNAL_SRQ_LIMIT of a shared receive queue. */
typedef void nic_srq_event_fn(void *user, uint32_t events);

struct nic_srq_init {
	uint32_t pd; /* the protection domain of the memory that its requests name */
	struct nic_xrcd *xrcd; /* NULL: not an XRC queue */
	/* For an XRC or tag-matching queue only: where its receive requests complete. */
	struct nic_cq *cq;
	uint32_t tag_count; /* length of the matching list of a tag-matching queue, else 0 */
	uint32_t ifindex;
	uint32_t depth; /* 1 to 2^20 */
	uint32_t sge_count_max; /* up to SGE_COUNT_MAX */
	nic_srq_event_fn *on_event;
	void *user;
};

/*
 * Create a shared receive queue. Returns 0; -ENOMEM; -EINVAL for a domain or completion queue from
 * before a fork. An XRC or tag-matching queue needs a slot. So the call may also return the errors
 * of nic_qp_create() for a slot.
 *
 * The caller destroys the queue after the queue pairs that use it. An XRC queue may be destroyed at
 * any time before its completion queue.
 */
int nic_srq_create(const struct nic_srq_init *init, struct nic_srq **ret_srq)
	URNIC_EXPORT_AS(nic_srq_create);
void nic_srq_destroy(struct nic_srq *srq) URNIC_EXPORT_AS(nic_srq_destroy);

/*
 * The queue's number, below 2^24. Peers name the number of an XRC queue, so it is unique on the
 * host. The number of any other queue is unique in the process.
 */
uint32_t nic_srq_number(const struct nic_srq *srq) URNIC_EXPORT_AS(nic_srq_number);

/*
 * Change the depth, and then the limit. A NULL pointer leaves its value unchanged. A limit of 0
 * turns the limit off. If fewer requests than the limit are pending already, SIGNAL_SRQ_LIMIT
 * follows at once.
 *
 * Returns 0; -EINVAL for a depth below the number of pending requests, or a limit above the depth;
 * -ENOMEM; -EIO for a queue from before a fork. After an error nothing has changed.
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

/* Do what nic_qp_post_recv() does, for a shared receive queue. Any thread may call. */
int nic_srq_post(struct nic_srq *srq, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_srq_post);

/*
 * Execute an operation on the matching list of a tag-matching queue; the operation is done when the
 * call returns. Returns 0, -EINVAL or -ENOMEM as tags_execute() does; -EINVAL also for a queue that
 * does not match tags. Any thread may call.
 */
int nic_srq_post_tag(struct nic_srq *srq, struct tag_wr *wr) URNIC_EXPORT_AS(nic_srq_post_tag);

/* --- queue pairs -------------------------------------------------------------------------- */

/* nic_cq_event_fn for a queue pair. */
typedef void nic_qp_event_fn(void *user, uint32_t events);

/* The receive work queues into which a raw packet queue pair delivers by a hash (ether/rss.h). */
struct nic_spread {
	uint32_t count; /* a power of two, 1 to RAW_TABLE_MAX */
	struct nic_wq *const *wqs;
	uint32_t fields; /* bits of enum rss_field */
	uint8_t key[RSS_KEY_BYTES];
};

struct nic_qp_init {
	enum qp_type type;
	uint32_t pd; /* unused for XRC_RECV */
	uint32_t ifindex; /* the device's interface, which `urnic stat` shows */
	struct nic_cq *send_cq; /* NULL for XRC_RECV */
	struct nic_cq *recv_cq; /* NULL for XRC_SEND and XRC_RECV */
	struct nic_xrcd *xrcd; /* the domain of an XRC_RECV queue pair */
	struct nic_srq *srq; /* NULL: the queue pair has a receive queue of its own */
	struct qp_caps caps; /* within the limits that the device advertises */
	uint32_t mtu_bytes; /* the port's MTU; no datagram is longer */
	/* The device's addresses, on which a UD queue pair receives. Borrowed for the call. */
	const struct gid *locals;
	uint32_t local_count;
	const struct nic_spread *spread; /* NULL: none */
	bool is_all_signaled;
	nic_qp_event_fn *on_event;
	void *user;
};

/* Does this NIC support queue pairs of this type? Any thread may call. */
bool nic_has_qp_type(enum qp_type type) URNIC_EXPORT_AS(nic_has_qp_type);

/*
 * Create a queue pair in state RESET. A UD queue pair receives on all of init->locals from now on.
 *
 * Returns 0; -ENOMEM; -EOPNOTSUPP for an unsupported type; -EINVAL for queues from before a fork;
 * -EPERM for raw packets without CAP_NET_RAW; -EAGAIN when all slots of the host are leased;
 * -ENOENT when urnicd is not found; or another -errno from the request for a slot.
 */
int nic_qp_create(const struct nic_qp_init *init, struct nic_qp **ret_qp)
	URNIC_EXPORT_AS(nic_qp_create);
void nic_qp_destroy(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_destroy);

/*
 * Open the XRC_RECV queue pair `number` of the domain. The queue pair may belong to another process
 * that has opened the same file. It may also be a queue pair that this process's program has
 * destroyed while other processes have it open. The opener gets the queue pair's events, and may
 * modify and query the queue pair. nic_qp_destroy() closes the queue pair; the last close destroys
 * it. If the process that owns the queue pair ends, the opener gets SIGNAL_QP_FATAL, and finds the
 * queue pair in the error state.
 *
 * Returns 0; -EINVAL when there is no such queue pair; -ENOMEM; -ETIMEDOUT when its owner does not
 * answer; or another -errno.
 */
int nic_target_open(struct nic_xrcd *xrcd, uint32_t number, nic_qp_event_fn *on_event, void *user,
	struct nic_qp **ret_qp) URNIC_EXPORT_AS(nic_target_open);

uint32_t nic_qp_number(const struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_number);

/*
 * Do what qp_modify() does, and also open and close paths. With ATTR_AV, requested->path has the
 * addresses of the path to open; with ATTR_ALT_PATH, requested->alt_path has them. The `id` of both
 * is ignored.
 *
 * Returns 0; -EINVAL as qp_modify() does, or when the two addresses of a path are not of one
 * family; -EADDRINUSE when another program has UDP port 4791 of the local address; or another
 * -errno of opening the path.
 */
int nic_qp_modify(struct nic_qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *requested) URNIC_EXPORT_AS(nic_qp_modify);

/*
 * Call qp_set_rate() to limit the rate of the send queue of a queue pair in RTS. Returns 0,
 * -EINVAL, -ENOMEM, or -EIO for a queue pair from before a fork.
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
 * The interface `ifindex` was removed: move its device's queue pairs (nic_qp_init.ifindex) to the
 * error state, except those in RESET.
 */
void nic_interface_removed(uint32_t ifindex) URNIC_EXPORT_AS(nic_interface_removed);

/*
 * The addresses of a device's interface have changed to `locals`: from now on the device's UD queue
 * pairs also receive on these.
 */
void nic_addresses_changed(uint32_t ifindex, const struct gid *locals, uint32_t local_count)
	URNIC_EXPORT_AS(nic_addresses_changed);

/*
 * Post requests in order until a request is refused, and send what may be sent now. Returns 0, or
 * -EINVAL or -ENOMEM as qp_post_send() does. *ret_posted is the number of posted requests. Any
 * thread may call.
 */
int nic_qp_post_send(struct nic_qp *qp, const struct send_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_qp_post_send);

/*
 * nic_qp_send_queue() returns the queue in which the caller builds requests in place (queue/sq.h).
 * In the child of a fork that queue has no slots. For a queue pair of another process the function
 * returns NULL. nic_qp_post_batch() posts the requests; until then no other thread may post to the
 * queue pair. It returns 0; or -EINVAL, after which nothing is posted.
 */
struct send_queue *nic_qp_send_queue(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_send_queue);
int nic_qp_post_batch(struct nic_qp *qp, const struct sq_batch *batch)
	URNIC_EXPORT_AS(nic_qp_post_batch);

/*
 * Note why a post to the queue pair was refused with -EINVAL (nic_failure_cause()). `wr` is the
 * refused request; NULL: a batch was refused.
 */
void nic_qp_explain_send(struct nic_qp *qp, const struct send_wr *wr)
	URNIC_EXPORT_AS(nic_qp_explain_send) __attribute__((cold));
void nic_qp_explain_recv(struct nic_qp *qp, const struct recv_wr *wr)
	URNIC_EXPORT_AS(nic_qp_explain_recv) __attribute__((cold));

/* Can queue pairs of this type send requests with `opcode`, which may have any value? */
bool nic_can_send(enum qp_type type, uint32_t opcode) URNIC_EXPORT_AS(nic_can_send);

/* Post receive requests in order until one is refused. Returns as nic_qp_post_send() does. */
int nic_qp_post_recv(struct nic_qp *qp, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_qp_post_recv);

/* --- completion counters ------------------------------------------------------------------ */

/*
 * Create a counter of completions or, if `counts_bytes`, of the bytes of completions. NULL: out of
 * memory.
 */
struct nic_counter *nic_counter_create(bool counts_bytes) URNIC_EXPORT_AS(nic_counter_create);

/* Destroy a counter. The caller has destroyed the queue pairs whose completions it counts. */
void nic_counter_destroy(struct nic_counter *counter) URNIC_EXPORT_AS(nic_counter_destroy);

/*
 * Let `counter` count a queue pair's completions of `operations`. Returns what qp_attach_counter()
 * does; -EOPNOTSUPP for XRC_RECV and raw packets, which have no receive queue of their own; -EIO
 * for a queue pair or counter from before a fork.
 */
int nic_counter_attach(struct nic_counter *counter, struct nic_qp *qp,
	enum counted_operation operations) URNIC_EXPORT_AS(nic_counter_attach);

/*
 * Read a value. The call first handles the packets that have arrived, so that the value includes
 * their completions. Any thread may call.
 */
uint64_t nic_counter_read(struct nic_counter *counter, enum completion_outcome outcome)
	URNIC_EXPORT_AS(nic_counter_read);

/* Set a value, or add to it. Any thread may call. */
void nic_counter_write(struct nic_counter *counter, enum completion_outcome outcome, uint64_t value)
	URNIC_EXPORT_AS(nic_counter_write);
void nic_counter_add(struct nic_counter *counter, enum completion_outcome outcome, uint64_t amount)
	URNIC_EXPORT_AS(nic_counter_add);

/* --- multicast groups --------------------------------------------------------------------- */

enum {
	/* The most groups of a process. One address on two interfaces counts as two groups. */
	NIC_GROUP_COUNT_MAX = 32,
	NIC_GROUP_QP_COUNT_MAX = 64, /* the most queue pairs of a group */
};

/*
 * Receive the packets sent to a multicast group.
 *
 * `mgid`     An IPv6 multicast address, or `ff0e::ffff:a.b.c.d` for an IPv4 group.
 * `ifindex`  The interface on which to join the group.
 * `mlid`     InfiniBand: the LID of the group, which the caller has joined at the subnet
 *            administrator. Ignored over Ethernet.
 *
 * Returns 0, also when the queue pair is in the group already; -EINVAL when the queue pair is not
 * UD, or the address is not multicast or is interface-local; -ENOMEM when memory or a number above
 * (NIC_GROUP_COUNT_MAX, NIC_GROUP_QP_COUNT_MAX) is exhausted; -EIO for a queue pair from before a
 * fork; or the -errno from joining.
 */
int nic_multicast_attach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex, uint16_t mlid)
	URNIC_EXPORT_AS(nic_multicast_attach);

/* Returns 0, or -EINVAL when the queue pair is not in the group. */
int nic_multicast_detach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex, uint16_t mlid)
	URNIC_EXPORT_AS(nic_multicast_detach);

/* Is the queue pair in any group? When the queue pair is destroyed, it leaves its groups. */
bool nic_multicast_is_attached(const struct nic_qp *qp) URNIC_EXPORT_AS(nic_multicast_is_attached);

/* --- address handles ---------------------------------------------------------------------- */

/*
 * The most address handles of one device. A lane has paths for the handles of four devices; for a
 * further handle nic_ah_create() returns -ENOMEM.
 */
#define NIC_AH_COUNT_MAX 65536

/*
 * Create an address handle. The NIC opens its path to `route` on every lane that has UD queue
 * pairs, or will have some later. So a post never has to open a path. `route->id` is ignored.
 * Multicast addresses are allowed. `::ffff:a.b.c.d` and `ff0e::ffff:a.b.c.d` name the same group.
 *
 * Returns 0; -EINVAL when the two addresses of `route` are not of one family; -ENOMEM; -EADDRINUSE
 * when another program has UDP port 4791 of the local address; or another -errno of opening the
 * path.
 */
int nic_ah_create(const struct qp_path *route, struct nic_ah **ret_ah)
	URNIC_EXPORT_AS(nic_ah_create);

/* Destroy a handle. Posted datagrams that name the handle and are not sent yet are lost. */
void nic_ah_destroy(struct nic_ah *ah) URNIC_EXPORT_AS(nic_ah_destroy);

/*
 * Set the path and the rate of `target` to those of the handle, for datagrams from queue pair `qp`.
 * The other fields of `target` do not change. Any thread may call.
 */
void nic_ah_target(const struct nic_ah *ah, const struct nic_qp *qp, struct datagram_target *target)
	URNIC_EXPORT_AS(nic_ah_target);

/* --- raw packets -------------------------------------------------------------------------- */

/* The most work queues of a process. */
#define NIC_WQ_COUNT_MAX 16384

/* nic_cq_event_fn for a work queue. */
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
 * from before a fork; or an error of nic_qp_create() for a slot.
 */
int nic_wq_create(const struct nic_wq_init *init, struct nic_wq **ret_wq)
	URNIC_EXPORT_AS(nic_wq_create);

/* The caller has destroyed the queue pairs that deliver into the queue. */
void nic_wq_destroy(struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_destroy);

uint32_t nic_wq_number(const struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_number);
enum wq_state nic_wq_state(const struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_state);

/*
 * Change the queue's state. Legal transitions: any state to RESET or to itself, RESET to READY,
 * READY to ERROR. Returns 0; -EINVAL for any other transition; -EIO for a queue from before a fork.
 */
int nic_wq_modify(struct nic_wq *wq, enum wq_state to) URNIC_EXPORT_AS(nic_wq_modify);

/* Do what nic_qp_post_recv() does, for a work queue. */
int nic_wq_post_recv(struct nic_wq *wq, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_wq_post_recv);

/*
 * Steer frames to a raw packet queue pair.
 *
 * `rule`  The caller sets kind, priority, tag, value, mask and counters; the function sets the
 *         other fields. The counters outlive the flow.
 *
 * Returns 0; -EINVAL when the queue pair is not a raw packet queue pair; -ENOMEM; or the -errno of
 * a call on the port's socket.
 */
int nic_flow_create(struct nic_qp *qp, const struct flow_rule *rule, struct nic_flow **ret_flow)
	URNIC_EXPORT_AS(nic_flow_create);

/* The caller destroys a flow before its queue pair. */
void nic_flow_destroy(struct nic_flow *flow) URNIC_EXPORT_AS(nic_flow_destroy);

#endif

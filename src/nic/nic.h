/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_H
#define URNIC_NIC_NIC_H

/*
 * The NIC of this process: what the ABI front ends call.
 *
 * There is one, made by the first call that needs it: NIC memory (a memfd), the table of memory
 * regions, and lanes. A lane comes with the first queue pair on it; then urnicd is asked for a
 * slot, and the lane's thread starts. Nothing starts in a constructor.
 *
 * A completion queue is bound to a lane when it is made, in turn; a queue pair lives on the lane of
 * its send queue's completion queue, or, without one, on that of a completion queue of its XRC
 * domain. So a thread that polls one completion queue drives one lane, and threads with a queue
 * each do not meet.
 *
 * Set-up calls serialize on one lock and may block (urnicd is asked). Data-path calls (post, poll,
 * arm) take the lane's lock or none. Objects are the NIC's: the caller destroys each once, queue
 * pairs before the completion queues that they use, and makes no other call on an object that is
 * being destroyed.
 *
 * After fork() the child has no NIC; its first call makes a new one. What it inherited is dead:
 * posts and polls find nothing, destroying frees the child's copy only.
 *
 * Errors are -errno. One that comes from the environment (urnicd, ports, memory) is also said in a
 * sentence in the log (os/log.h).
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

/* mr_table_add() on the process's NIC, or -ENOMEM when there is no memory for a NIC. */
int nic_mr_register(const struct mr_region *region, uint32_t *ret_key)
	URNIC_EXPORT_AS(nic_mr_register);

/* mr_table_add_null(), the same way. */
int nic_mr_register_null(uint32_t pd, uint32_t *ret_key) URNIC_EXPORT_AS(nic_mr_register_null);

/*
 * mr_table_change(): the region with this key becomes `region`, between two packets. When it
 * returns, nothing that it was before is read or written by the NIC any more.
 */
int nic_mr_change(uint32_t key, uint32_t pd, const struct mr_region *region)
	URNIC_EXPORT_AS(nic_mr_change);

/*
 * Deregister. When it returns, no byte of the region is read or written by the NIC any more; it
 * waits for copies under way. Returns 0; -EINVAL when `pd` has no region with this key; -EBUSY when
 * windows are bound to it.
 */
int nic_mr_deregister(uint32_t key, uint32_t pd) URNIC_EXPORT_AS(nic_mr_deregister);

/*
 * Where does [iova, iova + bytes) lie of a region of `pd` that grants `access` (enum mr_access)?
 * Returns 0; -ENOENT for a key that there is not, -EPERM for another protection domain or too few
 * rights, -EFAULT for a range outside of the region.
 */
int nic_mr_find(uint32_t key, uint32_t pd, uint32_t access, uint64_t iova, uint64_t bytes,
	void **ret_address) URNIC_EXPORT_AS(nic_mr_find);

/* Memory of the NIC itself, zeroed, for programs that want some near to it. */
struct nic_dm {
	uint8_t *memory;
	uint64_t bytes;
	/* Private: */
	uint64_t offset;
	uint64_t block_bytes;
	uint64_t epoch;
	struct nic_owner *owner; /* of imported memory, else NULL */
	void (*release)(struct nic_owner *owner); /* with `owner` */
};

/*
 * Allocate `bytes` (1 to 2^32) at an address that is a multiple of 2^log_align (0 to 31). Returns 0
 * or -ENOMEM.
 */
int nic_dm_create(uint64_t bytes, uint32_t log_align, struct nic_dm *ret_dm)
	URNIC_EXPORT_AS(nic_dm_create);

/* False in the child of a fork, whose NIC it is not. */
bool nic_dm_is_alive(const struct nic_dm *dm) URNIC_EXPORT_AS(nic_dm_is_alive);

/* Give it back. No region lies in it any more. */
void nic_dm_destroy(struct nic_dm *dm) URNIC_EXPORT_AS(nic_dm_destroy);

/*
 * mw_add() and mw_remove(): a memory window that is not bound, and its end, bound or not. The tag
 * of a new one of type 2 is 0, as from the kernel; it is the binder's to choose.
 */
int nic_mw_create(uint32_t pd, enum mr_kind kind, uint32_t *ret_key) URNIC_EXPORT_AS(nic_mw_create);
int nic_mw_destroy(uint32_t key, uint32_t pd) URNIC_EXPORT_AS(nic_mw_destroy);

/* --- time --------------------------------------------------------------------------------- */

/* The clock that completions are stamped with (struct cqe, made_ns): monotonic nanoseconds. */
uint64_t nic_now_ns(void) URNIC_EXPORT_AS(nic_now_ns);

/* --- completion channels ------------------------------------------------------------------ */

/*
 * Have those that wait for events in `queue`, which outlives the channel, take in by themselves
 * what concerns its completion queues (struct event_lookout). Returns 0 or -ENOMEM.
 */
int nic_channel_create(struct event_queue *queue, struct nic_channel **ret_channel)
	URNIC_EXPORT_AS(nic_channel_create);
/* It has no completion queues, and nobody waits. */
void nic_channel_destroy(struct nic_channel *channel) URNIC_EXPORT_AS(nic_channel_destroy);

/* --- completion queues -------------------------------------------------------------------- */

/*
 * Events of a completion queue: enum signal_event bits. Called by any thread with a lane locked: it
 * may wake, it may not call the NIC.
 */
typedef void nic_cq_event_fn(void *user, uint32_t events);

/*
 * Create a queue for at least `capacity` entries, 1 to CQ_CAPACITY_MAX. `channel` is where
 * `on_event` posts what it hears; NULL: nowhere. Returns 0 or -ENOMEM.
 */
int nic_cq_create(uint32_t capacity, struct nic_channel *channel, nic_cq_event_fn *on_event,
	void *user, struct nic_cq **ret_cq) URNIC_EXPORT_AS(nic_cq_create);
void nic_cq_destroy(struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_destroy);

/* The entries it has room for. */
uint32_t nic_cq_capacity(const struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_capacity);

/*
 * Take up to `count` completions; when there are none, first let the NIC do what it can do now, in
 * this thread. Returns how many were copied to `out`. Any thread.
 */
uint32_t nic_cq_poll(struct nic_cq *cq, uint32_t count, struct cqe *out)
	URNIC_EXPORT_AS(nic_cq_poll);

/* Take the next completion, if one is there: only a look into memory. Any thread. */
bool nic_cq_next(struct nic_cq *cq, struct cqe *out) URNIC_EXPORT_AS(nic_cq_next);

/* cq_resize(), and -EIO for a queue from before a fork. */
int nic_cq_resize(struct nic_cq *cq, uint32_t capacity) URNIC_EXPORT_AS(nic_cq_resize);

/*
 * cq_moderate(), in microseconds. Returns 0; -ENOMEM; -EIO for a queue from before a fork.
 */
int nic_cq_moderate(struct nic_cq *cq, uint32_t count, uint32_t period_us)
	URNIC_EXPORT_AS(nic_cq_moderate);

/* cq_ignore_overrun(). Before the first queue pair uses the queue. */
void nic_cq_ignore_overrun(struct nic_cq *cq) URNIC_EXPORT_AS(nic_cq_ignore_overrun);

/*
 * A program is going to read when completions were made (struct cqe, made_ns). Until then those of
 * requests that need no packet may say an earlier time: the clock is not read for them.
 */
void nic_cq_stamp(void) URNIC_EXPORT_AS(nic_cq_stamp);

/* Ask for one events of SIGNAL_COMPLETION (queue/cq.h). Any thread. */
void nic_cq_arm(struct nic_cq *cq, enum cq_arm arm) URNIC_EXPORT_AS(nic_cq_arm);

/* --- XRC domains (IBTA annex A14) ---------------------------------------------------------- */

/*
 * Make a domain: what XRC shared receive queues and XRC_RECV queue pairs have in common. Other
 * processes that make one of the same file on the same interface share its queues; zeros: none
 * does. Returns 0 or -ENOMEM. It is destroyed after both.
 */
int nic_xrcd_create(const struct xrc_file *file, uint32_t ifindex, struct nic_xrcd **ret_xrcd)
	URNIC_EXPORT_AS(nic_xrcd_create);
void nic_xrcd_destroy(struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_destroy);

/* Has another process a domain of the same file open? And let others see that this one has. */
bool nic_xrcd_is_elsewhere(const struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_is_elsewhere);
void nic_xrcd_show(struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_show);

/* Is it of this process's NIC, and not one that was inherited through a fork? */
bool nic_xrcd_is_alive(const struct nic_xrcd *xrcd) URNIC_EXPORT_AS(nic_xrcd_is_alive);

/* --- shared receive queues ---------------------------------------------------------------- */

/* The most of them in a process. */
#define NIC_SRQ_COUNT_MAX 16384

/* Events of a shared receive queue, SIGNAL_SRQ_LIMIT; the same rules as for nic_cq_event_fn. */
typedef void nic_srq_event_fn(void *user, uint32_t events);

struct nic_srq_init {
	uint32_t pd; /* of the memory that its requests name */
	struct nic_xrcd *xrcd; /* NULL: not an XRC queue */
	struct nic_cq *cq; /* of an XRC or tag-matching queue only: where its requests complete */
	uint32_t tag_count; /* buffers on the matching list of a tag-matching queue, else 0 */
	uint32_t ifindex;
	uint32_t depth; /* 1 to 2^20 */
	uint32_t sge_count_max; /* up to SGE_COUNT_MAX */
	nic_srq_event_fn *on_event;
	void *user;
};

/*
 * Returns 0; -ENOMEM; -EINVAL for a domain or completion queue from before a fork; for an XRC or
 * tag-matching queue also what kept us from a slot, as nic_qp_create(). It is destroyed after the
 * queue pairs that take from it; an XRC queue at any time, but before its completion queue.
 */
int nic_srq_create(const struct nic_srq_init *init, struct nic_srq **ret_srq)
	URNIC_EXPORT_AS(nic_srq_create);
void nic_srq_destroy(struct nic_srq *srq) URNIC_EXPORT_AS(nic_srq_destroy);

/*
 * Its number, below 2^24: one of its own among those of this process; that of an XRC queue, which
 * the peer needs, among those of the host.
 */
uint32_t nic_srq_number(const struct nic_srq *srq) URNIC_EXPORT_AS(nic_srq_number);

/*
 * Change the depth (NULL: leave it), then the limit (NULL: leave it; 0: off). A limit that is not
 * reached when it is set is an event at once.
 *
 * Returns 0; -EINVAL for a depth below the requests that wait, or a limit above the depth; -ENOMEM.
 * Then nothing has changed.
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
 * Execute one operation on the matching list of a tag-matching queue; it is done when this returns.
 * Returns 0, -EINVAL or -ENOMEM as tags_execute(); -EINVAL also for another queue. Any thread.
 */
int nic_srq_post_tag(struct nic_srq *srq, struct tag_wr *wr) URNIC_EXPORT_AS(nic_srq_post_tag);

/* --- queue pairs -------------------------------------------------------------------------- */

/* Events of a queue pair; the same rules as for nic_cq_event_fn. */
typedef void nic_qp_event_fn(void *user, uint32_t events);

/* What a raw packet queue pair delivers into instead of a receive queue (ether/rss.h). */
struct nic_spread {
	uint32_t count; /* a power of two, 1 to RAW_TABLE_MAX */
	struct nic_wq *const *wqs;
	uint32_t fields; /* enum rss_field */
	uint8_t key[RSS_KEY_BYTES];
};

struct nic_qp_init {
	enum qp_type type;
	uint32_t pd; /* not of XRC_RECV */
	uint32_t ifindex; /* of the device's interface; for people who look */
	struct nic_cq *send_cq; /* NULL for XRC_RECV */
	struct nic_cq *recv_cq; /* NULL for XRC_SEND and XRC_RECV */
	struct nic_xrcd *xrcd; /* of XRC_RECV */
	struct nic_srq *srq; /* NULL: a receive queue of its own */
	struct qp_caps caps; /* within the limits that the device advertises */
	uint32_t mtu_bytes; /* of the port: the longest datagram */
	const struct gid
		*locals; /* the device's addresses, which datagrams may come to; of the caller */
	uint32_t local_count;
	const struct nic_spread *spread; /* NULL: none */
	bool is_all_signaled;
	nic_qp_event_fn *on_event;
	void *user;
};

/* Does the NIC have queue pairs of this type? Any thread. */
bool nic_has_qp_type(enum qp_type type) URNIC_EXPORT_AS(nic_has_qp_type);

/*
 * Create a queue pair in state RESET.
 *
 * One for datagrams receives on all of `locals` from now on.
 *
 * Returns 0; -ENOMEM; -EOPNOTSUPP for a type that there is not; -EINVAL for queues from before a
 * fork; -EPERM for raw packets without CAP_NET_RAW; or what kept us from a slot: -EAGAIN when all
 * slots of this host are taken, -ENOENT when urnicd is not found, or another -errno.
 */
int nic_qp_create(const struct nic_qp_init *init, struct nic_qp **ret_qp)
	URNIC_EXPORT_AS(nic_qp_create);
void nic_qp_destroy(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_destroy);

/*
 * Open the receiving queue pair of this number, any value, in the domain: one of another process
 * that has a domain of the same file, or one of this process that lives on for others. It has events,
 * is modified and queried like one that was created; destroying it closes it, and it goes when
 * nobody has it open. When the process ends in which it lives, that is an event (SIGNAL_QP_FATAL), and
 * it is in the error state.
 *
 * Returns 0; -EINVAL when there is none; -ENOMEM; -ETIMEDOUT when its process does not answer; or
 * another -errno.
 */
int nic_target_open(struct nic_xrcd *xrcd, uint32_t number, nic_qp_event_fn *on_event, void *user,
	struct nic_qp **ret_qp) URNIC_EXPORT_AS(nic_target_open);

uint32_t nic_qp_number(const struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_number);

/*
 * qp_modify(). Opens and closes the paths: asked->path with ATTR_AV, asked->alt_path with
 * ATTR_ALT_PATH, but for their `id`, say where to.
 *
 * Returns 0; -EINVAL as qp_modify(), or for addresses of two families; -EADDRINUSE when
 * something else has UDP port 4791 of the local address; or another -errno of opening the path.
 */
int nic_qp_modify(struct nic_qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *asked)
	URNIC_EXPORT_AS(nic_qp_modify);

/*
 * qp_set_rate(): the rate limit of the send queue, in RTS. Returns 0, -EINVAL, -ENOMEM, or -EIO
 * after a fork.
 */
int nic_qp_set_rate(struct nic_qp *qp, uint32_t rate_kbps, uint32_t burst_bytes)
	URNIC_EXPORT_AS(nic_qp_set_rate);

/* A queue pair as it is now. */
struct nic_qp_state {
	enum qp_state state;
	bool is_sq_draining; /* in SQD, and not drained yet */
	bool has_path; /* attr.path was set */
	bool has_alt_path;
	struct qp_attr attr;
};

struct nic_qp_state nic_qp_query(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_query);

/*
 * The interface of a device was removed: every queue pair made for it (nic_qp_init.ifindex) goes to
 * the error state, those in RESET excepted, which hold nothing.
 */
void nic_interface_removed(uint32_t ifindex) URNIC_EXPORT_AS(nic_interface_removed);

/*
 * The addresses of a device's interface have changed: datagrams for its queue pairs may come to
 * these now.
 */
void nic_addresses_changed(uint32_t ifindex, const struct gid *locals, uint32_t local_count)
	URNIC_EXPORT_AS(nic_addresses_changed);

/*
 * Post requests in order until one is refused, and send what may be sent now. Returns 0, -EINVAL or
 * -ENOMEM as qp_post_send(); *ret_posted is how many were taken. Any thread.
 */
int nic_qp_post_send(struct nic_qp *qp, const struct send_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_qp_post_send);

/*
 * The same with requests that are built in place (queue/sq.h), in the queue that
 * nic_qp_send_queue() returns. That is one without slots after a fork, and NULL for a receiving
 * queue pair of another process. Until they are posted nobody else posts to it. nic_qp_post_batch()
 * returns 0 or -EINVAL, and then has posted none.
 */
struct send_queue *nic_qp_send_queue(struct nic_qp *qp) URNIC_EXPORT_AS(nic_qp_send_queue);
int nic_qp_post_batch(struct nic_qp *qp, const struct sq_batch *batch)
	URNIC_EXPORT_AS(nic_qp_post_batch);

/* Can requests with this opcode, any number, be posted to queue pairs of this type? */
bool nic_can_send(enum qp_type type, uint32_t opcode) URNIC_EXPORT_AS(nic_can_send);

int nic_qp_post_recv(struct nic_qp *qp, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_qp_post_recv);

/* --- multicast groups --------------------------------------------------------------------- */

enum {
	NIC_GROUP_COUNT_MAX =
		32, /* groups in a process; the same address on two interfaces is two */
	NIC_GROUP_QP_COUNT_MAX = 64, /* queue pairs in one group */
};

/*
 * Receive what is sent to a group.
 *
 * `mgid`     An IP multicast address, or `ff0e::ffff:a.b.c.d` for one of IPv4.
 * `ifindex`  The interface that it is joined on.
 *
 * Returns 0, also when the queue pair is in the group already; -EINVAL for another type of queue
 * pair or an address that is not multicast; -ENOMEM beyond the limits above; or the -errno of
 * joining.
 */
int nic_multicast_attach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex)
	URNIC_EXPORT_AS(nic_multicast_attach);

/* Returns 0, or -EINVAL when it is not in the group. */
int nic_multicast_detach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex)
	URNIC_EXPORT_AS(nic_multicast_detach);

/* Is the queue pair in any group? Destroying it leaves them. */
bool nic_multicast_is_attached(const struct nic_qp *qp) URNIC_EXPORT_AS(nic_multicast_is_attached);

/* --- address handles ---------------------------------------------------------------------- */

/*
 * The most of them on one device. Each lane has paths for those of four devices; beyond, the lane
 * refuses with -ENOMEM.
 */
#define NIC_AH_COUNT_MAX 65536

/*
 * Open the way to an address (`route`, its id apart) for datagrams from every lane that has queue
 * pairs for them, now and later, so that a post need not. Multicast addresses are as good as
 * others; `::ffff:a.b.c.d` and `ff0e::ffff:a.b.c.d` are the same one.
 *
 * Returns 0; -EINVAL for addresses of two families; -ENOMEM; -EADDRINUSE when something else has
 * UDP port 4791 of the local address; or another -errno of opening the path.
 */
int nic_ah_create(const struct qp_path *route, struct nic_ah **ret_ah)
	URNIC_EXPORT_AS(nic_ah_create);

/* Datagrams that are posted and not sent yet are lost. */
void nic_ah_destroy(struct nic_ah *ah) URNIC_EXPORT_AS(nic_ah_destroy);

/*
 * Where datagrams of this queue pair go: the path and its rate; the queue pair there and its key
 * are left alone. Any thread.
 */
void nic_ah_target(const struct nic_ah *ah, const struct nic_qp *qp, struct datagram_target *target)
	URNIC_EXPORT_AS(nic_ah_target);

/* --- raw packets -------------------------------------------------------------------------- */

/* The most work queues of a process. */
#define NIC_WQ_COUNT_MAX 16384

/* Events of a work queue; the same rules as for nic_cq_event_fn. */
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
 * from before a fork; or what kept us from a slot, as nic_qp_create().
 */
int nic_wq_create(const struct nic_wq_init *init, struct nic_wq **ret_wq)
	URNIC_EXPORT_AS(nic_wq_create);

/* After the queue pairs that deliver into it. */
void nic_wq_destroy(struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_destroy);

uint32_t nic_wq_number(const struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_number);
enum wq_state nic_wq_state(const struct nic_wq *wq) URNIC_EXPORT_AS(nic_wq_state);

/*
 * To RESET from anywhere, from there to READY, from there to ERROR. Returns 0; -EINVAL for another
 * way; -EIO for a queue from before a fork.
 */
int nic_wq_modify(struct nic_wq *wq, enum wq_state to) URNIC_EXPORT_AS(nic_wq_modify);

/* As nic_qp_post_recv(). */
int nic_wq_post_recv(struct nic_wq *wq, const struct recv_wr *wrs, uint32_t count,
	uint32_t *ret_posted) URNIC_EXPORT_AS(nic_wq_post_recv);

/*
 * Steer frames to a raw packet queue pair.
 *
 * `rule`  Its kind, priority, tag, value, mask and counters; the rest is set here. The counters
 *         outlive the flow.
 *
 * Returns 0; -EINVAL for a queue pair of another type; -ENOMEM; or another -errno of the socket.
 */
int nic_flow_create(struct nic_qp *qp, const struct flow_rule *rule, struct nic_flow **ret_flow)
	URNIC_EXPORT_AS(nic_flow_create);

/* Before the queue pair is destroyed. */
void nic_flow_destroy(struct nic_flow *flow) URNIC_EXPORT_AS(nic_flow_destroy);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/qp.h"

#include <assert.h>
#include <stddef.h>

#include "front/verbs/cq.h"
#include "front/verbs/fork.h"
#include "front/verbs/pd.h"
#include "front/verbs/result.h"
#include "front/verbs/srq.h"
#include "front/verbs/strict.h"
#include "front/verbs/wq.h"
#include "front/verbs/xrcd.h"
#include "os/cold_pool.h"

enum {
	COMP_MASK_KNOWN = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
		IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
		IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH |
		IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	COMP_MASK_SPREAD = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
	COMP_MASK_SUPPORTED = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
		IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | COMP_MASK_SPREAD,
	OPEN_MASK_REQUIRED = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
	OPEN_MASK_KNOWN = OPEN_MASK_REQUIRED | IBV_QP_OPEN_ATTR_CONTEXT,
};

/*
 * Convert the type of a queue pair. Returns 0; EOPNOTSUPP for a type that is not supported; EINVAL
 * for a number that is no type. iWARP devices support RC only.
 */
static int type_from_verbs(
	const struct device *device, enum ibv_qp_type verbs, enum qp_type *ret_type)
{
	static const struct {
		enum ibv_qp_type verbs;
		enum qp_type type;
	} types[] = {
		{IBV_QPT_RC, QP_TYPE_RC},
		{IBV_QPT_UC, QP_TYPE_UC},
		{IBV_QPT_UD, QP_TYPE_UD},
		{IBV_QPT_RAW_PACKET, QP_TYPE_RAW_PACKET},
		{IBV_QPT_XRC_SEND, QP_TYPE_XRC_SEND},
		{IBV_QPT_XRC_RECV, QP_TYPE_XRC_RECV},
		{IBV_QPT_DRIVER, QP_TYPE_COUNT},
	};

	for (size_t i = 0; i < ARRAY_COUNT(types); i++)
		if (types[i].verbs == verbs) {
			*ret_type = device_is_iwarp(device) ? QP_TYPE_IWARP : types[i].type;
			if (device_is_iwarp(device) && verbs != IBV_QPT_RC)
				return result_cause(REASON_QP_TYPE_LACKING);
			return nic_has_qp_type(types[i].type)
				? 0
				: result_cause(REASON_QP_TYPE_LACKING);
		}
	return result_cause(REASON_QP_TYPE);
}

/* Do the adapters of URNIC_STRICT have queue pairs of this type? Returns 0 or EOPNOTSUPP. */
static int type_refuse_lack(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_UC:
		return strict_refuse_lack(STRICT_HAS_UC);
	case IBV_QPT_RAW_PACKET:
		return strict_refuse_lack(STRICT_HAS_RAW_PACKET);
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return strict_refuse_lack(STRICT_HAS_XRC);
	default:
		return 0;
	}
}

/*
 * Do the adapters of URNIC_STRICT support posting by ibv_wr_start(), and the operations in
 * `send_ops_flags`? Returns 0 or EOPNOTSUPP.
 */
static int ops_refuse_lack(uint64_t send_ops_flags)
{
	static const struct {
		uint64_t flags;
		enum strict_feature feature;
	} needs[] = {
		{IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, STRICT_HAS_ATOMICS},
		{IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, STRICT_HAS_ATOMICS},
		{IBV_QP_EX_WITH_ATOMIC_WRITE, STRICT_HAS_ATOMIC_WRITE},
		{WR_WITH_FLUSH, STRICT_HAS_FLUSH},
	};
	int error = strict_refuse_lack(STRICT_HAS_EXTENDED_QP);

	for (size_t i = 0; i < ARRAY_COUNT(needs) && !error; i++)
		if (send_ops_flags & needs[i].flags)
			error = strict_refuse_lack(needs[i].feature);
	return error;
}

static bool is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/*
 * The capabilities of the queue pair. A queue pair with a shared receive queue has no receive queue
 * of its own. An XRC_SEND queue pair has only a send queue. An XRC_RECV queue pair has no queue. A
 * queue pair that delivers into an indirection table has none either.
 */
static struct ibv_qp_cap cap_of(const struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp_cap cap = init->cap;

	if (init->qp_type == IBV_QPT_XRC_RECV || (init->comp_mask & COMP_MASK_SPREAD))
		return (struct ibv_qp_cap){0};
	if (init->srq || is_xrc(init->qp_type)) {
		cap.max_recv_wr = 0;
		cap.max_recv_sge = 0;
	}
	cap.max_send_wr = strict_depth(cap.max_send_wr, queue_depth_max);
	cap.max_recv_wr = strict_depth(cap.max_recv_wr, queue_depth_max);
	return cap;
}

static int check_cap(const struct ibv_qp_init_attr_ex *init)
{
	const struct ibv_qp_cap cap = cap_of(init);
	uint32_t wr_max = queue_depth_max;
	uint32_t sge_max = (uint32_t)device_limits.max_sge;
	/* No device attribute states the largest inline size, so programs find it by trying. */
	uint32_t inline_max = strict_max(STRICT_INLINE_BYTES_MAX);
	const struct {
		const char *name;
		uint32_t given;
		uint32_t limit;
		enum reason reason;
	} members[] = {
		{"max_send_wr", cap.max_send_wr, wr_max, REASON_QP_SEND_WR},
		{"max_recv_wr", cap.max_recv_wr, wr_max, REASON_QP_RECV_WR},
		{"max_send_sge", cap.max_send_sge, sge_max, REASON_QP_SEND_SGE},
		{"max_recv_sge", cap.max_recv_sge, sge_max, REASON_QP_RECV_SGE},
		{"max_inline_data", cap.max_inline_data, inline_max, REASON_QP_INLINE},
	};

	for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
		int error = strict_refuse_beyond(
			members[i].reason, members[i].name, members[i].given, members[i].limit);

		if (error)
			return error;
	}
	return 0;
}

static struct cold_pool events_pool = COLD_POOL_OF(struct qp_events);

/* Prepare the queue pair's events, before the first one is posted. */
static void events_begin(struct qp_front *qp)
{
	static const enum ibv_event_type type_of[QP_EVENT_COUNT] = {
#define QP_EVENT(name, events, type) [QP_EVENT_##name] = type,
#include "front/verbs/qp_event.def"
#undef QP_EVENT
	};

	pthread_mutex_lock(&object_lock);
	for (int i = 0; i < QP_EVENT_COUNT && !qp->has_events; i++)
		async_event_init(&qp->events->event[i], type_of[i], &qp->verbs);
	qp->has_events = true;
	pthread_mutex_unlock(&object_lock);
}

void qp_post_events(void *user, uint32_t events)
{
	struct qp_front *qp = user;
	static const uint32_t events_of[QP_EVENT_COUNT] = {
#define QP_EVENT(name, events, type) [QP_EVENT_##name] = events,
#include "front/verbs/qp_event.def"
#undef QP_EVENT
	};

	events_begin(qp);
	for (int i = 0; i < QP_EVENT_COUNT; i++)
		if (events & events_of[i])
			async_event_post(context_of(qp->verbs.context), &qp->events->event[i]);
}

static void qp_prepare(
	struct qp_front *qp, struct ibv_context *context, const struct ibv_qp_init_attr_ex *init)
{
	qp->verbs = (struct ibv_qp){
		.context = context,
		.qp_context = init->qp_context,
		.pd = init->pd,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.srq = init->srq,
		.state = IBV_QPS_RESET,
		.qp_type = init->qp_type,
	};
	pthread_mutex_init(&qp->verbs.mutex, NULL);
	pthread_cond_init(&qp->verbs.cond, NULL);
	if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		wr_builder_init(qp, init->send_ops_flags);
	qp->cap = cap_of(init);
	list_init(&qp->target_node);
	qp->is_all_signaled = init->sq_sig_all != 0;
}

/* Reference the objects that the queue pair is built on. */
static int qp_refer(struct qp_front *qp, const struct ibv_qp_init_attr_ex *init)
{
	struct context *context = context_of(qp->verbs.context);

	if (init->qp_type == IBV_QPT_XRC_RECV) {
		if (!init->xrcd)
			return result_cause(REASON_QP_XRCD_MISSING);
		qp->xrcd = xrcd_ref(init->xrcd, context);
		return qp->xrcd ? 0 : result_cause(REASON_NO_PARENT);
	}
	qp->pd = pd_ref(qp->verbs.pd);
	if (init->comp_mask & COMP_MASK_SPREAD) {
		qp->table = object_ref(
			(uint32_t)init->rwq_ind_tbl->ind_tbl_handle, OBJECT_WQ_TABLE, context);
		return qp->pd && qp->table ? 0 : result_cause(REASON_NO_PARENT);
	}
	if (!init->send_cq || (!init->recv_cq && !is_xrc(init->qp_type)))
		return result_cause(REASON_QP_CQ_MISSING);
	qp->send_cq = object_ref(init->send_cq->handle, OBJECT_CQ, context);
	if (is_xrc(init->qp_type)) /* the kernel, too, ignores recv_cq and srq then */
		return qp->pd && qp->send_cq ? 0 : result_cause(REASON_NO_PARENT);
	qp->recv_cq = object_ref(init->recv_cq->handle, OBJECT_CQ, context);
	qp->srq = init->srq ? srq_ref(init->srq) : NULL;
	return qp->pd && qp->send_cq && qp->recv_cq && !init->srq == !qp->srq
		? 0
		: result_cause(REASON_NO_PARENT);
}

static struct nic_cq *nic_cq_of(struct object *object)
{
	return object ? container_of(object, struct cq_front, object)->nic : NULL;
}

/*
 * A tag-matching shared receive queue needs the queue pair's send queue for itself. So the program
 * must request no send queue, and name the shared receive queue's protection domain. Receives
 * complete to the shared receive queue's completion queue.
 */
static int tags_refer(const struct qp_front *qp, struct nic_qp_init *init)
{
	const struct srq_front *srq;

	if (!qp->srq)
		return 0;
	srq = container_of(qp->srq, struct srq_front, object);
	if (!srq->has_tags)
		return 0;
	if (init->type != QP_TYPE_RC)
		return result_cause(REASON_TAGS_TYPE);
	if (qp->cap.max_send_wr || qp->pd != srq->pd)
		return result_cause(REASON_TAGS_SEND_QUEUE);
	init->recv_cq = nic_cq_of(srq->cq);
	return 0;
}

/*
 * Set up a queue pair that delivers into an indirection table. The first completion queue of the
 * table determines the queue pair's lane.
 */
static void spread_from_verbs(const struct qp_front *qp, const struct ibv_rx_hash_conf *hash,
	struct nic_spread *spread, struct nic_qp_init *init)
{
	assert(hash->rx_hash_key); /* check_spread() has refused a hash without a key */
	init->send_cq = wq_table_fill(qp->table, spread);
	init->recv_cq = init->send_cq;
	init->spread = spread;
	spread->fields = (uint32_t)hash->rx_hash_fields_mask;
	memcpy(spread->key, hash->rx_hash_key, sizeof(spread->key));
}

/* Create the queue pair of the NIC. */
static int qp_make(struct qp_front *qp, enum qp_type type, const struct ibv_rx_hash_conf *hash)
{
	struct context *context = context_of(qp->verbs.context);
	struct device_port port = device_port(context->device);
	struct gid locals[GID_TABLE_LENGTH];
	struct nic_qp_init init = {
		.type = type,
		.pd = qp->pd ? pd_number(qp->pd) : 0,
		.ifindex = context->device->ifindex,
		.send_cq = nic_cq_of(qp->send_cq),
		.recv_cq = nic_cq_of(qp->recv_cq),
		.srq = qp->srq ? nic_srq_of(qp->srq) : NULL,
		.caps =
			{
				.send_depth = qp->cap.max_send_wr,
				.recv_depth = qp->cap.max_recv_wr,
				.send_sge_max = qp->cap.max_send_sge,
				.recv_sge_max = qp->cap.max_recv_sge,
				.inline_bytes_max = qp->cap.max_inline_data,
			},
		.mtu_bytes = 128u << device_mtu(&port),
		.locals = locals,
		.local_count = device_gids(context->device, locals),
		.is_all_signaled = qp->is_all_signaled,
		.on_event = qp_post_events,
		.user = qp,
	};
	struct nic_spread spread;

	if (qp->table)
		spread_from_verbs(qp, hash, &spread, &init);
	int error = tags_refer(qp, &init);

	if (!error && device_is_gone(context->device))
		error = result_cause(REASON_GONE);
	if (!error && type == QP_TYPE_RAW_PACKET && device_is_ib(context->device))
		error = result_cause(REASON_QP_TYPE_LACKING);
	if (!error)
		error = strict_pin(NULL, strict_qp_bytes(&qp->cap));
	if (!error)
		qp->pinned_bytes = strict_qp_bytes(&qp->cap);
	if (!error)
		error = type == QP_TYPE_XRC_RECV
			? xrc_target_create(qp, &init)
			: result_as(-nic_qp_create(&init, &qp->nic), REASON_FORKED);
	if (error)
		return error;
	device_announce(context->device);
	/*
	 * iWARP queue pairs begin in INIT, as with the kernel's iWARP devices. libibverbs reports
	 * RESET until the program queries the state.
	 */
	if (device_is_iwarp(context->device))
		nic_qp_modify(qp->nic, QP_INIT, ATTR_STATE, &(struct qp_attr){.access = 0});
	if (qp->has_builder)
		qp->builder.batch.sq = nic_qp_send_queue(qp->nic);
	return 0;
}

/* An indirection table needs a hash. Table and hash need a raw packet queue pair. */
static int check_spread(const struct ibv_qp_init_attr_ex *init)
{
	const struct ibv_rx_hash_conf *hash = &init->rx_hash_conf;

	if (!(init->comp_mask & COMP_MASK_SPREAD))
		return 0;
	if ((init->comp_mask & COMP_MASK_SPREAD) != COMP_MASK_SPREAD || init->srq ||
		!init->rwq_ind_tbl || !hash->rx_hash_key)
		return result_cause(REASON_SPREAD_INCOMPLETE);
	if (init->qp_type != IBV_QPT_RAW_PACKET ||
		(hash->rx_hash_fields_mask & ~(uint64_t)RSS_FIELDS_ALL))
		return result_cause(REASON_SPREAD_TYPE);
	return hash->rx_hash_function == IBV_RX_HASH_FUNC_TOEPLITZ &&
			hash->rx_hash_key_len == RSS_KEY_BYTES
		? 0
		: result_cause(REASON_SPREAD_HASH);
}

/* Check the fields that only ibv_create_qp_ex() has. */
static int check_extension(const struct ibv_qp_init_attr_ex *init)
{
	if (init->comp_mask & ~(uint32_t)COMP_MASK_KNOWN)
		return result_cause(REASON_UNKNOWN_BITS);
	if (init->comp_mask & ~(uint32_t)COMP_MASK_SUPPORTED)
		return result_cause(REASON_UNSUPPORTED_BITS);
	if (init->qp_type == IBV_QPT_XRC_RECV)
		return init->comp_mask & IBV_QP_INIT_ATTR_XRCD
			? 0
			: result_cause(REASON_QP_XRCD_MISSING);
	if (!(init->comp_mask & IBV_QP_INIT_ATTR_PD) || !init->pd)
		return result_cause(REASON_QP_PD_MISSING);
	if ((init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && init->create_flags)
		return result_cause(REASON_UNSUPPORTED_BITS);
	return check_spread(init);
}

/* Create a queue pair, but not yet the queue pair of the NIC. NULL: out of memory. */
static struct qp_front *qp_new(struct ibv_context *context, const struct ibv_qp_init_attr_ex *init)
{
	bool has_builder = init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	size_t bytes = has_builder ? sizeof(struct qp_front)
				   : offsetof(struct qp_front, verbs) + sizeof(struct ibv_qp);
	struct object object;
	struct qp_front *qp = domain_alloc(init->pd, DOMAIN_QP, bytes, &object);
	struct qp_events *events;

	if (!qp)
		return NULL;
	pthread_mutex_lock(&object_lock);
	events = cold_pool_take(&events_pool);
	pthread_mutex_unlock(&object_lock);
	if (!events) {
		domain_free(&object, DOMAIN_QP, qp);
		object_unref(object.parent);
		return NULL;
	}
	qp->object = object;
	qp->events = events;
	qp_prepare(qp, context, init);
	return qp;
}

static bool qp_publish(const char *call, struct qp_front *qp, int error)
{
	if (!error)
		qp->verbs.qp_num = nic_qp_number(qp->nic);
	return object_publish_as(call, &qp->object, OBJECT_QP, context_of(qp->verbs.context),
		&qp->verbs.handle, error);
}

struct ibv_qp *qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	struct qp_front *qp;
	enum qp_type type = QP_TYPE_RC;
	int error = check_extension(init);

	if (!error)
		error = type_from_verbs(context_of(context)->device, init->qp_type, &type);
	if (!error)
		error = type_refuse_lack(init->qp_type);
	if (!error && (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		error = ops_refuse_lack(init->send_ops_flags);
	if (!error)
		error = check_cap(init);
	if (!error && (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
		!wr_are_supported(type, init->send_ops_flags))
		error = result_cause(REASON_QP_SEND_OPS);
	if (error)
		return result_null("ibv_create_qp", error);
	qp = qp_new(context, init);
	if (!qp)
		return result_null("ibv_create_qp", result_cause(REASON_NO_MEMORY));
	error = qp_refer(qp, init);
	if (!error)
		error = qp_make(qp, type, &init->rx_hash_conf);
	if (!qp_publish("ibv_create_qp", qp, error))
		return NULL;
	/*
	 * Report the actual capabilities. They may be lower than requested, because queue pairs of
	 * XRC, or with a shared receive queue, have no receive queue.
	 */
	init->cap.max_send_wr = strict_depth(init->cap.max_send_wr, queue_depth_max);
	init->cap.max_recv_wr = qp->cap.max_recv_wr;
	init->cap.max_recv_sge = qp->cap.max_recv_sge;
	return &qp->verbs;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex extended = {
		.qp_context = init->qp_context,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.srq = init->srq,
		.cap = init->cap,
		.qp_type = init->qp_type,
		.sq_sig_all = init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};

	struct ibv_qp *qp = qp_create_ex(pd->context, &extended);

	init->cap = extended.cap;
	return qp;
}

struct ibv_qp *qp_open(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
		.qp_type = IBV_QPT_XRC_RECV,
		.xrcd = attr->xrcd,
	};
	struct qp_front *qp;
	int error;

	if (strict_lacks("ibv_open_qp", STRICT_HAS_XRC))
		return NULL;
	if ((attr->comp_mask & OPEN_MASK_REQUIRED) != OPEN_MASK_REQUIRED ||
		attr->comp_mask & ~(uint32_t)OPEN_MASK_KNOWN || attr->qp_type != IBV_QPT_XRC_RECV)
		return result_null("ibv_open_qp", result_cause(REASON_ATTR_MISSING));
	qp = qp_new(context, &init);
	if (!qp)
		return result_null("ibv_open_qp", result_cause(REASON_NO_MEMORY));
	qp->verbs.state = IBV_QPS_UNKNOWN; /* until the program queries the state */
	error = qp_refer(qp, &init);
	if (!error)
		error = xrc_target_open(qp, attr->qp_num);
	return qp_publish("ibv_open_qp", qp, error) ? &qp->verbs : NULL;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct qp_front *front = qp_of(qp);

	return front->has_builder ? &front->extended : NULL;
}

void *qp_release(struct object *object)
{
	struct qp_front *qp = container_of(object, struct qp_front, object);
	struct event_queue *async = &context_of(qp->verbs.context)->async;

	if (qp->target)
		xrc_target_close(qp);
	else if (qp->nic)
		nic_qp_destroy(qp->nic);
	strict_unpin(NULL, qp->pinned_bytes);
	for (int i = 0; i < QP_EVENT_COUNT && qp->has_events; i++)
		event_queue_forget(async, &qp->events->event[i].event);
	object_unref(qp->pd);
	object_unref(qp->send_cq);
	object_unref(qp->recv_cq);
	object_unref(qp->srq);
	object_unref(qp->table);
	object_unref(qp->xrcd);
	for (int i = 0; i < COUNTED_BITS; i++)
		object_unref(qp->counters[i]);
	return qp;
}

void qp_free(void *memory)
{
	struct qp_front *qp = memory;
	uint32_t taken = 0;

	for (int i = 0; i < QP_EVENT_COUNT && qp->has_events; i++)
		taken += qp->events->event[i].event.taken;
	events_wait(&qp->verbs.mutex, &qp->verbs.cond, &qp->verbs.events_completed, taken);
	pthread_mutex_lock(&object_lock);
	cold_pool_give(&events_pool, qp->events, qp->has_events);
	pthread_mutex_unlock(&object_lock);
	pthread_mutex_destroy(&qp->verbs.mutex);
	pthread_cond_destroy(&qp->verbs.cond);
	domain_free(&qp->object, DOMAIN_QP, qp);
}

/*
 * Returns 0; EBUSY if the queue pair is in a multicast group; ENOENT if there is no such queue
 * pair.
 */
static int qp_is_attached(const struct ibv_qp *verbs)
{
	struct qp_front *qp = qp_ref(verbs);
	bool is_attached;

	if (!qp)
		return result_cause(REASON_NO_OBJECT);
	is_attached = nic_multicast_is_attached(qp->nic);
	object_unref(&qp->object);
	return is_attached ? result_cause(REASON_QP_IN_GROUP) : 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	int error = qp_is_attached(qp);

	if (!error)
		error = object_destroy(qp->handle, OBJECT_QP, qp->context);
	return result_of("ibv_destroy_qp", error);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/qp.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"
#include "os/strict.h"

/*
 * `mask` without the attributes that the queue pair's type does not have. The kernel ignores such
 * an attribute. perftest relies on that: it sets the same attributes for XRC_SEND and XRC_RECV
 * queue pairs.
 */
static int known_mask(const struct qp_front *qp, int mask)
{
	switch ((int)qp->verbs.qp_type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

/*
 * Refuse the values that the adapters of URNIC_STRICT refuse. Returns 0 or an errno. Without
 * URNIC_STRICT, nic_qp_modify() alone checks these values.
 */
static int strict_check(const struct ibv_qp_attr *attr, int mask)
{
	int error = 0;

	if (!strict_adapters())
		return 0;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		error = strict_refuse_beyond(REASON_MODIFY_VALUE, "max_rd_atomic",
			attr->max_rd_atomic, (uint32_t)device_limits.max_qp_init_rd_atom);
	if (!error && (mask & IBV_QP_MAX_DEST_RD_ATOMIC))
		error = strict_refuse_beyond(REASON_MODIFY_VALUE, "max_dest_rd_atomic",
			attr->max_dest_rd_atomic, (uint32_t)device_limits.max_qp_rd_atom);
	if (!error && (mask & IBV_QP_ALT_PATH))
		error = strict_refuse_lack(STRICT_HAS_PATH_MIGRATION);
	return error;
}

static int qp_modify_verbs(struct qp_front *qp, const struct ibv_qp_attr *verbs, int mask)
{
	enum qp_state state =
		mask & IBV_QP_STATE ? (enum qp_state)verbs->qp_state : nic_qp_query(qp->nic).state;
	struct device *device = context_of(qp->verbs.context)->device;
	struct qp_attr attr;
	int error;

	if (device_is_gone(device) && state != QP_ERR && state != QP_RESET)
		return result_cause(REASON_GONE);
	error = strict_check(verbs, mask);
	if (!error)
		error = qp_attr_from_verbs(device, verbs, mask, &attr);
	if (!error)
		error = -nic_qp_modify(qp->nic, state, (uint32_t)mask, &attr);
	if (error)
		return error;
	qp->verbs.state = (enum ibv_qp_state)state;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct qp_front *front = qp_ref(qp);
	int error;

	if (!front)
		return result_of("ibv_modify_qp", result_cause(REASON_NO_OBJECT));
	pthread_mutex_lock(&front->verbs.mutex);
	error = qp_modify_verbs(front, attr, known_mask(front, attr_mask));
	pthread_mutex_unlock(&front->verbs.mutex);
	object_unref(&front->object);
	return result_of("ibv_modify_qp", error);
}

/*
 * typical_pkt_sz is ignored. It is a hint for hardware that cannot count packets; this NIC counts
 * each packet.
 */
int qp_modify_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	static const char call[] = "ibv_modify_qp_rate_limit";
	struct qp_front *front;
	int error;

	if (!strict_has(STRICT_HAS_RATE_LIMIT))
		return result_of(call, strict_refuse_lack(STRICT_HAS_RATE_LIMIT));
	if (attr->comp_mask)
		return result_of(call, result_cause(REASON_UNKNOWN_BITS));
	if (!attr->rate_limit && (attr->max_burst_sz || attr->typical_pkt_sz))
		return result_of(call, result_cause(REASON_RATE_VALUE));
	front = qp_ref(qp);
	if (!front)
		return result_of(call, result_cause(REASON_NO_OBJECT));
	error = result_as(-nic_qp_set_rate(front->nic, attr->rate_limit, attr->max_burst_sz),
		REASON_RATE_VALUE);
	object_unref(&front->object);
	return result_of(call, error);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
	struct ibv_qp_init_attr *init_attr)
{
	struct qp_front *front = qp_ref(qp);
	struct nic_qp_state state;

	/*
	 * The mask names the attributes that the program wants. It is not used, because the
	 * function sets all attributes.
	 */
	(void)attr_mask;
	if (!front)
		return result_of("ibv_query_qp", result_cause(REASON_NO_OBJECT));
	pthread_mutex_lock(&front->verbs.mutex);
	state = nic_qp_query(front->nic);
	*attr = qp_attr_to_verbs(front, &state);
	*init_attr = (struct ibv_qp_init_attr){
		.qp_context = front->verbs.qp_context,
		.send_cq = front->verbs.send_cq,
		.recv_cq = front->verbs.recv_cq,
		.srq = front->verbs.srq,
		.cap = front->cap,
		.qp_type = front->verbs.qp_type,
		.sq_sig_all = front->is_all_signaled,
	};
	front->verbs.state = (enum ibv_qp_state)state.state;
	pthread_mutex_unlock(&front->verbs.mutex);
	object_unref(&front->object);
	return 0;
}

/* Returns "no": the NIC writes packets in order, but not the bytes within a packet. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

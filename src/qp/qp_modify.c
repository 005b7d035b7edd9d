/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_qp: which transitions and attributes are allowed, and what they change. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/arith.h"
#include "qp/qp.h"
#include "qp/reason.h"

struct transition {
	bool is_allowed;
	uint32_t required;
	uint32_t optional;
};

static const struct transition transitions[QP_TYPE_COUNT][QP_STATE_COUNT][QP_STATE_COUNT] = {
#define TRANSITION(type, from, to, required, optional) \
	[QP_TYPE_##type][QP_##from][QP_##to] = {true, required, optional},
#include "qp/qp_state.def"
#undef TRANSITION
};

/*
 * The attributes: bit, name in the verbs, and the member that attributes_apply() copies. `size` is
 * 0 if that function copies no member.
 */
static const struct attribute {
	uint32_t bit;
	const char *name;
	size_t offset;
	size_t size;
} attributes[] = {
#define MEMBER(member) offsetof(struct qp_attr, member), sizeof(((struct qp_attr *)NULL)->member)
	{ATTR_STATE, "IBV_QP_STATE", 0, 0},
	{ATTR_CUR_STATE, "IBV_QP_CUR_STATE", 0, 0},
	{ATTR_SQD_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY", 0, 0},
	{ATTR_ACCESS, "IBV_QP_ACCESS_FLAGS", MEMBER(access)},
	{ATTR_PKEY_INDEX, "IBV_QP_PKEY_INDEX", MEMBER(pkey_index)},
	{ATTR_PORT, "IBV_QP_PORT", MEMBER(port)},
	{ATTR_QKEY, "IBV_QP_QKEY", MEMBER(qkey)},
	{ATTR_AV, "IBV_QP_AV", MEMBER(path)},
	{ATTR_PATH_MTU, "IBV_QP_PATH_MTU", MEMBER(path_mtu)},
	{ATTR_TIMEOUT, "IBV_QP_TIMEOUT", MEMBER(timeout)},
	{ATTR_RETRY_CNT, "IBV_QP_RETRY_CNT", MEMBER(retry_cnt)},
	{ATTR_RNR_RETRY, "IBV_QP_RNR_RETRY", MEMBER(rnr_retry)},
	{ATTR_RQ_PSN, "IBV_QP_RQ_PSN", MEMBER(rq_psn)},
	{ATTR_MAX_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC", MEMBER(max_rd_atomic)},
	{ATTR_ALT_PATH, "IBV_QP_ALT_PATH", 0, 0},
	{ATTR_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER", MEMBER(min_rnr_timer)},
	{ATTR_SQ_PSN, "IBV_QP_SQ_PSN", MEMBER(sq_psn)},
	{ATTR_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC", MEMBER(max_dest_rd_atomic)},
	{ATTR_PATH_MIG, "IBV_QP_PATH_MIG_STATE", 0, 0},
	{ATTR_CAP, "IBV_QP_CAP", 0, 0},
	{ATTR_DEST_QPN, "IBV_QP_DEST_QPN", MEMBER(dest_qpn)},
	{ATTR_RATE_LIMIT, "IBV_QP_RATE_LIMIT", MEMBER(rate_limit_kbps)},
#undef MEMBER
};

enum { MTU_MIN = 1, MTU_MAX = 5 };

static const char *const state_names[QP_STATE_COUNT] = {
	[QP_RESET] = "RESET",
	[QP_INIT] = "INIT",
	[QP_RTR] = "RTR",
	[QP_RTS] = "RTS",
	[QP_SQD] = "SQD",
	[QP_SQE] = "SQE",
	[QP_ERR] = "ERR",
};

const char *qp_state_name(enum qp_state state)
{
	return (unsigned)state < QP_STATE_COUNT ? state_names[state] : "?";
}

static bool is_mask_allowed(const struct qp *qp, enum qp_state to, uint32_t mask)
{
	const struct transition *transition = &transitions[qp->type][qp->state][to];

	mask &= ~(uint32_t)ATTR_STATE;
	if (to == QP_RESET)
		return mask == 0;
	/* ERR cannot follow RESET, as in the kernel's table. */
	if (to == QP_ERR)
		return mask == 0 && qp->state != QP_RESET;
	if (!transition->is_allowed || qp->is_sq_draining)
		return false;
	return (mask & transition->required) == transition->required &&
		!(mask & ~(transition->required | transition->optional));
}

/*
 * May a program set this migration state? REARM needs an alternate path. MIGRATED makes an armed
 * queue pair migrate, and ends a rearming. Only the peer's packets arm a queue pair, so a program
 * cannot set ARMED (IBTA 17.2.8.1).
 */
static bool is_migration_allowed(const struct qp *qp, uint32_t mask, enum qp_migration to)
{
	switch (to) {
	case QP_MIGRATED:
		return true;
	case QP_REARM:
		return qp->has_alt_path || (mask & ATTR_ALT_PATH);
	case QP_ARMED:
		return qp->attr.migration == QP_ARMED;
	}
	return false;
}

/* The reason why a value is refused; NULL when all values are valid. */
static const char *values_refusal(const struct qp *qp, uint32_t mask, const struct qp_attr *attr)
{
	if ((mask & ATTR_CUR_STATE) && attr->cur_state != qp->state)
		return "cur_qp_state is not the state of the queue pair";
	if ((mask & ATTR_PKEY_INDEX) && attr->pkey_index >= qp->lane->link->pkey_count)
		return "pkey_index is beyond the end of the port's table of P_Keys";
	if ((mask & ATTR_PORT) && (attr->port < 1 || attr->port > qp->lane->link->port_count))
		return "port_num is not a port of the device";
	/*
	 * Programs also pass access flags that are meant for regions. These flags are accepted, and
	 * have no effect on a queue pair.
	 */
	if ((mask & ATTR_ACCESS) && (attr->access & ~(uint32_t)MR_ACCESS_DEFINED))
		return "qp_access_flags has bits that are no access flags";
	if ((mask & ATTR_PATH_MTU) && (attr->path_mtu < MTU_MIN || attr->path_mtu > MTU_MAX))
		return "path_mtu is no value of enum ibv_mtu";
	if ((mask & ATTR_DEST_QPN) && attr->dest_qpn > U24_MASK)
		return "dest_qp_num has more than 24 bits";
	if ((mask & ATTR_MAX_RD_ATOMIC) && attr->max_rd_atomic > QP_INIT_RD_ATOMIC_MAX)
		return "max_rd_atomic is more than the device's max_qp_init_rd_atom";
	if ((mask & ATTR_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > QP_RD_ATOMIC_MAX)
		return "max_dest_rd_atomic is more than the device's max_qp_rd_atom";
	if ((mask & ATTR_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return "min_rnr_timer is more than 31";
	if ((mask & ATTR_TIMEOUT) && attr->timeout > 31)
		return "timeout is more than 31";
	if ((mask & ATTR_RETRY_CNT) && attr->retry_cnt > 7)
		return "retry_cnt is more than 7";
	if ((mask & ATTR_RNR_RETRY) && attr->rnr_retry > 7)
		return "rnr_retry is more than 7";
	if ((mask & ATTR_RATE_LIMIT) && attr->rate_limit_kbps > PACE_RATE_KBPS_MAX)
		return "rate_limit is more than the device's qp_rate_limit_max";
	if ((mask & ATTR_ALT_PATH) &&
		(attr->alt_port < 1 || attr->alt_port > qp->lane->link->port_count ||
			attr->alt_pkey_index >= qp->lane->link->pkey_count ||
			attr->alt_timeout > 31))
		return "alt_port_num, alt_pkey_index or alt_timeout is too large";
	if ((mask & ATTR_PATH_MIG) && !is_migration_allowed(qp, mask, attr->migration))
		return "path_mig_state cannot be that now";
	return NULL;
}

const char *qp_attribute_name(uint32_t mask)
{
	for (size_t i = 0; i < ARRAY_COUNT(attributes); i++)
		if (mask & attributes[i].bit)
			return attributes[i].name;
	return "an unknown bit";
}

/*
 * Returns the reason why the transition or its mask is refused. *ret_attribute becomes the
 * attributes that are missing or forbidden.
 */
static enum reason mask_refusal(
	const struct qp *qp, enum qp_state to, uint32_t mask, uint32_t *ret_attribute)
{
	struct transition transition = {.is_allowed = false};

	mask &= ~(uint32_t)ATTR_STATE;
	if (qp->is_sq_draining)
		return REASON_MODIFY_DRAINING;
	if ((unsigned)to < QP_STATE_COUNT)
		transition = transitions[qp->type][qp->state][to];
	if (to == QP_RESET || (to == QP_ERR && qp->state != QP_RESET))
		transition.is_allowed = true;
	if (!transition.is_allowed)
		return REASON_MODIFY_TRANSITION;
	*ret_attribute = transition.required & ~mask;
	if (*ret_attribute)
		return REASON_MODIFY_MISSING;
	*ret_attribute = mask & ~(transition.required | transition.optional);
	return REASON_MODIFY_FORBIDDEN;
}

void qp_modify_explain(const struct qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *attr, struct failure *ret_failure)
{
	const char *value = NULL;
	uint32_t attribute = 0;

	*ret_failure = (struct failure){.reason = REASON_MODIFY_VALUE, .qpn = qp->qpn};
	failure_facts_add(&ret_failure->facts, FACT_from_state, qp->state);
	failure_facts_add(&ret_failure->facts, FACT_to_state, (uint32_t)to);
	if ((unsigned)to < QP_STATE_COUNT && is_mask_allowed(qp, to, mask))
		value = values_refusal(qp, mask, attr);
	else
		ret_failure->reason = mask_refusal(qp, to, mask, &attribute);
	if (attribute)
		failure_facts_add(&ret_failure->facts, FACT_attribute, attribute);
	strncpy(ret_failure->text, value ? value : "", sizeof(ret_failure->text) - 1);
}

static void attributes_apply(struct qp *qp, uint32_t mask, const struct qp_attr *from)
{
	struct qp_attr *to = &qp->attr;

	if (!from)
		return; /* the call changes the state alone */
	for (const struct attribute *it = attributes; it < attributes + ARRAY_COUNT(attributes);
		it++)
		if (mask & it->bit)
			memcpy((char *)to + it->offset, (const char *)from + it->offset, it->size);
	to->rq_psn &= U24_MASK;
	to->sq_psn &= U24_MASK;
	if (mask & ATTR_RATE_LIMIT)
		to->burst_bytes = from->burst_bytes;
	/*
	 * ATTR_SQD_NOTIFY is valid for one drain only, so each transition sets or clears the event.
	 */
	if (mask & ATTR_STATE)
		to->has_drain_event = (mask & ATTR_SQD_NOTIFY) && from->has_drain_event;
}

static void alternate_apply(struct qp *qp, const struct qp_attr *from)
{
	qp->has_alt_path = true;
	qp->attr.alt_path = from->alt_path;
	qp->attr.alt_pkey_index = from->alt_pkey_index;
	qp->attr.alt_port = from->alt_port;
	qp->attr.alt_timeout = from->alt_timeout;
}

static void migration_apply(struct qp *qp, enum qp_migration to)
{
	if (to == QP_MIGRATED && qp->attr.migration == QP_ARMED)
		qp_migrate(qp);
	qp->attr.migration = to;
	qp->is_migration_refused = false;
}

static bool is_rate_set(uint32_t mask, const struct qp_attr *attr)
{
	return ((mask & ATTR_RATE_LIMIT) && attr->rate_limit_kbps) ||
		((mask & ATTR_AV) && attr->path.rate_kbps) ||
		((mask & ATTR_ALT_PATH) && attr->alt_path.rate_kbps);
}

int qp_modify(
	struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr, uint64_t now_ns)
{
	if ((unsigned)to >= QP_STATE_COUNT || !is_mask_allowed(qp, to, mask) ||
		values_refusal(qp, mask, attr))
		return -EINVAL;

	if (is_rate_set(mask, attr) && pace_prepare(qp))
		return -ENOMEM;
	if (to == QP_RTR && congestion_prepare(qp))
		return -ENOMEM;
	attributes_apply(qp, mask, attr);
	if ((mask & ATTR_PKEY_INDEX) && qp->lane->link->has_pkey_tables)
		qp->pkey = (uint16_t)attr->pkey_index;
	if (mask & ATTR_ALT_PATH)
		alternate_apply(qp, attr);
	if (mask & ATTR_PATH_MIG)
		migration_apply(qp, attr->migration);
	if (qp->attr.path_mtu)
		qp->mtu_bytes = 128u << qp->attr.path_mtu;
	qp->public->dest_qpn = qp->attr.dest_qpn;
	qp_path_publish(qp);
	if (to == QP_RTR)
		congestion_reset(qp);
	if (mask & (ATTR_RATE_LIMIT | ATTR_AV))
		pace_update(qp);
	if (mask & ATTR_AV)
		qp->peer_port = 0;
	if (qp->local)
		qp->local->ops->modified(qp);
	if (mask & ATTR_STATE)
		qp_set_state(qp, to, now_ns);
	return 0;
}

int qp_set_rate(struct qp *qp, uint32_t rate_kbps, uint32_t burst_bytes)
{
	struct qp_attr attr = {.rate_limit_kbps = rate_kbps, .burst_bytes = burst_bytes};

	return qp->state == QP_RTS ? qp_modify(qp, QP_RTS, ATTR_RATE_LIMIT, &attr, 0) : -EINVAL;
}

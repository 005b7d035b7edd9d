/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/strict.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/arith.h"
#include "front/verbs/gid_table.h"
#include "front/verbs/limits.h"
#include "front/verbs/ops.h"
#include "front/verbs/result.h"
#include "os/log.h"
#include "os/strict.h"
#include "queue/sq.h"

static const struct feature {
	bool has[STRICT_ADAPTER_COUNT];
	unsigned int flag;
	const char *what;
} features[STRICT_FEATURE_COUNT] = {
#define STRICT_FEATURE(NAME, mlx5, irdma, bnxt, flag, what, source) \
	[STRICT_HAS_##NAME] = {{mlx5, irdma, bnxt}, flag, what},
#include "front/verbs/strict.def"
};

static const struct {
	uint32_t own;
	uint32_t of[STRICT_ADAPTER_COUNT];
} values[STRICT_VALUE_COUNT] = {
#define STRICT_VALUE(NAME, own, mlx5, irdma, bnxt, meaning, source) \
	[STRICT_##NAME##_MAX] = {own, {mlx5, irdma, bnxt}},
#include "front/verbs/strict.def"
};

/* The part ID of Intel's E810-C. perftest posts to devices with this ID by ibv_post_send(). */
#define PART_WITHOUT_EXTENDED_QP 0x1592

static bool adapter_is_in(uint32_t adapters, int adapter)
{
	return adapters & 1u << adapter;
}

bool strict_all_have(uint32_t adapters, enum strict_feature feature)
{
	for (int i = 0; i < STRICT_ADAPTER_COUNT; i++)
		if (adapter_is_in(adapters, i) && !features[feature].has[i])
			return false;
	return true;
}

static uint64_t lowest_of(uint32_t adapters, uint64_t own, const uint64_t of[STRICT_ADAPTER_COUNT])
{
	for (int i = 0; i < STRICT_ADAPTER_COUNT; i++)
		if (adapter_is_in(adapters, i))
			own = min_u64(own, of[i]);
	return own;
}

uint32_t strict_lowest(uint32_t adapters, enum strict_value value)
{
	uint64_t of[STRICT_ADAPTER_COUNT];

	for (int i = 0; i < STRICT_ADAPTER_COUNT; i++)
		of[i] = values[value].of[i];
	return (uint32_t)lowest_of(adapters, values[value].own, of);
}

void strict_limits_lower(uint32_t adapters, struct ibv_device_attr *limits)
{
#define STRICT_LIMIT(field, mlx5, irdma, bnxt, source)        \
	limits->field = (__typeof__(limits->field))lowest_of( \
		adapters, (uint64_t)limits->field, (const uint64_t[]){mlx5, irdma, bnxt});
#include "front/verbs/strict.def"
	for (int i = 0; i < STRICT_FEATURE_COUNT; i++)
		if (!strict_all_have(adapters, (enum strict_feature)i))
			limits->device_cap_flags &= ~features[i].flag;
	if (!strict_all_have(adapters, STRICT_HAS_ATOMICS))
		limits->atomic_cap = IBV_ATOMIC_NONE;
	if (!strict_all_have(adapters, STRICT_HAS_WINDOWS))
		limits->max_mw = 0;
	/* Programs conclude from this part ID whether they may post by ibv_wr_start(). */
	if (!strict_all_have(adapters, STRICT_HAS_EXTENDED_QP))
		limits->vendor_part_id = PART_WITHOUT_EXTENDED_QP;
	if (!strict_all_have(adapters, STRICT_HAS_MULTICAST)) {
		limits->max_mcast_grp = 0;
		limits->max_mcast_qp_attach = 0;
		limits->max_total_mcast_qp_attach = 0;
	}
}

bool strict_has(enum strict_feature feature)
{
	return strict_all_have(strict_adapters(), feature);
}

uint32_t strict_max(enum strict_value value)
{
	return strict_lowest(strict_adapters(), value);
}

/* The drivers of this process's adapters that lack the feature: "irdma, bnxt". */
static void lack_to_text(enum strict_feature feature, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < STRICT_ADAPTER_COUNT && used < bytes; i++)
		if (adapter_is_in(strict_adapters(), i) && !features[feature].has[i])
			used += (size_t)snprintf(text + used, bytes - used, "%s%s",
				used ? ", " : "", strict_driver((enum strict_adapter)i));
}

enum { LACK_TEXT_BYTES = 32 };

int strict_refuse_as(enum strict_feature feature, enum reason reason)
{
	char drivers[LACK_TEXT_BYTES];

	lack_to_text(feature, drivers, sizeof(drivers));
	return nic_failure_cause_text(REASON_STRICT, result_cause(reason), "not on %s: %s", drivers,
		features[feature].what);
}

int strict_refuse_lack(enum strict_feature feature)
{
	return strict_has(feature) ? 0 : strict_refuse_as(feature, REASON_UNSUPPORTED_BITS);
}

bool strict_lacks(const char *call, enum strict_feature feature)
{
	int error = strict_refuse_lack(feature);

	return error && result_refused(call, error);
}

int strict_refuse_beyond(enum reason reason, const char *what, uint64_t requested, uint64_t highest)
{
	int error;

	if (requested <= highest)
		return 0;
	error = result_cause_limit(reason, requested, highest);
	if (strict_adapters())
		nic_failure_cause_text(REASON_STRICT, error,
			"%s is %llu, and at most %llu is possible", what,
			(unsigned long long)requested, (unsigned long long)highest);
	return error;
}

uint32_t strict_depth(uint32_t depth, uint32_t highest)
{
	uint32_t rounded = 1;

	if (!strict_adapters() || !depth || depth >= highest)
		return depth;
	while (rounded < depth)
		rounded *= 2;
	return min_u32(rounded, highest);
}

/* --- a context's operations --- */

static void lacks_log(void)
{
	static atomic_bool is_said;

	if (!log_is_on(LOG_INFO) || atomic_exchange(&is_said, true))
		return;
	for (int i = 0; i < STRICT_FEATURE_COUNT; i++) {
		char drivers[LACK_TEXT_BYTES];

		if (strict_has((enum strict_feature)i))
			continue;
		lack_to_text((enum strict_feature)i, drivers, sizeof(drivers));
		log_write(LOG_INFO, "URNIC_STRICT: the devices are without %s, as %s",
			features[i].what, drivers);
	}
}

void strict_ops_change(struct verbs_context *context)
{
	if (!strict_adapters())
		return;
	context->context.ops.post_send = strict_post_send;
	lacks_log();
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Would the adapters refuse the request? If so, the function notes the reason. */
static int wr_refuse(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	if (is_atomic(wr->opcode) && !strict_has(STRICT_HAS_ATOMICS))
		return strict_refuse_as(STRICT_HAS_ATOMICS, REASON_POST_OPCODE);
	/* qp_post_send_verbs() refuses a longer list, and then does not read it. */
	for (int i = 0; i < wr->num_sge && wr->num_sge <= device_limits.max_sge; i++)
		bytes += wr->sg_list[i].length;
	return strict_refuse_beyond(REASON_POST_LENGTH, "the message's length", bytes,
		strict_max(STRICT_MESSAGE_BYTES_MAX));
}

int strict_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct ibv_send_wr *refused = wr;
	int refusal = 0;

	while (refused && !(refusal = wr_refuse(refused)))
		refused = refused->next;
	if (!refused)
		return qp_post_send_verbs(qp, wr, bad_wr);
	/*
	 * The list belongs to the program and must not be changed. So each request before the
	 * refused one is posted as a copy.
	 */
	for (*bad_wr = wr; *bad_wr != refused; *bad_wr = (*bad_wr)->next) {
		struct ibv_send_wr single = **bad_wr, *bad;
		int error;

		single.next = NULL;
		error = qp_post_send_verbs(qp, &single, &bad);
		if (error)
			return error;
	}
	return result_refused("ibv_post_send", refusal);
}

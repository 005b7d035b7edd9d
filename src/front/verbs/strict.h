/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that refuse what the adapters of URNIC_STRICT refuse (os/strict.h). strict.def has the
 * limits and features. The first call fixes all results. Any thread may call.
 *
 * Without URNIC_STRICT each device has all features and urnic's own limits.
 */
#ifndef URNIC_FRONT_VERBS_STRICT_H
#define URNIC_FRONT_VERBS_STRICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/verbs/abi.h"
#include "qp/reason.h"

enum strict_feature {
#define STRICT_FEATURE(NAME, mlx5, irdma, bnxt, flag, what, source) STRICT_HAS_##NAME,
#include "front/verbs/strict.def"
	STRICT_FEATURE_COUNT
};

enum strict_value {
#define STRICT_VALUE(NAME, own, mlx5, irdma, bnxt, meaning, source) STRICT_##NAME##_MAX,
#include "front/verbs/strict.def"
	STRICT_VALUE_COUNT
};

/* Do all adapters of `adapters` have the feature? */
bool strict_all_have(uint32_t adapters, enum strict_feature feature);

/* The lowest of the limits of `adapters` and urnic's own. */
uint32_t strict_lowest(uint32_t adapters, enum strict_value value);

/* Lower the limits of a device to those of `adapters`, and clear the flags of missing features. */
void strict_limits_lower(uint32_t adapters, struct ibv_device_attr *limits);

/* strict_all_have() and strict_lowest() for the adapters of this process. */
bool strict_has(enum strict_feature feature);
uint32_t strict_max(enum strict_value value);

/*
 * Returns 0 if the device has the feature. Otherwise returns EOPNOTSUPP; then result_refused()
 * reports that the adapters lack the feature.
 */
int strict_refuse_lack(enum strict_feature feature);

/* strict_refuse_lack() for a feature that the device lacks. Returns the errno of `reason`. */
int strict_refuse_as(enum strict_feature feature, enum reason reason);

/*
 * `call` needs the feature: does the device lack it? If so, the function reports the call's
 * refusal, and sets errno to EOPNOTSUPP.
 */
bool strict_lacks(const char *call, enum strict_feature feature);

/*
 * Change the operations of a new context, so that posting refuses what the adapters refuse. Logs
 * each missing feature once per process, at level "info".
 */
void strict_ops_change(struct verbs_context *context);

/*
 * The depth of a queue for which the program requests `depth`. It is a power of two, as with
 * adapters, and at most `highest`. Without URNIC_STRICT it is `depth`.
 */
uint32_t strict_depth(uint32_t depth, uint32_t highest);

/*
 * Returns 0 if a size that the program requests is within the device's limit. Otherwise returns the
 * errno of `reason`. Then result_refused() reports `reason`; with URNIC_STRICT it reports that the
 * limit is that of the adapters.
 */
int strict_refuse_beyond(
	enum reason reason, const char *what, uint64_t requested, uint64_t highest);

/*
 * Count the pages of [address, address + bytes) as pinned. Like the kernel, count them again for
 * each registration. Returns 0; or ENOMEM beyond RLIMIT_MEMLOCK, which result_refused() then
 * reports. Without URNIC_STRICT nothing is counted.
 */
int strict_pin(const void *address, size_t bytes);

/* Undo strict_pin() of the same range. */
void strict_unpin(const void *address, size_t bytes);

/* The bytes that the rings of a queue pair, a shared receive queue or a completion queue take. */
size_t strict_qp_bytes(const struct ibv_qp_cap *cap);
size_t strict_rq_bytes(uint32_t depth, uint32_t sge_count_max);
size_t strict_cq_bytes(uint32_t depth);

/*
 * ibv_post_send() for devices whose adapters lack operations, or have a lower limit for the length
 * of a message. Refuses such a request when its turn in the list comes, with EINVAL.
 */
int strict_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* The child of a fork calls this, because it has pinned nothing. */
void strict_pins_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_REFUSALS_H
#define TESTS_UNIT_REFUSALS_H

/*
 * The refusals of src/queue/refusal.def, each provoked by a function of its own: a row without a
 * function does not link.
 *
 * refusal_<call>_<REASON>() makes the call fail for that reason, and returns the errno that the
 * call failed with; 0: it did not fail. The objects of `refusals` exist, and stay as they are.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arith.h"
#include "front/verbs/limits.h"
#include "front/verbs/newer.h"

#define REFUSAL(call, reason) int refusal_##call##_##reason(void);
#include "queue/refusal.def"
#undef REFUSAL

#define PROVOKE(call, reason) int refusal_##call##_##reason(void)

enum { REFUSAL_BYTES = 8192 };

struct refusals {
	struct ibv_context *context; /* RoCE */
	struct ibv_context *iwarp; /* the same interface */
	struct ibv_context *fading; /* another interface */
	struct ibv_pd *pd;
	struct ibv_pd *other_pd;
	struct ibv_pd *fading_pd;
	struct ibv_cq *cq;
	struct ibv_cq *fading_cq;
	struct ibv_qp *qp; /* RC, in RESET */
	struct ibv_qp *ready; /* RC, in RTS, to itself; max_send_sge 2, 64 inline bytes */
	struct ibv_qp *ud; /* in RTS */
	struct ibv_srq *srq; /* basic, max_sge 1 */
	struct ibv_qp *with_srq; /* RC, in INIT */
	struct ibv_mr *mr; /* of memory, for local write and MW_BIND */
	struct ibv_xrcd *xrcd;
	union ibv_gid gid; /* of `context`, index 0 */
	uint8_t *memory; /* REFUSAL_BYTES, of whole pages */
};

extern struct refusals refusals;

/* The errno of a call that returns a pointer. */
static inline int refusal_of(const void *made)
{
	return made ? 0 : errno;
}

/*
 * Call `make` again and again, with another allocation of memory failing each time, until `make`
 * fails. `make` is a made_<call>(): it makes an object, destroys it, and returns 0 or an errno.
 */
int refusal_without_memory(int (*make)(void));

/* Call `make` while *limit is 0. */
int refusal_at_limit(int (*make)(void), int *limit);

/* Move an RC or UD queue pair from RESET to ERR, in which posts are taken and flushed. */
void refusal_qp_fail(struct ibv_qp *qp);

/* The process has another user ID than its files. */
extern bool refusal_is_other_user;

#define WITHOUT_MEMORY(call)                                 \
	PROVOKE(call, NO_MEMORY)                             \
	{                                                    \
		return refusal_without_memory(made_##call);  \
	}
#define AT_LIMIT(call, limit)                                              \
	PROVOKE(call, LIMIT)                                               \
	{                                                                  \
		return refusal_at_limit(made_##call, &device_limits.limit); \
	}

/* The object of the call has never existed. */
#define NEVER_MADE(call, type, ...)                                         \
	PROVOKE(call, NO_OBJECT)                                            \
	{                                                                   \
		type gone = {.context = refusals.context, .handle = 0x77777}; \
                                                                            \
		return __VA_ARGS__;                                         \
	}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flush at the end of an export. A client may end without a flush. Data that the controller has
 * acknowledged may then still be in the controller's volatile write cache.
 *
 * A round is a number of flushes that are sent at once. It ends when all are done, after
 * FLUSH_SECONDS, or by flush_round_stop(). A flush that is not done then ends with its session, so
 * a round outlives the sessions of its flushes.
 */
#ifndef TOOLS_NVMF_FLUSH_H
#define TOOLS_NVMF_FLUSH_H

#include "nvmf/nvmf.h"

enum { FLUSH_SECONDS = 10 }; /* as long as two attempts to connect anew */

struct flush_round {
	struct loop *loop;
	struct loop_timer limit;
	unsigned pending;
	bool is_waiting;
	bool is_stopped;
};

/* All members are 0 before flush_begin(). */
struct flush {
	struct flush_round *round;
	struct block_request request;
	bool is_pending;
	int error;
};

void flush_round_init(struct flush_round *round, struct loop *loop);

/* Send a flush if something was written and may be in a write cache. */
void flush_begin(struct flush *flush, struct flush_round *round, const struct session *session);

/* Step the loop until the round ends. */
void flush_round_wait(struct flush_round *round);

/* End the wait, if there is one, because the user has sent a second signal. */
void flush_round_stop(struct flush_round *round);

/*
 * Returns 0; or 1 after a sentence which says that data written to the namespace of `subnqn` may be
 * lost.
 */
int flush_end(const struct flush *flush, const struct session *session, const char *subnqn);

#endif

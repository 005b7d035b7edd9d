/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: the descriptor on which a program waits for completion events of many queues.
 *
 * A completion queue on a channel embeds an event of it. The public structure has no handle, so a channel's pointer is trusted.
 */
#ifndef URNIC_FRONT_VERBS_CHANNEL_H
#define URNIC_FRONT_VERBS_CHANNEL_H

#include "front/verbs/context.h"

struct channel {
	/* refcnt is the number of queues on the channel, under the context's mutex. */
	struct ibv_comp_channel verbs;
	struct event_queue queue;
};

static inline struct channel *channel_of(struct ibv_comp_channel *verbs)
{
	return container_of(verbs, struct channel, verbs);
}

/* One queue more on the channel, and one less. */
void channel_ref(struct channel *channel);
void channel_unref(struct channel *channel);

#endif

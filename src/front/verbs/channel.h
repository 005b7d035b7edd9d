/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: the descriptor on which a program waits for completion events of many
 * queues.
 *
 * A completion queue on a channel embeds an event of it. The public structure has no
 * handle, so a channel's pointer is trusted; it is an object all the same, so that it is not
 * destroyed under its queues.
 */
#ifndef URNIC_FRONT_VERBS_CHANNEL_H
#define URNIC_FRONT_VERBS_CHANNEL_H

#include "front/verbs/object.h"

struct channel {
	struct ibv_comp_channel verbs;
	struct object object;
	struct event_queue queue;
	struct nic_channel *nic;
};

static inline struct channel *channel_of(struct ibv_comp_channel *verbs)
{
	return container_of(verbs, struct channel, verbs);
}

/* Release all but the structure; the object is already out of the table. */
void channel_release(struct object *object);

/* One queue more on the channel. False when it is being destroyed. Undo with object_unref(). */
static inline bool channel_ref(struct channel *channel)
{
	return object_ref(channel->object.handle, OBJECT_CHANNEL, channel->object.context) != NULL;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: the descriptor on which a program waits for completion events of many
 * queues.
 *
 * A completion queue embeds the event that it posts to its channel. The public structure has no
 * handle, so a channel's pointer is trusted. A channel is still an object, so that its queues keep
 * it from being destroyed.
 */
#ifndef URNIC_FRONT_VERBS_COMP_CHANNEL_H
#define URNIC_FRONT_VERBS_COMP_CHANNEL_H

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

/*
 * Count another queue of the channel; undo with object_unref(). Returns false if the channel is
 * being destroyed.
 */
static inline bool channel_ref(struct channel *channel)
{
	return object_ref(channel->object.handle, OBJECT_CHANNEL, channel->object.context) != NULL;
}

#endif

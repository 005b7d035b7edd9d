/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/cq.h"

#include <stdlib.h>

#include "front/verbs/result.h"
#include "nic/object/nic.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (!channel)
		return result_null("ibv_create_comp_channel", result_cause(REASON_NO_MEMORY));
	error = -event_queue_init_set(&channel->queue);
	if (error) {
		free(channel);
		return result_null("ibv_create_comp_channel", error);
	}
	channel->verbs = (struct ibv_comp_channel){.context = context, .fd = channel->queue.fd};
	error = -nic_channel_create(&channel->queue, &channel->nic);
	return object_publish(&channel->object, OBJECT_CHANNEL, context_of(context), NULL, error)
		? &channel->verbs
		: NULL;
}

void *channel_release(struct object *object)
{
	struct channel *channel = container_of(object, struct channel, object);

	if (channel->nic)
		nic_channel_destroy(channel->nic);
	event_queue_done(&channel->queue);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return result_of("ibv_destroy_comp_channel",
		object_destroy(
			channel_of(channel)->object.handle, OBJECT_CHANNEL, channel->context));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/channel.h"

#include <stdlib.h>

#include "front/verbs/result.h"
#include "nic/nic.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (!channel)
		return NULL;
	error = -event_queue_init(&channel->queue);
	if (error)
		goto fail_free;
	error = -nic_channel_create(&channel->queue, &channel->nic);
	if (error)
		goto fail_done;
	error = object_add(&channel->object, OBJECT_CHANNEL, context_of(context));
	if (error)
		goto fail_destroy;
	channel->verbs = (struct ibv_comp_channel){.context = context, .fd = channel->queue.fd};
	return &channel->verbs;

fail_destroy:
	nic_channel_destroy(channel->nic);
fail_done:
	event_queue_done(&channel->queue);
fail_free:
	free(channel);
	errno = error;
	return NULL;
}

void channel_release(struct object *object)
{
	struct channel *channel = container_of(object, struct channel, object);

	nic_channel_destroy(channel->nic);
	event_queue_done(&channel->queue);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return result_of("ibv_destroy_comp_channel",
		object_destroy(channel_of(channel)->object.handle, OBJECT_CHANNEL,
			context_of(channel->context), channel_release,
			offsetof(struct channel, object)));
}

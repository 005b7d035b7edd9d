/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/channel.h"

#include <stdlib.h>

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (!channel)
		return NULL;
	error = event_queue_init(&channel->queue);
	if (error) {
		free(channel);
		errno = -error;
		return NULL;
	}
	channel->verbs = (struct ibv_comp_channel){.context = context, .fd = channel->queue.fd};
	return &channel->verbs;
}

static void channel_count(struct channel *channel, int step)
{
	pthread_mutex_t *mutex = &channel->verbs.context->mutex;

	pthread_mutex_lock(mutex);
	channel->verbs.refcnt += step;
	pthread_mutex_unlock(mutex);
}

void channel_ref(struct channel *channel)
{
	channel_count(channel, 1);
}

void channel_unref(struct channel *channel)
{
	channel_count(channel, -1);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *verbs)
{
	struct channel *channel = channel_of(verbs);
	bool is_used;

	pthread_mutex_lock(&verbs->context->mutex);
	is_used = verbs->refcnt != 0;
	pthread_mutex_unlock(&verbs->context->mutex);
	if (is_used)
		return EBUSY;
	event_queue_done(&channel->queue);
	free(channel);
	return 0;
}

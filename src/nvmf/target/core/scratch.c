/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scratch buffers of Verify and Copy. A queue has a few of them, whatever its number of entries
 * is. So neither the memory of a queue nor the time until other hosts have their turn grows with
 * the number of its Verify and Copy commands. Further ones are parked, in the order of arrival.
 */
#include <stdlib.h>

#include "nvmf/target/core/objects.h"

static void scratch_allocate(struct target_command *command)
{
	struct target_queue *queue = command->queue;

	command->scratch =
		malloc(TARGET_SCRATCH_BYTES + TARGET_COPY_RANGES * TARGET_COPY_RANGE_BYTES);
	if (!command->scratch) {
		command_finish(command, NVME_INTERNAL);
		return;
	}
	command->has_counted_scratch = true;
	queue->scratches++;
	command->run(command);
}

static bool has_room(const struct target_queue *queue)
{
	return queue->scratches < TARGET_SCRATCHES_MAX;
}

/* Start up to TARGET_SCRATCHES_MAX commands; other hosts have their turn before the next call. */
static void resume_run(struct loop_work *work)
{
	struct target_queue *queue = container_of(work, struct target_queue, scratch_resume);

	for (int i = 0; i < TARGET_SCRATCHES_MAX; i++) {
		struct target_command *command;

		if (!has_room(queue) || list_is_empty(&queue->scratch_parked))
			return;
		command = list_first(&queue->scratch_parked, struct target_command, parked);
		list_remove(&command->parked);
		command->stage = TARGET_STAGE_WORKING;
		scratch_allocate(command);
	}
}

void scratch_take(struct target_command *command, void (*run)(struct target_command *command))
{
	struct target_queue *queue = command->queue;

	command->run = run;
	if (has_room(queue) && list_is_empty(&queue->scratch_parked)) {
		scratch_allocate(command);
		return;
	}
	command->stage = TARGET_STAGE_PARKED;
	list_append(&queue->scratch_parked, &command->parked);
}

void scratch_give(struct target_command *command)
{
	struct target_queue *queue = command->queue;

	free(command->scratch);
	command->scratch = NULL;
	if (!command->has_counted_scratch)
		return;
	command->has_counted_scratch = false;
	queue->scratches--;
	if (!list_is_empty(&queue->scratch_parked))
		loop_defer(queue->target->loop, &queue->scratch_resume);
}

void scratch_open(struct target_queue *queue)
{
	list_init(&queue->scratch_parked);
	loop_work_init(&queue->scratch_resume, resume_run);
}

void scratch_close(struct target_queue *queue)
{
	loop_defer_cancel(&queue->scratch_resume);
}

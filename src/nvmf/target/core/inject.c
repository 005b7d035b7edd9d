/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error injection, for tests of hosts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/core/objects.h"

struct rule {
	struct list node;
	struct target_rule rule;
	bool is_counted;
};

int target_inject(struct target *target, const struct target_rule *rule)
{
	struct rule *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	copy->rule = *rule;
	copy->is_counted = rule->count != 0;
	list_append(&target->rules, &copy->node);
	return 0;
}

void target_inject_clear(struct target *target)
{
	list_for_each_safe(rule, &target->rules, struct rule, node) {
		list_remove(&rule->node);
		free(rule);
	}
}

static bool is_matching(const struct target_rule *rule, const struct target_command *command)
{
	const struct target_queue *queue = command->queue;

	if (rule->has_opcode &&
		(rule->opcode != command->sqe.opcode || rule->is_admin != (queue->qid == 0)))
		return false;
	if (rule->nsid && (rule->nsid != command->sqe.nsid || queue->qid == 0))
		return false;
	return !rule->hostnqn[0] ||
		(queue->controller && !strcmp(queue->controller->hostnqn, rule->hostnqn));
}

static void delay_over(struct loop_timer *timer)
{
	struct target_command *command = container_of(timer, struct target_command, delay);

	command->stage = TARGET_STAGE_WORKING;
	command->run(command);
}

static bool rule_apply(const struct target_rule *rule, struct target_command *command)
{
	struct loop *loop = command->queue->target->loop;

	command->queue->target->counters.injected++;
	switch (rule->fault) {
	case TARGET_FAULT_STATUS:
		command_finish(command, rule->status);
		return true;
	case TARGET_FAULT_DISCONNECT:
		command->stage = TARGET_STAGE_DELAYED;
		loop_timer_init(&command->delay, delay_over);
		queue_close(command->queue);
		return true;
	case TARGET_FAULT_DELAY:
	case TARGET_FAULT_DROP:
		command->stage = TARGET_STAGE_DELAYED;
		loop_timer_init(&command->delay, delay_over);
		if (rule->fault == TARGET_FAULT_DELAY)
			loop_timer_set(loop, &command->delay, loop_now_ns(loop) + rule->delay_ns);
		return true;
	}
	return false;
}

bool inject_command(struct target_command *command)
{
	list_for_each(rule, &command->queue->target->rules, struct rule, node) {
		if (!is_matching(&rule->rule, command))
			continue;
		if (rule->rule.skip) {
			rule->rule.skip--;
			continue;
		}
		if (rule->is_counted && rule->rule.count == 0)
			continue;
		if (rule->is_counted)
			rule->rule.count--;
		return rule_apply(&rule->rule, command);
	}
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters, and the queue pairs whose completions they count. A queue pair is a user of
 * its counters until it is released.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "front/verbs/comp_counter.h"
#include "front/verbs/newer.h"
#include "front/verbs/qp.h"
#include "front/verbs/result.h"

struct comp_counter_front {
	struct comp_counter verbs;
	struct object object;
	struct nic_counter *nic;
};

int comp_counter_query_caps(
	struct ibv_context *context, struct comp_counter_caps *ret_caps, size_t bytes)
{
	const struct comp_counter_caps caps = {
		.max_value = UINT64_MAX,
		.max_counters = COMP_COUNTER_COUNT_MAX,
		.supported_operations = COUNTED_KNOWN,
	};

	(void)context;
	memset(ret_caps, 0, bytes);
	memcpy(ret_caps, &caps, bytes < sizeof(caps) ? bytes : sizeof(caps));
	return 0;
}

struct comp_counter *comp_counter_create(
	struct ibv_context *context, const struct comp_counter_attr *attr)
{
	struct comp_counter_front *counter;

	if (attr->comp_mask || attr->flags)
		return result_null("ibv_create_comp_cntr", result_cause(REASON_UNKNOWN_BITS));
	if (attr->type != COMP_COUNTER_REQUESTS && attr->type != COMP_COUNTER_BYTES)
		return result_null("ibv_create_comp_cntr", result_cause(REASON_COUNTER_LACKING));
	counter = calloc(1, sizeof(*counter));
	if (!counter)
		return result_null("ibv_create_comp_cntr", result_cause(REASON_NO_MEMORY));
	counter->verbs.context = context;
	counter->nic = nic_counter_create(attr->type == COMP_COUNTER_BYTES);
	return object_publish(&counter->object, OBJECT_COMP_COUNTER, context_of(context),
		       &counter->verbs.handle,
		       counter->nic ? 0 : result_cause(REASON_NO_MEMORY))
		? &counter->verbs
		: NULL;
}

void *comp_counter_release(struct object *object)
{
	struct comp_counter_front *counter =
		container_of(object, struct comp_counter_front, object);

	nic_counter_destroy(counter->nic);
	counter->nic = NULL;
	return counter;
}

int comp_counter_destroy(struct comp_counter *counter)
{
	return result_of("ibv_destroy_comp_cntr",
		object_destroy(counter->handle, OBJECT_COMP_COUNTER, counter->context));
}

/* The counter that a call names; undo with object_unref(&counter->object). */
static struct comp_counter_front *counter_ref(const struct comp_counter *verbs)
{
	struct object *object =
		object_ref(verbs->handle, OBJECT_COMP_COUNTER, context_of(verbs->context));

	return object ? container_of(object, struct comp_counter_front, object) : NULL;
}

/* The queue pair becomes a user of the counter, at one of the places in qp->counters. */
static int counter_attach(
	struct comp_counter_front *counter, struct qp_front *qp, enum counted_operation operations)
{
	int error = -nic_counter_attach(counter->nic, qp->nic, operations);

	error = result_as(error, REASON_COUNTER_LACKING);
	error = result_as(error, REASON_COUNTER_TAKEN);
	error = result_as(error, REASON_COUNTER_OPERATIONS);
	if (error)
		return error;
	qp->counters[__builtin_ctz(operations)] =
		object_ref(counter->verbs.handle, OBJECT_COMP_COUNTER, counter->object.context);
	return 0;
}

int comp_counter_attach(struct ibv_qp *qp, struct comp_counter *counter,
	const struct comp_counter_attach_attr *attr)
{
	struct comp_counter_front *counted = NULL;
	struct qp_front *front = NULL;
	int error;

	if (attr->comp_mask)
		return result_of("ibv_qp_attach_comp_cntr", result_cause(REASON_UNKNOWN_BITS));
	if (!attr->operations)
		return result_of("ibv_qp_attach_comp_cntr", result_cause(REASON_COUNTER_OPERATIONS));
	if (attr->operations & ~(uint32_t)COUNTED_KNOWN)
		return result_of("ibv_qp_attach_comp_cntr", result_cause(REASON_COUNTER_LACKING));
	front = qp_ref(qp);
	if (front)
		counted = counter_ref(counter);
	if (counted && front->object.context->opening == counted->object.context->opening)
		error = counter_attach(counted, front, (enum counted_operation)attr->operations);
	else
		error = result_cause(REASON_NO_PARENT);
	object_unref(counted ? &counted->object : NULL);
	object_unref(front ? &front->object : NULL);
	return result_of("ibv_qp_attach_comp_cntr", error);
}

static int value_read(const char *call, const struct comp_counter *verbs,
	enum completion_outcome outcome, uint64_t *ret_value)
{
	struct comp_counter_front *counter = counter_ref(verbs);

	if (!counter)
		return result_of(call, result_cause(REASON_NO_OBJECT));
	*ret_value = nic_counter_read(counter->nic, outcome);
	object_unref(&counter->object);
	return 0;
}

/* `change` is nic_counter_write() or nic_counter_add(). */
static int value_change(const char *call, const struct comp_counter *verbs,
	void (*change)(struct nic_counter *, enum completion_outcome, uint64_t),
	enum completion_outcome outcome, uint64_t operand)
{
	struct comp_counter_front *counter = counter_ref(verbs);

	if (!counter)
		return result_of(call, result_cause(REASON_NO_OBJECT));
	change(counter->nic, outcome, operand);
	object_unref(&counter->object);
	return 0;
}

int comp_counter_read(struct comp_counter *counter, uint64_t *ret_value)
{
	return value_read("ibv_read_comp_cntr", counter, COMPLETION_SUCCESS, ret_value);
}

int comp_counter_read_errors(struct comp_counter *counter, uint64_t *ret_value)
{
	return value_read("ibv_read_err_comp_cntr", counter, COMPLETION_ERROR, ret_value);
}

int comp_counter_set(struct comp_counter *counter, uint64_t value)
{
	return value_change(
		"ibv_set_comp_cntr", counter, nic_counter_write, COMPLETION_SUCCESS, value);
}

int comp_counter_set_errors(struct comp_counter *counter, uint64_t value)
{
	return value_change(
		"ibv_set_err_comp_cntr", counter, nic_counter_write, COMPLETION_ERROR, value);
}

int comp_counter_add(struct comp_counter *counter, uint64_t amount)
{
	return value_change(
		"ibv_inc_comp_cntr", counter, nic_counter_add, COMPLETION_SUCCESS, amount);
}

int comp_counter_add_errors(struct comp_counter *counter, uint64_t amount)
{
	return value_change(
		"ibv_inc_err_comp_cntr", counter, nic_counter_add, COMPLETION_ERROR, amount);
}

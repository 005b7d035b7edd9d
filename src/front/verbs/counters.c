/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/counters.h"

#include <stdlib.h>

#include "base/arith.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"

/*
 * The most points of one counters object. More points would be useless, because there are only two
 * values.
 */
enum { POINT_COUNT_MAX = 16 };

struct counters {
	struct ibv_counters verbs;
	struct object object;
	struct flow_counters values;
	pthread_mutex_t lock; /* guards the points and flow_count */
	uint32_t flow_count; /* number of flows that use the object */
	uint32_t point_count;
	struct {
		enum ibv_counter_description what;
		uint32_t index;
	} point[POINT_COUNT_MAX];
};

static struct counters *counters_of(struct ibv_counters *verbs)
{
	return container_of(verbs, struct counters, verbs);
}

struct ibv_counters *counters_create(
	struct ibv_context *context, struct ibv_counters_init_attr *attr)
{
	struct counters *counters;

	if (strict_lacks("ibv_create_counters", STRICT_HAS_FLOWS))
		return NULL;
	if (attr->comp_mask)
		return result_null("ibv_create_counters", result_cause(REASON_UNKNOWN_BITS));
	counters = calloc(1, sizeof(*counters));
	if (!counters)
		return result_null("ibv_create_counters", result_cause(REASON_NO_MEMORY));
	counters->verbs.context = context;
	pthread_mutex_init(&counters->lock, NULL);
	return object_publish(&counters->object, OBJECT_COUNTERS, context_of(context), NULL, 0)
		? &counters->verbs
		: NULL;
}

void *counters_release(struct object *object)
{
	struct counters *counters = container_of(object, struct counters, object);

	pthread_mutex_destroy(&counters->lock);
	return counters;
}

int counters_destroy(struct ibv_counters *verbs)
{
	return result_of("ibv_destroy_counters",
		object_destroy(counters_of(verbs)->object.handle, OBJECT_COUNTERS, verbs->context));
}

/*
 * A counters object cannot be attached to an existing flow, because that would have to suspend the
 * flow.
 */
static int counters_attach_check(
	const struct ibv_counter_attach_attr *attr, const struct ibv_flow *flow)
{
	if (attr->comp_mask)
		return result_cause(REASON_UNKNOWN_BITS);
	if (flow ||
		(attr->counter_desc != IBV_COUNTER_PACKETS &&
			attr->counter_desc != IBV_COUNTER_BYTES))
		return result_cause(REASON_FLOW_LIVE);
	return 0;
}

int counters_attach(
	struct ibv_counters *verbs, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	struct counters *counters = counters_of(verbs);
	int error = counters_attach_check(attr, flow);

	if (error)
		return result_of("ibv_attach_counters_point_flow", error);
	pthread_mutex_lock(&counters->lock);
	if (counters->flow_count) {
		error = result_cause(REASON_COUNTERS_BOUND);
	} else if (counters->point_count == POINT_COUNT_MAX) {
		error = result_cause(REASON_COUNTERS_FULL);
	} else {
		uint32_t point = counters->point_count++;

		counters->point[point].what = attr->counter_desc;
		counters->point[point].index = attr->index;
	}
	pthread_mutex_unlock(&counters->lock);
	return result_of("ibv_attach_counters_point_flow", error);
}

static uint64_t value_of(const struct counters *counters, enum ibv_counter_description what)
{
	const _Atomic uint64_t *value =
		what == IBV_COUNTER_BYTES ? &counters->values.bytes : &counters->values.packets;

	return atomic_load_explicit(value, memory_order_relaxed);
}

int counters_read(struct ibv_counters *verbs, uint64_t *values, uint32_t count, uint32_t flags)
{
	struct counters *counters = counters_of(verbs);

	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return result_of("ibv_read_counters", result_cause(REASON_UNKNOWN_BITS));
	memset(values, 0, count * sizeof(*values));
	pthread_mutex_lock(&counters->lock);
	for (uint32_t i = 0; i < counters->point_count; i++)
		if (counters->point[i].index < count)
			values[counters->point[i].index] +=
				value_of(counters, counters->point[i].what);
	pthread_mutex_unlock(&counters->lock);
	return 0;
}

struct flow_counters *counters_bind(struct ibv_counters *verbs, const struct context *context)
{
	struct counters *counters = counters_of(verbs);

	if (!object_ref(counters->object.handle, OBJECT_COUNTERS, context))
		return NULL;
	pthread_mutex_lock(&counters->lock);
	counters->flow_count++;
	pthread_mutex_unlock(&counters->lock);
	return &counters->values;
}

void counters_unbind(struct flow_counters *bound)
{
	struct counters *counters = container_of(bound, struct counters, values);

	pthread_mutex_lock(&counters->lock);
	counters->flow_count--;
	pthread_mutex_unlock(&counters->lock);
	object_unref(&counters->object);
}

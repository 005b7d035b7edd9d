/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/limits.h"

#include <pthread.h>
#include <string.h>

#include "base/arith.h"
#include "front/verbs/device.h"
#include "front/verbs/strict.h"
#include "memory/copy.h"
#include "memory/mr.h"
#include "nic/object/nic.h"
#include "os/log.h"
#include "os/setting.h"
#include "os/strict.h"
#include "qp/qp.h"
#include "queue/cq.h"

/* clang-format off */
#define LIMIT(field, value, why) .field = value,
#define SETTABLE(field, value, highest, why) .field = value,
#define CAPABILITY(flag, why)
struct ibv_device_attr device_limits = {
#include "front/verbs/limits.def"
#undef LIMIT
#undef SETTABLE
#undef CAPABILITY
#define LIMIT(field, value, why)
#define SETTABLE(field, value, highest, why)
#define CAPABILITY(flag, why) | flag
	.device_cap_flags = 0
#include "front/verbs/limits.def"
#undef CAPABILITY
#undef SETTABLE
};

#define CAPABILITY(flag, why)
#define SETTABLE(field, value, highest, why) \
	{#field, offsetof(struct ibv_device_attr, field), highest},
static const struct settable {
	const char *name;
	size_t offset; /* offset of the attribute, an int, in struct ibv_device_attr */
	uint32_t highest;
} settables[] = {
#include "front/verbs/limits.def"
#undef LIMIT
#undef SETTABLE
#undef CAPABILITY
};
/* clang-format on */

uint32_t queue_depth_max;

static const struct settable *settable_find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_COUNT(settables); i++)
		if (strlen(settables[i].name) == bytes &&
			memcmp(settables[i].name, name, bytes) == 0)
			return &settables[i];
	return NULL;
}

bool limits_set(struct ibv_device_attr *limits, const struct text_part *item, uint32_t *ret_highest)
{
	const char *equals = memchr(item->text, '=', item->bytes);
	size_t name_bytes = equals ? (size_t)(equals - item->text) : 0;
	const struct settable *settable = equals ? settable_find(item->text, name_bytes) : NULL;
	struct text_part number;
	uint32_t value;

	*ret_highest = settable ? settable->highest : 0;
	if (!settable)
		return false;
	number = (struct text_part){equals + 1, item->bytes - name_bytes - 1};
	if (!text_part_number(&number, 1, settable->highest, &value))
		return false;
	memcpy((uint8_t *)limits + settable->offset, &(int){(int)value}, sizeof(int));
	return true;
}

enum { SHOWN_BYTES_MAX = 60 };

static void limits_complain(const struct text_part *item, uint32_t highest)
{
	const int shown = (int)min_u64(item->bytes, SHOWN_BYTES_MAX);

	if (highest)
		log_write(LOG_ERROR, "URNIC_LIMITS has '%.*s'; it may be 1 to %u; it is ignored",
			shown, item->text, highest);
	else
		log_write(LOG_ERROR,
			"URNIC_LIMITS has '%.*s', which is not limit=number of a limit that can be set (max_qp, max_cqe ... of ibv_devinfo -v); it is ignored",
			shown, item->text);
}

static void limits_read(void)
{
	const char *text = setting_text("URNIC_LIMITS");
	struct text_part item;
	uint32_t highest;
	int stated;

	strict_limits_lower(strict_adapters(), &device_limits);
	stated = device_limits.max_qp_wr;
	while (text && text_item_next(&text, &item))
		if (!limits_set(&device_limits, &item, &highest))
			limits_complain(&item, highest);
	queue_depth_max = (uint32_t)device_limits.max_qp_wr;
	if (strict_adapters() && device_limits.max_qp_wr == stated)
		queue_depth_max = max_u32(queue_depth_max, strict_max(STRICT_DEPTH_MAX));
	/*
	 * Each queue pair has its own resources for READs and atomics, so the device's total is the
	 * product.
	 */
	device_limits.max_res_rd_atom = device_limits.max_qp * device_limits.max_qp_rd_atom;
}

void limits_configure(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, limits_read);
}

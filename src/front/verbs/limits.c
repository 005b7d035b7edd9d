/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "front/verbs/device.h"
#include "memory/copy.h"
#include "memory/mr.h"
#include "os/log.h"
#include "os/setting.h"
#include "qp/qp.h"
#include "queue/cq.h"
#include "runtime/nic.h"

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
	size_t offset; /* of an int */
	uint32_t highest;
} settables[] = {
#include "front/verbs/limits.def"
#undef LIMIT
#undef SETTABLE
#undef CAPABILITY
};
/* clang-format on */

static const struct settable *settable_find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_COUNT(settables); i++)
		if (strlen(settables[i].name) == bytes &&
			memcmp(settables[i].name, name, bytes) == 0)
			return &settables[i];
	return NULL;
}

/* The whole text as a number, 0 when it is none or larger than any limit. */
static uint32_t number_parse(const char *text, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9' || value > UINT32_MAX / 10)
			return 0;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	return value > UINT32_MAX ? 0 : (uint32_t)value;
}

bool limits_set(
	struct ibv_device_attr *limits, const char *item, size_t bytes, uint32_t *ret_highest)
{
	const char *equals = memchr(item, '=', bytes);
	const struct settable *settable =
		equals ? settable_find(item, (size_t)(equals - item)) : NULL;
	uint32_t value;

	*ret_highest = settable ? settable->highest : 0;
	if (!settable)
		return false;
	value = number_parse(equals + 1, bytes - (size_t)(equals + 1 - item));
	if (value < 1 || value > settable->highest)
		return false;
	memcpy((uint8_t *)limits + settable->offset, &(int){(int)value}, sizeof(int));
	return true;
}

enum { SHOWN_BYTES_MAX = 60 };

static void complain(const char *item, size_t bytes, uint32_t highest)
{
	const int shown = bytes < SHOWN_BYTES_MAX ? (int)bytes : SHOWN_BYTES_MAX;

	if (highest)
		log_write(LOG_ERROR,
			"URNIC_LIMITS has '%.*s'; it may be 1 to %u; it is left as it is", shown,
			item, highest);
	else
		log_write(LOG_ERROR,
			"URNIC_LIMITS has '%.*s', which is not limit=number of a limit that can be set (max_qp, max_cqe ... of ibv_devinfo -v); it is left out",
			shown, item);
}

static void configure(void)
{
	const char *text = setting_text("URNIC_LIMITS");
	uint32_t highest;

	while (text && *text != '\0') {
		size_t bytes = strcspn(text, ",");

		if (bytes > 0 && !limits_set(&device_limits, text, bytes, &highest))
			complain(text, bytes, highest);
		text += bytes + (text[bytes] == ',');
	}
	/* Each queue pair has its own. */
	device_limits.max_res_rd_atom = device_limits.max_qp * device_limits.max_qp_rd_atom;
}

void limits_configure(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, configure);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/strict.h"

#include <pthread.h>
#include <string.h>

#include "base/text.h"
#include "os/log.h"
#include "os/setting.h"

static const char *const drivers[STRICT_ADAPTER_COUNT] = {
#define ADAPTER(NAME, driver, devices) [STRICT_##NAME] = driver,
#include "os/strict_adapter.def"
};

static uint32_t adapters;

const char *strict_driver(enum strict_adapter adapter)
{
	return drivers[adapter];
}

/* The bit of the driver that has this name; 0: there is none. */
static uint32_t driver_bit(const struct text_part *name)
{
	for (int i = 0; i < STRICT_ADAPTER_COUNT; i++)
		if (text_part_is(name, drivers[i]))
			return 1u << i;
	return 0;
}

bool strict_parse(const char *text, uint32_t *ret_adapters)
{
	uint32_t found = 0;
	struct text_part item;

	if (strcmp(text, "0") == 0 || strcmp(text, "1") == 0) {
		*ret_adapters = text[0] == '1' ? (1u << STRICT_ADAPTER_COUNT) - 1 : 0;
		return true;
	}
	while (text_item_next(&text, &item)) {
		uint32_t bit = driver_bit(&item);

		if (!bit)
			return false;
		found |= bit;
	}
	if (!found)
		return false;
	*ret_adapters = found;
	return true;
}

static void adapters_read(void)
{
	const char *text = setting_text("URNIC_STRICT");

	if (text && !strict_parse(text, &adapters))
		log_write(LOG_ERROR,
			"URNIC_STRICT is '%.40s'; it may be 0, 1, or a list of mlx5, irdma and bnxt; using 0",
			text);
}

uint32_t strict_adapters(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, adapters_read);
	return adapters;
}

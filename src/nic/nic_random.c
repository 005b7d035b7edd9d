/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/arith.h"
#include "nic/nic_internal.h"
#include "os/cancel.h"
#include "os/log.h"

/* Read /dev/urandom, for when getrandom() fails: in a sandbox, or before Linux 3.17. */
static bool random_read(void *bytes, size_t count)
{
	int before = cancel_forbid();
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	bool has_all = fd >= 0 && read(fd, bytes, count) == (ssize_t)count;

	if (fd >= 0)
		close(fd);
	cancel_allow(before);
	return has_all;
}

/* Returns false if there is no source of random numbers. */
static bool random_draw(void *bytes, size_t count)
{
	uint8_t *to = bytes;

	while (count > 0) {
		ssize_t got = getrandom(to, count, 0);

		if (got < 0 && errno != EINTR)
			return random_read(to, count);
		if (got > 0) {
			to += got;
			count -= (size_t)got;
		}
	}
	return true;
}

/*
 * A random number that is drawn when the NIC starts. When a later draw fails, random numbers are
 * made from it and a counter. Any thread may use it.
 */
static uint64_t random_reserve;

static uint64_t random_from_reserve(void)
{
	return mix_u64(__atomic_add_fetch(&random_reserve, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED));
}

int nic_random_start(void)
{
	uint64_t first;

	if (!random_draw(&first, sizeof(first)))
		return log_refusal("no random numbers, so there is no NIC", "getrandom");
	__atomic_store_n(&random_reserve, first, __ATOMIC_RELAXED);
	return 0;
}

static void random_fill(void *bytes, size_t count)
{
	uint8_t *to = bytes;

	if (random_draw(to, count))
		return;
	LOG_REFUSAL_ONCE("new memory keys are easier to guess", "getrandom");
	for (size_t i = 0; i < count; i++)
		to[i] = (uint8_t)random_from_reserve();
}

uint64_t nic_random_u64(void)
{
	uint64_t value = 0;

	random_fill(&value, sizeof(value));
	return value;
}

/* Random bytes for nic_random_byte(), drawn together; the last `left` ones are unused. */
static struct {
	uint8_t bytes[256];
	uint32_t left;
} random_stock;

uint8_t nic_random_byte(void)
{
	uint8_t *byte;
	uint8_t value;

	if (!random_stock.left) {
		random_fill(random_stock.bytes, sizeof(random_stock.bytes));
		random_stock.left = sizeof(random_stock.bytes);
	}
	byte = &random_stock.bytes[sizeof(random_stock.bytes) - random_stock.left--];
	value = *byte;
	*byte = 0;
	return value;
}

struct permutation *nic_permutation_draw(void)
{
	struct permutation *permutation = malloc(sizeof(*permutation));

	if (permutation)
		random_fill(permutation, sizeof(*permutation));
	return permutation;
}

void nic_random_forget(void)
{
	memset(&random_stock, 0, sizeof(random_stock));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/digest.h"

#include <sys/uio.h>
#include <unistd.h>

#include "check/check.h"

static uint64_t digest_run(uint64_t digest, const unsigned char *bytes, uint64_t count)
{
	uint64_t word;

	for (; count >= sizeof(word); bytes += sizeof(word), count -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		digest = digest_word(digest, word);
	}
	if (count > 0) {
		word = 0;
		memcpy(&word, bytes, count);
		digest = digest_word(digest, word);
	}
	return digest;
}

/*
 * Add `count` bytes of memory to a digest. If the region is suspect, the kernel reads the memory,
 * because the program may have given the memory back.
 */
static bool digest_part(
	uint64_t *digest, const struct region *region, uintptr_t start, uint64_t count)
{
	if (!region->is_suspect) {
		*digest = digest_run(*digest, (const unsigned char *)start, count);
		return true;
	}
	while (count > 0) {
		unsigned char copy[256];
		uint64_t part = count < sizeof(copy) ? count : sizeof(copy);
		struct iovec to = {copy, part}, from = {(void *)start, part};

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)part)
			return false;
		*digest = digest_run(*digest, copy, part);
		start += part;
		count -= part;
	}
	return true;
}

bool digest_add_bytes(
	uint64_t *digest, const struct region *region, uintptr_t start, uint64_t bytes)
{
	uint64_t part = DIGEST_SAMPLE_BYTES / 4;

	if (check_is_full || bytes <= DIGEST_SAMPLE_BYTES)
		return digest_part(digest, region, start, bytes);
	return digest_part(digest, region, start, part) &&
		digest_part(digest, region, start + bytes / 3, part) &&
		digest_part(digest, region, start + bytes / 3 * 2, part) &&
		digest_part(digest, region, start + bytes - part, part);
}

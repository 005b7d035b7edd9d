/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer/absence.h"

#include <string.h>

#include "base/arith.h"

enum { ABSENCE_COUNT = 256 }; /* a power of two */

struct absence {
	struct gid gid;
	uint8_t slot;
	uint64_t until_ns; /* 0: the entry is unused */
};

static struct absence absences[ABSENCE_COUNT];

/* The place in the table for this address and slot; other addresses and slots may share it. */
static struct absence *absence_place(const struct gid *gid, uint8_t slot)
{
	uint64_t words[2];

	memcpy(words, gid->raw, sizeof(words));
	return &absences[mix_u64(mix_u64(slot ^ words[0]) ^ words[1]) % ABSENCE_COUNT];
}

bool absence_is_known(const struct gid *gid, uint8_t slot, uint64_t now_ns)
{
	const struct absence *absence = absence_place(gid, slot);

	return now_ns < absence->until_ns && absence->slot == slot &&
		gid_is_equal(&absence->gid, gid);
}

void absence_note(const struct gid *gid, uint8_t slot, uint64_t now_ns)
{
	*absence_place(gid, slot) = (struct absence){*gid, slot, now_ns + ABSENCE_NS};
}

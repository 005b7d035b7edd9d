/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/lease/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "urnicd/lease/event_log.h"

int ledger_create(uint32_t generation)
{
	const uint32_t version = AGENT_VERSION;
	int fd = memfd_create("urnicd", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct ledger)) != 0 ||
		pwrite(fd, &version, sizeof(version), 0) != sizeof(version)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	ledger_put_generation(fd, generation);
	return fd;
}

static void ledger_write(int fd, const void *part, size_t bytes, size_t offset)
{
	if (pwrite(fd, part, bytes, (off_t)offset) != (ssize_t)bytes)
		log_line("the ledger cannot be written: the next urnicd would not know all slots");
}

void ledger_put_generation(int fd, uint32_t generation)
{
	ledger_write(fd, &generation, sizeof(generation), offsetof(struct ledger, generation));
}

void ledger_put_lease(int fd, uint8_t slot, const struct ledger_lease *lease)
{
	ledger_write(
		fd, lease, sizeof(*lease), offsetof(struct ledger, leases) + slot * sizeof(*lease));
}

void ledger_put_group(int fd, uint32_t index, const struct ledger_group *group)
{
	ledger_write(fd, group, sizeof(*group),
		offsetof(struct ledger, groups) + index * sizeof(*group));
}

bool ledger_read(int fd, struct ledger *ret_ledger)
{
	/* Only a memfd has seals; a read from a descriptor of another kind might block. */
	return fcntl(fd, F_GET_SEALS) >= 0 &&
		pread(fd, ret_ledger, sizeof(*ret_ledger), 0) == sizeof(*ret_ledger) &&
		ret_ledger->version == AGENT_VERSION;
}

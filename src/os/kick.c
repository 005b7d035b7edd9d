/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/kick.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/cancel.h"
#include "os/log.h"

/*
 * How often kick_raise() calls write(). It repeats a failed call, because a lost kick would leave a
 * thread asleep.
 */
enum { ATTEMPTS_MAX = 3 };

int kick_create(const char *what)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? log_refusal(what, "eventfd2") : fd;
}

static void kick_refused(const char *call)
{
	LOG_REFUSAL_ONCE("threads of the NIC cannot wake each other", call);
}

/* Write the count with writev(), for a sandbox that refuses write() but allows writev(). */
static bool is_written_otherwise(int fd, const uint64_t *count)
{
	const struct iovec piece = {(void *)(uintptr_t)count, sizeof(*count)};

	return writev(fd, &piece, 1) == sizeof(*count) || errno == EAGAIN;
}

void kick_raise(int fd)
{
	const uint64_t one = 1;
	int before = cancel_forbid();
	unsigned attempts = 0;

	/* EAGAIN: the counter is full, so the descriptor is readable. */
	while (write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN) {
		if (++attempts == ATTEMPTS_MAX) {
			if (!is_written_otherwise(fd, &one))
				kick_refused("write");
			break;
		}
	}
	cancel_allow(before);
}

uint64_t kick_clear(int fd)
{
	uint64_t count = 0;
	int before = cancel_forbid();

	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR)
		kick_refused("read");
	cancel_allow(before);
	return count;
}

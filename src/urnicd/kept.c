/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/setting.h"
#include "urnicd/ready.h"

enum { FIRST_FD = STDERR_FILENO + 1 };

static const char *const names[KEPT_COUNT] = {"socket", "lock", "fd-store"};

/*
 * Take the next word of *names_left, which colons separate. Returns its index in `names`; or
 * KEPT_COUNT if it is none of them.
 */
static size_t name_next(const char **names_left)
{
	size_t length = strcspn(*names_left, ":");
	size_t found = KEPT_COUNT;

	for (size_t i = 0; i < KEPT_COUNT; i++)
		if (strlen(names[i]) == length && memcmp(names[i], *names_left, length) == 0)
			found = i;
	*names_left += length + ((*names_left)[length] == ':');
	return found;
}

bool kept_take(struct kept *ret_kept)
{
	const char *words = setting_text("LISTEN_FDNAMES");
	int fds[KEPT_COUNT] = {-1, -1, -1};

	if (!words || setting_number("LISTEN_PID", 0, INT32_MAX, 0) != (unsigned)getpid() ||
		setting_number("LISTEN_FDS", 0, INT32_MAX, 0) != KEPT_COUNT)
		return false;
	for (int i = 0; i < KEPT_COUNT; i++) {
		size_t name = name_next(&words);

		if (name == KEPT_COUNT || fds[name] >= 0 ||
			fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC) != 0)
			return false;
		fds[name] = FIRST_FD + i;
	}
	*ret_kept = (struct kept){.socket = fds[0], .lock = fds[1], .fd_store = fds[2]};
	return true;
}

/*
 * Is `fd` a Unix datagram socket, as an fd store is? urnicd checks the contents when it reads them.
 */
static bool is_fd_store(int fd)
{
	int domain = 0, type = 0;
	socklen_t domain_bytes = sizeof(domain), type_bytes = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) == 0 &&
		getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 && domain == AF_UNIX &&
		type == SOCK_DGRAM;
}

int kept_adopt(const struct kept *kept, struct place_listener *ret_listener)
{
	if (is_fd_store(kept->fd_store) &&
		place_adopt(PLACE_URNICD, kept->socket, kept->lock, ret_listener) == 0)
		return kept->fd_store;
	close(kept->socket);
	/*
	 * Unlock explicitly: the manager has the same open file, so the close alone would not
	 * release the lock.
	 */
	flock(kept->lock, LOCK_UN);
	close(kept->lock);
	close(kept->fd_store);
	return -EINVAL;
}

void kept_forget(void)
{
	for (size_t i = 0; i < ARRAY_COUNT(names); i++)
		ready_forget(names[i]);
}

void kept_pass(const struct place_listener *listener, int fd_store)
{
	const int fds[KEPT_COUNT] = {listener->socket, listener->lock, fd_store};

	for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
		ready_keep(names[i], fds[i]);
}

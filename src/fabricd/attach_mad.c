/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/attach_mad.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fd_pass.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

/* Write the bytes to a new memfd, and seal it. Returns the memfd or -errno. */
static int memfd_fill(const uint8_t *bytes, uint32_t count)
{
	int fd = memfd_create("urnic-mad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint32_t at = 0;

	if (fd < 0)
		return -errno;
	while (at < count) {
		ssize_t written = pwrite(fd, bytes + at, count - at, at);

		if (written <= 0)
			break;
		at += (uint32_t)written;
	}
	if (at == count && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	close(fd);
	return -ENOMEM;
}

/* A file with seals is a memfd, neither a pipe nor a file on a disk, so the read never waits. */
static int memfd_read(int fd, uint8_t *bytes, uint32_t count)
{
	int seals = fcntl(fd, F_GET_SEALS);
	uint32_t at = 0;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EPROTO;
	while (at < count) {
		ssize_t read = pread(fd, bytes + at, count - at, at);

		if (read <= 0)
			return -EPROTO;
		at += (uint32_t)read;
	}
	return 0;
}

int attach_mad_send(int socket, struct attach_mad *mad, const uint8_t *bytes, int flags)
{
	struct iovec pieces[] = {{mad, sizeof(*mad)}, {(void *)(uintptr_t)bytes, mad->mad_bytes}};
	int fd, rc;

	mad->is_in_memfd = mad->mad_bytes > ATTACH_MAD_BYTES_INLINE;
	if (!mad->is_in_memfd)
		return fd_pass_send(socket, pieces, 2, NULL, 0, flags);
	fd = memfd_fill(bytes, mad->mad_bytes);
	if (fd < 0)
		return fd;
	rc = fd_pass_send(socket, pieces, 1, &fd, 1, flags);
	close(fd);
	return rc;
}

int attach_mad_receive(
	int socket, struct attach_mad *ret_mad, uint8_t *bytes, uint32_t room, int flags)
{
	struct iovec pieces[] = {{ret_mad, sizeof(*ret_mad)}, {bytes, room}};
	struct passed_fds fds;
	int message_flags, rc = 0;
	ssize_t count = fd_pass_receive(socket, pieces, 2, 1, &fds, &message_flags, flags);

	if (count < 0)
		return (int)count;
	if (count == 0)
		return -EIO;
	if (count < (ssize_t)sizeof(*ret_mad) || message_flags & (MSG_TRUNC | MSG_CTRUNC))
		rc = -EPROTO;
	else if (ret_mad->mad_bytes > room)
		rc = -EMSGSIZE;
	else if (!ret_mad->is_in_memfd)
		rc = count == (ssize_t)(sizeof(*ret_mad) + ret_mad->mad_bytes) ? 0 : -EPROTO;
	else
		rc = fds.count == 1 ? memfd_read(fds.fds[0], bytes, ret_mad->mad_bytes) : -EPROTO;
	passed_fds_close(&fds);
	return rc;
}

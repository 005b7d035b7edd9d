/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/fd_pass.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(PASSED_FDS_MAX * sizeof(int))];
};

int fd_pass_send(int socket, struct iovec *pieces, size_t piece_count, const int *fds,
	uint32_t count, int flags)
{
	struct msghdr message = {.msg_iov = pieces, .msg_iovlen = piece_count};
	size_t bytes = count * sizeof(int);
	union control control;

	assert(count <= PASSED_FDS_MAX);
	if (count > 0) {
		memset(&control, 0, sizeof(control));
		control.align = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(bytes),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.align), fds, bytes);
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(bytes);
	}
	while (sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void fds_collect(struct msghdr *message, struct passed_fds *fds)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg;
		cmsg = CMSG_NXTHDR(message, cmsg)) {
		size_t bytes = cmsg->cmsg_len - CMSG_LEN(0);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		/* The receiver's control buffer has no room for more descriptors. */
		assert(bytes <= sizeof(fds->fds));
		memcpy(fds->fds, CMSG_DATA(cmsg), bytes);
		fds->count = (uint32_t)(bytes / sizeof(int));
	}
}

ssize_t fd_pass_receive(int socket, struct iovec *pieces, size_t piece_count, uint32_t most,
	struct passed_fds *ret_fds, int *ret_flags, int flags)
{
	union control control;
	struct msghdr message = {
		.msg_iov = pieces,
		.msg_iovlen = piece_count,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_LEN(most * sizeof(int)), /* no room for one more */
	};
	ssize_t bytes;

	assert(most <= PASSED_FDS_MAX);
	ret_fds->count = 0;
	*ret_flags = 0;
	do {
		bytes = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return -errno;
	fds_collect(&message, ret_fds);
	if (bytes == 0)
		passed_fds_close(ret_fds);
	*ret_flags = message.msg_flags;
	return bytes;
}

bool fd_is_fixed_memory(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS); /* -1 unless it is a memfd */

	return seals >= 0 && seals & F_SEAL_SHRINK;
}

int passed_fds_take(struct passed_fds *fds, uint32_t index)
{
	int fd;

	if (index >= fds->count)
		return -1;
	fd = fds->fds[index];
	fds->fds[index] = -1;
	return fd;
}

void passed_fds_close(struct passed_fds *fds)
{
	for (uint32_t i = 0; i < fds->count; i++)
		if (fds->fds[i] >= 0)
			close(fds->fds[i]);
	fds->count = 0;
}

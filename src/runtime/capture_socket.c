/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/capture_socket.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "port/socket.h"

enum { BACKLOG = 128, MESSAGE_WAIT_MS = 1000 };

union control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

socklen_t capture_socket_name(struct sockaddr_un *ret_address, uid_t uid)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* A leading zero byte: abstract, with a name as long as the address. */
	int length = snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1,
		"urnic-capture-%u", uid);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int seqpacket_open(void)
{
	int fd = socket_open(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int capture_socket_listen(void)
{
	struct sockaddr_un address;
	socklen_t bytes = capture_socket_name(&address, geteuid());
	int fd = seqpacket_open();

	if (fd < 0)
		return fd;
	if (bind(fd, (const struct sockaddr *)&address, bytes) || listen(fd, BACKLOG)) {
		int error = -errno;

		close(fd);
		return error;
	}
	return fd;
}

/* One descriptor comes beside one byte. Returns it, or -errno. */
static int descriptor_receive(int connection)
{
	struct pollfd pollfd = {.fd = connection, .events = POLLIN};
	uint8_t byte;
	struct iovec piece = {&byte, sizeof(byte)};
	union control control;
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *cmsg;
	int fd;

	/* It connects and sends without doing anything in between. */
	if (poll(&pollfd, 1, MESSAGE_WAIT_MS) < 1)
		return -ETIMEDOUT;
	if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&message);
	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS ||
		cmsg->cmsg_len != CMSG_LEN(sizeof(fd)))
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

int capture_socket_accept(int listener, pid_t *ret_pid, int *ret_memory)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int result;

	if (connection < 0)
		return -errno;
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
		result = -errno;
	else if (geteuid() != 0 && peer.uid != geteuid())
		result = -EACCES;
	else
		result = descriptor_receive(connection);
	close(connection);
	/* -EAGAIN is that nobody has connected. */
	if (result < 0)
		return result == -EAGAIN ? -EPROTO : result;
	*ret_pid = peer.pid;
	*ret_memory = result;
	return 0;
}

static int descriptor_send(int connection, int fd)
{
	uint8_t byte = 0;
	struct iovec piece = {&byte, sizeof(byte)};
	union control control = {.align = {.cmsg_len = CMSG_LEN(sizeof(fd)),
					 .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS}};
	const struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	return sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static bool offer_to(int memory, uid_t uid)
{
	struct sockaddr_un address;
	socklen_t bytes = capture_socket_name(&address, uid);
	struct ucred peer;
	socklen_t peer_bytes = sizeof(peer);
	int fd = seqpacket_open();
	bool is_taken;

	if (fd < 0)
		return false;
	is_taken = !connect(fd, (const struct sockaddr *)&address, bytes) &&
		!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) && peer.uid == uid &&
		!descriptor_send(fd, memory);
	close(fd);
	return is_taken;
}

bool capture_socket_offer(int memory)
{
	uid_t uid = geteuid();
	bool is_taken = offer_to(memory, uid);

	return (uid != 0 && offer_to(memory, 0)) || is_taken;
}

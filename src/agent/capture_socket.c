/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/capture_socket.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "os/fd_pass.h"

enum { MESSAGE_WAIT_MS = 20, SIDES = 2 };

int capture_socket_listen(struct place_listener *ret_listener)
{
	return place_listen(PLACE_CAPTURE, geteuid() == 0, ret_listener);
}

/* Receive a byte with two descriptors. Returns 0 or -errno. */
static int descriptors_receive(int connection, int ret_fds[SIDES])
{
	struct pollfd pollfd = {.fd = connection, .events = POLLIN};
	uint8_t byte;
	struct iovec piece = {&byte, sizeof(byte)};
	struct passed_fds descriptors;
	ssize_t bytes;
	int error, flags;

	/* The process sends directly after its connect(), so the message is here in a moment. */
	if (poll(&pollfd, 1, MESSAGE_WAIT_MS) < 1)
		return -ETIMEDOUT;
	bytes = fd_pass_receive(
		connection, &piece, 1, PASSED_FDS_MAX, &descriptors, &flags, MSG_DONTWAIT);
	if (bytes < 0)
		return (int)bytes;
	/* The process may have passed any number of descriptors. Close those that are not taken. */
	if (descriptors.count == SIDES)
		for (uint32_t i = 0; i < SIDES; i++)
			ret_fds[i] = passed_fds_take(&descriptors, i);
	error = descriptors.count == SIDES ? 0 : -EPROTO;
	passed_fds_close(&descriptors);
	return error;
}

int capture_socket_accept(
	int listener, pid_t *ret_pid, uid_t *ret_uid, int *ret_memory, int *ret_shared)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int fds[SIDES] = {-1, -1};
	int result;

	if (connection < 0)
		return -errno;
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
		result = -errno;
	else if (geteuid() != 0 && peer.uid != geteuid())
		result = -EACCES;
	else
		result = descriptors_receive(connection, fds);
	close(connection);
	/* -EAGAIN means that no process has connected. */
	if (result < 0)
		return result == -EAGAIN ? -EPROTO : result;
	*ret_pid = peer.pid;
	*ret_uid = peer.uid;
	*ret_memory = fds[0];
	*ret_shared = fds[1];
	return 0;
}

static int descriptors_send(int connection, const int fds[SIDES])
{
	uint8_t byte = 0;
	struct iovec piece = {&byte, sizeof(byte)};

	return fd_pass_send(connection, &piece, 1, fds, SIDES, MSG_DONTWAIT);
}

static bool offer_to(const int fds[SIDES], enum place_whose whose)
{
	char path[PLACE_PATH_BYTES];
	int fd = place_connect(PLACE_CAPTURE, whose, 0, path);
	bool is_taken;

	if (fd < 0)
		return false;
	is_taken = !descriptors_send(fd, fds);
	close(fd);
	return is_taken;
}

bool capture_socket_offer(int memory, int shared)
{
	const int fds[SIDES] = {memory, shared};
	bool is_taken = offer_to(fds, PLACE_OWN);

	return offer_to(fds, PLACE_ROOTS) || is_taken;
}

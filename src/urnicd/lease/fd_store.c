/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/lease/fd_store.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "port/socket.h"

enum {
	FD_STORE_BUFFER_BYTES = 4 << 20,
	/* The most messages that urnicd reads from a fd store, which may be a client's. */
	FD_STORE_MESSAGES_MAX = 4096,
};

int fd_store_create(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t address_bytes = sizeof(address);
	int store = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc;

	if (store < 0)
		return -errno;
	socket_grow_send_buffer(store, FD_STORE_BUFFER_BYTES);
	/* Binding to no name makes the kernel choose an abstract one. */
	if (bind(store, (struct sockaddr *)&address, sizeof(address.sun_family)) != 0 ||
		getsockname(store, (struct sockaddr *)&address, &address_bytes) != 0 ||
		connect(store, (struct sockaddr *)&address, address_bytes) != 0) {
		rc = -errno;
		close(store);
		return rc;
	}
	return store;
}

int fd_store_put(int store, const struct fd_store_label *label, const int *fds)
{
	struct iovec iov = {(void *)label, sizeof(*label)};
	int rc = fd_pass_send(store, &iov, 1, fds, label->count, MSG_DONTWAIT);

	if (rc == -EAGAIN)
		return -ENOSPC;
	return rc == -ETOOMANYREFS ? -EMFILE : rc;
}

static bool is_label_legal(const struct fd_store_label *label, uint32_t count)
{
	if (label->version != AGENT_VERSION || label->first >= AGENT_SLOTS ||
		label->count != count || count > AGENT_SLOTS - label->first)
		return false;
	switch (label->kind) {
	case FD_STORE_SOCKETS:
		return count > 0;
	case FD_STORE_CHANNEL:
	case FD_STORE_LEDGER:
		return count == 1;
	default:
		return false;
	}
}

/* A message of the fd store. */
struct message {
	struct fd_store_label label;
	struct passed_fds fds;
	bool is_cut; /* some of its descriptors were not received */
	bool is_whole; /* has the size of a label, and all its descriptors */
};

/* Peek at the message at the peek offset. Returns the number of its bytes, or -errno. */
static ssize_t message_peek(int store, struct message *message)
{
	struct iovec iov = {&message->label, sizeof(message->label)};
	int flags;
	ssize_t bytes = fd_pass_receive(
		store, &iov, 1, PASSED_FDS_MAX, &message->fds, &flags, MSG_PEEK | MSG_DONTWAIT);

	message->is_cut = flags & MSG_CTRUNC;
	message->is_whole =
		bytes == sizeof(message->label) && !message->is_cut && !(flags & MSG_TRUNC);
	return bytes;
}

/* Visit the message at the peek offset and move the offset on. Returns false after the last. */
static bool visit_next(int store, fd_store_visit_fn *visit, void *context)
{
	struct message message;
	ssize_t bytes = message_peek(store, &message);

	if (bytes < 0)
		return false;
	if (message.is_whole && is_label_legal(&message.label, message.fds.count))
		visit(context, &message.label, message.fds.fds);
	else
		passed_fds_close(&message.fds);
	/* An empty message does not move the offset. */
	return bytes > 0;
}

int fd_store_visit(int store, fd_store_visit_fn *visit, void *context)
{
	const int start = 0;
	const int off = -1;

	if (setsockopt(store, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start)) != 0)
		return -errno;
	for (unsigned i = 0; i < FD_STORE_MESSAGES_MAX && visit_next(store, visit, context); i++)
		;
	setsockopt(store, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));
	return 0;
}

/*
 * Move the message at the head to the end, if it is needed, or throw it away. Returns 0, 1 if the
 * message is the mark, or -errno.
 */
static int sweep_next(
	int store, const struct fd_store_label *mark, fd_store_keep_fn *keep, void *context)
{
	struct message message;
	ssize_t bytes = message_peek(store, &message);
	bool is_mark;
	int rc = 0;

	if (bytes < 0)
		return (int)bytes;
	if (message.is_cut) {
		passed_fds_close(&message.fds);
		return -EMFILE;
	}
	is_mark = message.is_whole && message.label.kind == FD_STORE_MARK &&
		memcmp(&message.label, mark, sizeof(*mark)) == 0;
	/* Append the message before its removal from the head, so that it is never missing. */
	if (!is_mark && message.is_whole && is_label_legal(&message.label, message.fds.count) &&
		keep(context, &message.label, message.fds.fds))
		rc = fd_store_put(store, &message.label, message.fds.fds);
	passed_fds_close(&message.fds);
	if (rc)
		return rc;
	/* The kernel closes the descriptors of the message that this removes. */
	recv(store, &message.label, sizeof(message.label), MSG_DONTWAIT);
	return is_mark;
}

int fd_store_sweep(int store, fd_store_keep_fn *keep, void *context)
{
	static uint32_t sweeps;
	const struct fd_store_label mark = {
		.version = AGENT_VERSION,
		.kind = FD_STORE_MARK,
		.first = (uint32_t)getpid(),
		.sweep = ++sweeps,
	};
	int rc = fd_store_put(store, &mark, NULL);

	while (!rc)
		rc = sweep_next(store, &mark, keep, context);
	return rc < 0 ? rc : 0;
}

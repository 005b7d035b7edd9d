/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/bag.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	BAG_BUFFER_BYTES = 4 << 20,
	BAG_MESSAGES_MAX = 4096, /* to look at, in a bag that someone hands us */
};

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(BAG_DESCRIPTORS_MAX * sizeof(int))];
};

int bag_create(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t address_bytes = sizeof(address);
	const int buffer_bytes = BAG_BUFFER_BYTES;
	int bag = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc;

	if (bag < 0)
		return -errno;
	/* As large as we are allowed to: not an error when that is less. */
	if (setsockopt(bag, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof(buffer_bytes)))
		setsockopt(bag, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
	/* Binding to no name makes the kernel choose an abstract one. */
	if (bind(bag, (struct sockaddr *)&address, sizeof(address.sun_family)) != 0 ||
		getsockname(bag, (struct sockaddr *)&address, &address_bytes) != 0 ||
		connect(bag, (struct sockaddr *)&address, address_bytes) != 0) {
		rc = -errno;
		close(bag);
		return rc;
	}
	return bag;
}

int bag_put(int bag, const struct bag_label *label, const int *fds)
{
	struct iovec iov = {(void *)label, sizeof(*label)};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t fds_bytes = label->count * sizeof(int);
	union control control;

	assert(label->count <= BAG_DESCRIPTORS_MAX);
	if (label->count > 0) {
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(fds_bytes);
		cmsg = CMSG_FIRSTHDR(&header);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fds_bytes);
		memcpy(CMSG_DATA(cmsg), fds, fds_bytes);
	}
	if (sendmsg(bag, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno == EAGAIN)
		return -ENOSPC;
	return errno == ETOOMANYREFS ? -EMFILE : -errno;
}

static uint32_t collect(struct msghdr *header, int fds[BAG_DESCRIPTORS_MAX])
{
	uint32_t count = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		size_t bytes = cmsg->cmsg_len - CMSG_LEN(0);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds, CMSG_DATA(cmsg), bytes);
		count = (uint32_t)(bytes / sizeof(int));
	}
	return count;
}

static bool is_label_legal(const struct bag_label *label, uint32_t count)
{
	if (label->version != AGENT_VERSION || label->first >= AGENT_SLOTS ||
		label->count != count || count > AGENT_SLOTS - label->first)
		return false;
	switch (label->kind) {
	case BAG_SOCKETS:
		return count > 0;
	case BAG_CHANNEL:
	case BAG_LEDGER:
		return count == 1;
	default:
		return false;
	}
}

/* A message of the bag that was looked at. */
struct message {
	struct bag_label label;
	int fds[BAG_DESCRIPTORS_MAX];
	uint32_t count; /* of them */
	bool is_cut; /* not all its descriptors came */
	bool is_whole; /* a label and all its descriptors, whatever they say */
};

static void message_close(struct message *message)
{
	for (uint32_t i = 0; i < message->count; i++)
		close(message->fds[i]);
}

/* Look at the message at the peek offset. Returns its bytes, or -1 and errno. */
static ssize_t peek(int bag, struct message *message)
{
	struct iovec iov = {&message->label, sizeof(message->label)};
	union control control;
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t bytes = recvmsg(bag, &header, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	message->count = bytes < 0 ? 0 : collect(&header, message->fds);
	message->is_cut = header.msg_flags & MSG_CTRUNC;
	message->is_whole = bytes == sizeof(message->label) && !message->is_cut &&
		!(header.msg_flags & MSG_TRUNC);
	return bytes;
}

/* Visit the message at the peek offset and move the offset on. Returns false after the last. */
static bool visit_next(int bag, bag_visit_fn *visit, void *context)
{
	struct message message;
	ssize_t bytes = peek(bag, &message);

	if (bytes < 0)
		return errno == EINTR;
	if (message.is_whole && is_label_legal(&message.label, message.count))
		visit(context, &message.label, message.fds);
	else
		message_close(&message);
	/* An empty message does not move the offset. */
	return bytes > 0;
}

int bag_visit(int bag, bag_visit_fn *visit, void *context)
{
	const int start = 0;
	const int off = -1;

	if (setsockopt(bag, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start)) != 0)
		return -errno;
	for (unsigned i = 0; i < BAG_MESSAGES_MAX && visit_next(bag, visit, context); i++)
		;
	setsockopt(bag, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));
	return 0;
}

/* Take the message at the head, which was looked at, out. Its descriptors are closed. */
static void discard(int bag)
{
	struct bag_label label;

	recv(bag, &label, sizeof(label), MSG_DONTWAIT);
}

/*
 * Move the message at the head to the end, if it is needed, or throw it away. Returns 0, 1 at the
 * mark, or -errno.
 */
static int sweep_next(int bag, const struct bag_label *mark, bag_keep_fn *keep, void *context)
{
	struct message message;
	bool is_mark;
	int rc = 0;

	if (peek(bag, &message) < 0)
		return -errno;
	if (message.is_cut) {
		message_close(&message);
		return -EMFILE;
	}
	is_mark = message.is_whole && message.label.kind == BAG_MARK &&
		memcmp(&message.label, mark, sizeof(*mark)) == 0;
	/* First a second time, and then no longer at the head. */
	if (!is_mark && message.is_whole && is_label_legal(&message.label, message.count) &&
		keep(context, &message.label, message.fds))
		rc = bag_put(bag, &message.label, message.fds);
	message_close(&message);
	if (rc)
		return rc;
	discard(bag);
	return is_mark;
}

int bag_sweep(int bag, bag_keep_fn *keep, void *context)
{
	static uint32_t sweeps;
	const struct bag_label mark = {
		.version = AGENT_VERSION,
		.kind = BAG_MARK,
		.first = (uint32_t)getpid(),
		.sweep = ++sweeps,
	};
	int rc = bag_put(bag, &mark, NULL);

	while (!rc)
		rc = sweep_next(bag, &mark, keep, context);
	return rc < 0 ? rc : 0;
}

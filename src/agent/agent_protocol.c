/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/agent_protocol.h"

#include <errno.h>
#include <string.h>

#include "base/arith.h"

/*
 * How many descriptors a request of each type may carry, plus one: 0 marks a number without a type.
 */
static const uint8_t request_descriptors[] = {
#define AGENT_MESSAGE(NAME, name, number, descriptors, sentence) [number] = (descriptors) + 1,
#include "agent/agent_messages.def"
#undef AGENT_MESSAGE
};

int agent_message_send(int socket, const struct agent_message *message, const uint8_t *packet,
	const int *fds, uint32_t fd_count, int flags)
{
	struct iovec iov[2] = {
		{(void *)message, sizeof(*message)},
		{(void *)packet, packet ? message->forward.data_bytes : 0},
	};

	assert(fd_count <= AGENT_DESCRIPTORS_MAX);
	return fd_pass_send(socket, iov, packet ? 2 : 1, fds, fd_count, flags);
}

static bool is_slot(uint32_t slot)
{
	return slot > 0 && slot < AGENT_SLOTS;
}

static bool is_terminated(const char *text, size_t bytes)
{
	return memchr(text, 0, bytes) != NULL;
}

/* Are the fields that a request of this type carries in range? */
static bool is_request_legal(const struct agent_message *message)
{
	if (message->status != 0)
		return false;
	switch ((enum agent_message_type)message->type) {
	case AGENT_DETACH:
		return is_slot(message->detach.slot);
	case AGENT_OPEN:
		return is_slot(message->open.slot);
	case AGENT_RESUME:
		return message->resume.has_fd_store <= 1 && message->resume.has_memory <= 1 &&
			!agent_slots_has(&message->resume.slots, 0);
	case AGENT_GSI_OPEN:
		return is_slot(message->gsi_open.slot);
	case AGENT_FIND:
		return is_slot(message->find.slot);
	case AGENT_CLAIM:
		return (message->claim.flags & ~(uint32_t)AGENT_CLAIM_FLAGS) == 0;
	case AGENT_HELLO:
	case AGENT_ATTACH:
	case AGENT_FORWARD:
	case AGENT_LIST:
	case AGENT_STAT:
	case AGENT_GSI_ADDRESS:
	case AGENT_UNCLAIM:
		return true;
	}
	return false;
}

/* Are the fields that an answer of this type carries in range? */
static bool is_answer_legal(const struct agent_message *message)
{
	if (message->status != 0)
		return message->status > 0 && is_terminated(message->why, sizeof(message->why));
	switch ((enum agent_message_type)message->type) {
	case AGENT_ATTACH:
		return is_slot(message->attach.slot);
	case AGENT_LIST:
		return is_terminated(message->list.comm, sizeof(message->list.comm));
	case AGENT_HELLO:
	case AGENT_DETACH:
	case AGENT_OPEN:
	case AGENT_RESUME:
	case AGENT_FORWARD:
	case AGENT_STAT:
	case AGENT_GSI_OPEN:
	case AGENT_GSI_ADDRESS:
	case AGENT_CLAIM:
	case AGENT_UNCLAIM:
	case AGENT_FIND:
		return true;
	}
	return false;
}

static bool is_legal(
	const struct agent_message *message, bool is_request, size_t bytes, uint32_t descriptors)
{
	uint32_t descriptors_max;

	if (bytes < sizeof(*message))
		return false;
	if (message->type >= ARRAY_COUNT(request_descriptors) ||
		!request_descriptors[message->type])
		return false;
	bytes -= sizeof(*message);
	if (message->type == AGENT_FORWARD) {
		if (message->status != 0 || message->forward.data_bytes != bytes)
			return false;
	} else if (bytes != 0) {
		return false;
	}
	descriptors_max = is_request ? request_descriptors[message->type] - 1u : 1;
	if (descriptors > descriptors_max)
		return false;
	return is_request ? is_request_legal(message) : is_answer_legal(message);
}

int agent_message_receive(int socket, bool is_request, struct agent_message *ret_message,
	uint8_t *packet, struct passed_fds *ret_descriptors, int flags)
{
	struct iovec iov[2] = {
		{ret_message, sizeof(*ret_message)},
		{packet, AGENT_PACKET_BYTES_MAX},
	};
	int message_flags;
	ssize_t bytes = fd_pass_receive(socket, iov, packet ? 2 : 1, AGENT_DESCRIPTORS_MAX,
		ret_descriptors, &message_flags, flags);

	if (bytes < 0)
		return (int)bytes;
	if (bytes == 0)
		return -ECONNRESET;
	if (message_flags & MSG_CTRUNC && ret_descriptors->count < AGENT_DESCRIPTORS_MAX) {
		passed_fds_close(ret_descriptors);
		return -EMFILE; /* this process has no free descriptor number */
	}
	if (bytes >= AGENT_HEAD_BYTES && ret_message->version != AGENT_VERSION) {
		passed_fds_close(ret_descriptors);
		return -EPROTONOSUPPORT;
	}
	if (message_flags & (MSG_TRUNC | MSG_CTRUNC) ||
		!is_legal(ret_message, is_request, (size_t)bytes, ret_descriptors->count)) {
		passed_fds_close(ret_descriptors);
		return -EPROTO;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last messages of connections whose process has ended: a DREQ for an established connection, a
 * REJ for one that was being made. The process left the messages in shared memory (cm/cm.h).
 */
#include <errno.h>
#include <unistd.h>

#include "cm/cm.h"
#include "fabricd/server/server_internal.h"
#include "os/fd_pass.h"
#include "wire/bytes.h"
#include "wire/infiniband/pkey.h"

enum {
	MESSAGES_PER_READ = 64,
	HOP_LIMIT = 64,
};

int last_messages_keep(struct channel *channel, int memory, uint64_t offset)
{
	const uint64_t bytes = CM_LAST_MESSAGES_MAX * sizeof(struct cm_last_message);

	if (channel->last_messages >= 0 || offset > INT64_MAX - bytes ||
		!fd_is_fixed_memory(memory)) {
		close(memory);
		return -EINVAL;
	}
	channel->last_messages = memory;
	channel->last_messages_offset = offset;
	return 0;
}

/* The index of the message's GID at the port; 0 if the port does not have the GID. */
static uint8_t gid_index_of(
	const struct server_port *port, const struct cm_last_message *last_message)
{
	struct attach_port info;

	server_port_describe(port, &info);
	for (uint32_t i = 0; i < info.guid_count; i++)
		if (info.guids[i] == get_be64(last_message->local.raw + 8))
			return (uint8_t)i;
	return 0;
}

static uint16_t pkey_index_of(const struct server_port *port, uint16_t pkey)
{
	struct attach_port info;

	server_port_describe(port, &info);
	return pkey_index_find(info.pkeys, info.pkey_count, pkey);
}

static void message_send(struct channel *channel, const struct cm_last_message *last_message)
{
	struct server_port *port =
		server_port_find(channel->client->server, channel->node, last_message->ib.port);
	struct cm_message message;
	uint8_t mad[MAD_BYTES];

	if (!port || !cm_last_message_build(last_message, &message))
		return;
	const struct mad_address to = {
		.qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.lid = last_message->ib.dlid,
		.sl = last_message->ib.sl & 15,
		.pkey_index = pkey_index_of(port, last_message->ib.pkey),
		.has_grh = true,
		.gid_index = gid_index_of(port, last_message),
		.hop_limit = HOP_LIMIT,
		.gid = last_message->remote,
	};

	cm_message_encode(&message, mad);
	server_transmit(port, GSI_QPN, &to, mad);
}

void last_messages_send(struct channel *channel)
{
	struct cm_last_message messages[MESSAGES_PER_READ];

	if (channel->last_messages < 0)
		return;
	for (uint32_t i = 0; i < CM_LAST_MESSAGES_MAX; i += MESSAGES_PER_READ) {
		uint64_t at = channel->last_messages_offset + i * sizeof(messages[0]);

		if (pread(channel->last_messages, messages, sizeof(messages), (off_t)at) !=
			sizeof(messages))
			return;
		for (uint32_t j = 0; j < MESSAGES_PER_READ; j++)
			if (cm_comm_id_slot(messages[j].local_comm_id) == channel->lease)
				message_send(channel, &messages[j]);
	}
}

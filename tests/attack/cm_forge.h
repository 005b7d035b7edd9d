/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_ATTACK_CM_FORGE_H
#define URNIC_TESTS_ATTACK_CM_FORGE_H

/* Forged REQs of the connection manager, from an ordinary UDP socket. */

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/gsi_socket.h"
#include "wire/cm/cm_message.h"

struct forger {
	struct agent_address from;
	struct gid to;
	uint64_t guid; /* of the channel adapter that they are said to come from */
	uint32_t sent;
	struct gsi_socket socket;
};

static inline bool forger_open(struct forger *forger, const char *from, const char *to)
{
	uint8_t from_ipv4[4], to_ipv4[4];

	memset(forger, 0, sizeof(*forger));
	if (inet_pton(AF_INET, from, from_ipv4) != 1 || inet_pton(AF_INET, to, to_ipv4) != 1)
		return false;
	forger->from.gid = gid_from_ipv4(from_ipv4);
	forger->to = gid_from_ipv4(to_ipv4);
	if (gsi_socket_open(&forger->socket, &forger->from)) {
		fprintf(stderr, "no socket at %s\n", from);
		return false;
	}
	return true;
}

/* From queue pair `qpn`, for a port of RDMA_PS_TCP. */
static inline struct cm_message forge_req(const struct forger *forger, uint32_t qpn, uint16_t port)
{
	const struct ip_cm_header header = {
		.source = forger->from.gid, .destination = forger->to, .source_port = 9};
	struct cm_message message = {.attribute = CM_REQ, .transaction_id = forger->sent};
	struct cm_req *req = &message.req;

	req->local_comm_id = 0x10000000 + forger->sent;
	req->local_ca_guid = forger->guid;
	req->local_qpn = qpn & 0xffffff;
	req->service_id = 0x01060000 | port;
	req->transport_service = CM_SERVICE_RC;
	req->local_response_timeout = 31;
	req->remote_response_timeout = 31;
	req->max_cm_retries = 15;
	req->path_mtu = 5;
	memcpy(req->primary_local_gid, forger->from.gid.raw, sizeof(forger->from.gid.raw));
	memcpy(req->primary_remote_gid, forger->to.raw, sizeof(forger->to.raw));
	ip_cm_header_encode(&header, req->private_data);
	return message;
}

static inline void forger_send(struct forger *forger, const struct cm_message *message)
{
	uint8_t packet[GSI_PACKET_BYTES];

	gsi_packet_encode(forger->sent++, packet);
	cm_message_encode(message, packet + GSI_PACKET_BYTES - MAD_BYTES);
	gsi_socket_send(&forger->socket, &forger->to, 0, packet);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends forged messages of the connection manager to QP1 of a host, at a given rate. The sender has
 * no connection with the host.
 *
 *   flood FROM-ADDRESS TO-ADDRESS PER-SECOND SECONDS
 *
 * The messages are, in turn: a request for a port with a listener (7471), each for another
 * connection; a request for a random service; an answer to a random communication ID; random bytes.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/gsi_socket.h"
#include "support/sim_random.h"
#include "wire/cm/cm_message.h"

enum { PORT = 7471, BURST = 50, WISH_REPORT = 1 /* what tests/e2e/connections.c refuses */ };

static const uint64_t tcp_services = 0x01060000;

static struct gid gid_of(const char *text)
{
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) != 1) {
		fprintf(stderr, "flood: %s is no address\n", text);
		exit(1);
	}
	return gid_from_ipv4(ipv4);
}

static struct cm_message request(struct sim_random *random, const struct gid *from,
	const struct gid *to, uint64_t service_id)
{
	const struct ip_cm_header header = {.source = *from, .destination = *to, .source_port = 9};
	struct cm_message message = {.attribute = CM_REQ};
	struct cm_req *req = &message.req;

	req->local_comm_id = (uint32_t)sim_random_next(random) | 1;
	req->local_qpn = (uint32_t)sim_random_next(random) & 0xffffff;
	req->service_id = service_id;
	req->transport_service = CM_SERVICE_RC;
	req->local_response_timeout = 20;
	req->remote_response_timeout = 20;
	req->max_cm_retries = 15;
	req->path_mtu = 5;
	memcpy(req->primary_local_gid, from->raw, sizeof(from->raw));
	memcpy(req->primary_remote_gid, to->raw, sizeof(to->raw));
	ip_cm_header_encode(&header, req->private_data);
	req->private_data[IP_CM_HEADER_BYTES] = WISH_REPORT;
	return message;
}

static struct cm_message forge(
	struct sim_random *random, unsigned turn, const struct gid *from, const struct gid *to)
{
	struct cm_message message = {.attribute = CM_DREQ};

	if (turn % 8 < 5)
		return request(random, from, to, tcp_services | PORT);
	if (turn % 8 == 5)
		return request(random, from, to, tcp_services | (sim_random_next(random) & 0xffff));
	message.dreq.local_comm_id = (uint32_t)sim_random_next(random);
	message.dreq.remote_comm_id = (uint32_t)sim_random_next(random);
	return message;
}

int main(int argc, char **argv)
{
	struct sim_random random = {4711};
	struct agent_address address = {0};
	struct gsi_socket gsi;
	struct gid to;
	unsigned long total, per_second;

	if (argc != 5)
		return 2;
	address.gid = gid_of(argv[1]);
	to = gid_of(argv[2]);
	per_second = strtoul(argv[3], NULL, 10);
	total = per_second * strtoul(argv[4], NULL, 10);
	if (gsi_socket_open(&gsi, &address)) {
		fprintf(stderr, "flood: no socket at %s\n", argv[1]);
		return 1;
	}
	for (unsigned turn = 0; turn < total; turn++) {
		struct cm_message message = forge(&random, turn, &address.gid, &to);
		uint8_t packet[GSI_PACKET_BYTES];

		gsi_packet_encode(turn, packet);
		cm_message_encode(&message, packet + GSI_PACKET_BYTES - MAD_BYTES);
		for (unsigned i = 0; turn % 8 == 7 && i < MAD_BYTES; i++)
			packet[GSI_PACKET_BYTES - MAD_BYTES + i] =
				(uint8_t)sim_random_next(&random);
		gsi_socket_send(&gsi, &to, 0, packet);
		if (turn % BURST == 0)
			nanosleep(&(struct timespec){0, (long)(1000000000ul * BURST / per_second)},
				NULL);
	}
	gsi_socket_close(&gsi);
	return 0;
}

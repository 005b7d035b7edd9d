/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ordinary user under `urnicd --system` takes all that it can get: slots, addresses, channels,
 * ports and connections.
 *
 * Usage: attack_quotas all ADDRESS: takes, prints how much, and holds it until it is killed.
 *        attack_quotas one ADDRESS: takes one of each, to see whether urnicd grants it.
 * Exit status: 0; 1 if urnicd granted more than it should, or less.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent_client.h"

enum {
	CLIENTS_MAX = 1024,
	CLAIMS_MAX = 10000,
	CHURN = 1000,
	LOW_PORT = 80,
	FIRST_PORT = 2000,
};

static const uint64_t port_space = 0x01060000; /* RDMA_PS_TCP */

static struct agent_client clients[CLIENTS_MAX];
static struct agent_claim claims[CLAIMS_MAX];
static uint8_t slots[AGENT_SLOTS];
static unsigned slot_count;

static void said(const char *what, unsigned count, const struct agent_client *client)
{
	printf("%s %u: %s\n", what, count, client->why);
	fflush(stdout);
}

static struct agent_address address_of(const char *text)
{
	struct agent_address address = {.scope_ifindex = 0};

	address.gid.raw[10] = address.gid.raw[11] = 0xff;
	inet_pton(AF_INET, text, address.gid.raw + 12);
	return address;
}

/* Slots of others, or of nobody, by saying that they were ours. Returns how many. */
static unsigned resume_all(struct agent_client *client)
{
	unsigned count = 0;

	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		agent_slots_add(&client->slots, (uint8_t)slot);
	if (agent_client_resume(client) != 0)
		return 0;
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		count += agent_slots_has(&client->slots, (uint8_t)slot);
	return count;
}

static int claim_low_port(struct agent_client *client)
{
	static struct agent_claim claim;

	claim.service_id = port_space | LOW_PORT;
	return agent_client_claim(client, &claim);
}

static void take_slots(struct agent_client *client)
{
	while (agent_client_attach(client, -1, &slots[slot_count]) == 0)
		slot_count++;
	said("slots", slot_count, client);
	/* Giving back and taking anew gets at no more. */
	for (unsigned i = 0; i < CHURN; i++) {
		agent_client_detach(client, slots[slot_count - 1]);
		slot_count -= agent_client_attach(client, -1, &slots[slot_count - 1]) != 0;
	}
	while (agent_client_attach(client, -1, &slots[slot_count]) == 0)
		slot_count++;
	said("slots", slot_count, client);
}

static void take_addresses(struct agent_client *client)
{
	struct agent_address address = address_of("127.0.1.1");
	unsigned count = 0;
	int fd;

	while (agent_client_open(client, slots[0], &address, &fd) == 0) {
		address.gid.raw[15]++;
		count++;
	}
	said("addresses", count, client);
}

static void take_channels(struct agent_client *client, const struct agent_address *address)
{
	const struct agent_address loopback = address_of("127.0.0.1");
	unsigned count = 0;
	int fd;

	for (unsigned i = 0; i < 2 * slot_count; i++)
		count += agent_client_open(
				 client, slots[i / 2], i % 2 ? address : &loopback, &fd) == 0;
	said("channels", count, client);
}

static void take_ports(struct agent_client *client)
{
	unsigned count = 0;

	for (; count < CLAIMS_MAX; count++) {
		claims[count].service_id = port_space | (FIRST_PORT + count);
		if (agent_client_claim(client, &claims[count]) != 0)
			break;
	}
	said("ports", count, client);
}

static void take_connections(void)
{
	unsigned count = 1;

	while (count < CLIENTS_MAX && agent_client_connect_running(&clients[count]) == 0)
		count++;
	said("connections", count, &clients[count % CLIENTS_MAX]);
}

static int take_one(const struct agent_address *address)
{
	struct agent_client client;
	static struct agent_claim claim;
	uint8_t slot;
	int fd;
	int rc = agent_client_connect_running(&client);

	claim.service_id = port_space;
	if (!rc)
		rc = agent_client_attach(&client, -1, &slot);
	if (!rc)
		rc = agent_client_open(&client, slot, address, &fd);
	if (!rc)
		rc = agent_client_claim(&client, &claim);
	if (rc)
		said("cannot be had", 1, &client);
	agent_client_done(&client);
	return rc != 0;
}

int main(int argc, char **argv)
{
	struct agent_address address;
	struct rlimit files;
	unsigned resumed;
	int rc;

	if (argc != 3)
		return 1;
	address = address_of(argv[2]);
	if (strcmp(argv[1], "one") == 0)
		return take_one(&address);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (agent_client_connect_running(&clients[0]) != 0)
		return 1;
	resumed = resume_all(&clients[0]);
	rc = claim_low_port(&clients[0]);
	printf("resumed %u slots, port %d: %s\n", resumed, LOW_PORT, strerror(-rc));
	take_slots(&clients[0]);
	take_addresses(&clients[0]);
	take_channels(&clients[0], &address);
	take_ports(&clients[0]);
	take_connections();
	printf("done\n");
	fflush(stdout);
	if (resumed || rc != -EACCES)
		return 1;
	pause();
	return 0;
}

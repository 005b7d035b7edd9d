/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/agent_client.h"
#include "pair/pair.h"

enum {
	PAUSE_NS = 5000000,
	/* rdma_bind_addr() and rdma_listen() each claim the service ID of a listener. */
	CLAIMS_OF_LISTENER = 2,
};

/* Has the file, /proc/net/tcp or tcp6, a socket in the state LISTEN? */
static bool has_listener(const char *path)
{
	FILE *file = fopen(path, "re");
	bool is_found = false;
	char line[512];
	unsigned state;

	if (!file)
		return false;
	while (!is_found && fgets(line, sizeof(line), file))
		is_found = sscanf(line, " %*u: %*[0-9A-F]:%*x %*[0-9A-F]:%*x %x", &state) == 1 &&
			state == 0x0a;
	fclose(file);
	return is_found;
}

static bool has_claims(struct agent_client *client, bool *is_connected)
{
	struct agent_counters counters;

	if (!*is_connected)
		*is_connected = agent_client_connect_running(client) == 0;
	if (!*is_connected)
		return false;
	if (agent_client_stat(client, &counters) == 0)
		return counters.claims_made >= CLAIMS_OF_LISTENER;
	agent_client_done(client);
	*is_connected = false;
	return false;
}

void pair_wait_for_listener(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct agent_client client;
	bool is_connected = false;

	while (!has_listener("/proc/self/net/tcp") && !has_listener("/proc/self/net/tcp6") &&
		!has_claims(&client, &is_connected))
		nanosleep(&pause, NULL);
	if (is_connected)
		agent_client_done(&client);
}

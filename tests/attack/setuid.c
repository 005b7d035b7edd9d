/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is installed setuid, and starts urnicd: says "urnicd PID", and stays until its
 * standard input ends.
 */
#include <stdio.h>
#include <unistd.h>

#include "agent/agent_client.h"

int main(void)
{
	static struct agent_client client;
	char byte;

	if (agent_client_connect(&client)) {
		printf("failed: %s\n", client.why);
		return 1;
	}
	printf("urnicd %u\n", client.agent_pid);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	agent_client_done(&client);
	return 0;
}

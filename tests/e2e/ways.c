/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs random programs (ways.h) and prints their results: COUNT programs, from the seed that -w
 * names on. The output is the same with and without packets.
 */
#include "ways.h"
#include "ways_receiver.h"

int main(int argc, char **argv)
{
	struct peer_options options;
	struct ways_receiver receiver;
	struct peer peer;
	struct ways *ways;
	struct ways_program program;
	uint64_t seed;

	peer_parse(&options, argc, argv);
	seed = options.what ? strtoull(options.what, NULL, 0) : 1;
	ways_receiver_start(&receiver, &options);
	peer_open(&peer, &options);
	peer_meet(&peer);
	ways = ways_open(&peer, &receiver);
	for (uint32_t i = 0; i < (options.count ? options.count : 20); i++) {
		ways_draw(&program, seed + i);
		ways_run(ways, &program, seed + i);
	}
	ways_close(ways);
	peer_close(&peer);
	ways_receiver_stop(&receiver);
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every operation, every kind of size, every byte.
 *
 *   verify [OPTIONS] [-w each|mixed] [-n COUNT] [SERVER]
 *
 * each    one request at a time: all operations, critical sizes, one or several scatter/gather
 *         entries, inline; first the server is the requester, then the client. Bytes beside the
 *         destination must not change. COUNT is the largest size.
 * mixed   both are requesters, with up to SLOTS requests under way, COUNT in total, chosen at
 *         random. SIGTERM to both ends it sooner. Ends with status 3 when a request fails, and
 *         prints the time: for tests that break connections.
 *
 * Without -w both.
 */
#include <string.h>

#include "verify.h"

enum { REQUESTS = 3000 };

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer peer;

	setvbuf(stdout, NULL, _IOLBF, 0);
	peer_parse(&options, argc, argv);
	peer_open(&peer, &options);
	peer_meet(&peer);
	if (!options.what || !strcmp(options.what, "each"))
		verify_each(&peer, options.count ? options.count : UINT32_MAX);
	if (!options.what || !strcmp(options.what, "mixed"))
		verify_mixed(&peer, options.count ? options.count : REQUESTS, -1);
	peer_close(&peer);
	return 0;
}

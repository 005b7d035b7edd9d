/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An NBD server of a disk in memory, for programs that know NBD.
 *
 * Usage: nbd_memory ADDRESS MIB; it runs until it is killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/nbd/nbd_server.h"

static void print_end(void *context, enum nbd_end end)
{
	(void)context;
	fprintf(stderr, "%s\n", nbd_end_text(end));
}

int main(int argc, char **argv)
{
	struct nbd_export export = {.name = "disk", .description = "a disk in memory"};
	struct nbd_server *server;
	struct loop *loop;
	char text[256];
	int fd, error;

	if (argc != 3)
		return 2;
	export.device = block_memory_create(strtoull(argv[2], NULL, 0) << 20, 512);
	if (!export.device || loop_create(&loop))
		return 1;
	fd = nbd_listen(argv[1], text, sizeof(text));
	if (fd < 0) {
		fprintf(stderr, "%s\n", text);
		return 1;
	}
	error = nbd_server_create(loop, &export, fd, print_end, NULL, &server);
	if (error) {
		fprintf(stderr, "Cannot serve: %s.\n", strerror(-error));
		return 1;
	}
	loop_run(loop);
	return 0;
}

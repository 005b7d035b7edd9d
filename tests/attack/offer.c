/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A user who offers something else as a process's NIC memory: `offer WAY FILE`. All ways offer it
 * to root's capture, except `attach`, which offers it to urnicd. Prints "done" and its process
 * number, and stays until it is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_client.h"
#include "agent/capture_socket.h"
#include "segment/nic_public.h"

enum { MEMORY_BYTES = NIC_PUBLIC_OFFSET + sizeof(struct nic_public) + (1 << 20), FDS = 3 };

static void must(int is_fine, const char *what)
{
	if (is_fine)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void fill(int fd, uint64_t identity)
{
	static struct nic_public public;

	public.magic = NIC_PUBLIC_MAGIC;
	public.version = NIC_PUBLIC_VERSION;
	public.identity = identity;
	must(ftruncate(fd, MEMORY_BYTES) == 0, "ftruncate");
	must(pwrite(fd, &public, sizeof(public), NIC_PUBLIC_OFFSET) == sizeof(public), "pwrite");
}

static int memory_make(uint64_t identity, int seals)
{
	int fd = memfd_create("nic", MFD_ALLOW_SEALING);

	fill(fd, identity);
	must(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS");
	return fd;
}

static int capture_connect(void)
{
	char path[PLACE_PATH_BYTES];
	int fd = place_connect(PLACE_CAPTURE, PLACE_ROOTS, 1000, path);

	errno = -fd;
	must(fd >= 0, "connecting to the capture");
	return fd;
}

static void send_fds(int fd, unsigned count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
	} control = {0};
	struct iovec piece = {"x", 1};
	struct msghdr message = {.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int))};
	int to = capture_connect();

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(count * sizeof(int));
	for (unsigned i = 0; i < count; i++)
		memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &fd, sizeof(int));
	must(sendmsg(to, &message, 0) == 1, "sendmsg");
	close(to);
}

/* Truncated as soon as it is mapped. */
static void offer_shrinking(void)
{
	for (uint64_t identity = 1; identity < 50; identity++) {
		int fd = memory_make(identity, 0);

		send_fds(fd, 2); /* as both sides */
		usleep(20000);
		must(ftruncate(fd, 0) == 0, "ftruncate");
		close(fd);
	}
}

static void offer_many(void)
{
	int fd = memory_make(77, F_SEAL_SHRINK);

	for (unsigned i = 0; i < 200; i++)
		send_fds(fd, FDS);
}

static void offer_to_urnicd(void)
{
	static struct agent_client client;
	uint8_t slot;

	must(agent_client_connect_running(&client) == 0, "urnicd");
	must(agent_client_attach(&client, memory_make(1, 0), &slot) == 0, client.why);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	const char *path = argc > 2 ? argv[2] : "";

	if (strcmp(way, "make") == 0) { /* root: a file that looks like NIC memory */
		fill(open(path, O_CREAT | O_RDWR, 0644), 5);
		return 0;
	}
	if (strcmp(way, "shrinking") == 0)
		offer_shrinking();
	else if (strcmp(way, "many") == 0)
		offer_many();
	else if (strcmp(way, "attach") == 0)
		offer_to_urnicd();
	else if (strcmp(way, "silent") == 0)
		capture_connect();
	else if (strcmp(way, "file") == 0)
		send_fds(open(path, O_RDONLY), 2);
	else
		must(0, "what?");
	printf("done %d\n", getpid());
	fflush(stdout);
	pause();
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ordinary user beside others under `urnicd --system`: tries to receive packets of another user.
 * It attaches as any program does, then attacks each descriptor that it got, and urnicd.
 *
 * Usage: attack_system_users ADDRESS SECONDS. Prints a line for each success of the attacker. Exit
 * status: 0 for none, 1 for some, 2 if it could not attack.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_client.h"
#include "base/arith.h"
#include "port/address.h"

enum {
	DESCRIPTORS_MAX = 64, /* of this program */
	URNICD_DESCRIPTORS_MAX = 512, /* numbers of urnicd's descriptors to try */
	MEMBERS_MAX = 32, /* members of a group that a program is steered to */
	ROUND_MS = 50,
};

static unsigned finds;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/*
 * Make every group that contains one of our sockets steer to its member `index`. Returns how many
 * groups accepted that.
 */
static unsigned steer(uint32_t index)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, index)};
	struct sock_fprog program = {.len = ARRAY_COUNT(code), .filter = code};
	const int unused = 0;
	unsigned count = 0;

	for (int fd = 3; fd < DESCRIPTORS_MAX; fd++) {
		setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof(unused));
		count += setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
				 sizeof(program)) == 0;
		setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
	}
	return count;
}

/* Nobody sends to us: every packet that comes is another's. */
static unsigned read_all(void)
{
	static uint8_t packet[1 << 17];
	unsigned count = 0;

	for (int fd = 3; fd < DESCRIPTORS_MAX; fd++)
		while (recv(fd, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			count++;
	return count;
}

static void steal_packets(double seconds)
{
	double end = now() + seconds;
	unsigned stolen = 0, steered = 0;

	for (uint32_t i = 0; now() < end; i++) {
		steered += steer(i % MEMBERS_MAX);
		for (double until = now() + ROUND_MS / 1e3; now() < until;)
			stolen += read_all();
	}
	printf("steered %u times, received %u packets of others\n", steered, stolen);
	finds += stolen > 0;
}

/* Try to take copies of all descriptors that urnicd has open. */
static void take_descriptors(uint32_t pid)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	char path[64];

	for (int fd = 0; fd < URNICD_DESCRIPTORS_MAX; fd++) {
		int taken = (int)syscall(SYS_pidfd_getfd, process, fd, 0);

		snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
		if (taken < 0)
			taken = open(path, O_RDONLY | O_CLOEXEC);
		if (taken < 0)
			continue;
		printf("took descriptor %d of urnicd\n", fd);
		finds++;
		close(taken);
	}
	close(process);
}

/* Slots of others, by saying that they were ours, and the memory of their owners. */
static void take_slots(void)
{
	struct agent_client client;
	struct agent_process found;
	struct agent_slots others = {{0}};
	uint32_t index = 0;

	if (agent_client_connect_running(&client) != 0)
		return;
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		if (agent_client_find(&client, (uint8_t)slot, &found) != 0)
			continue;
		if (found.memory >= 0)
			close(found.memory);
		if (found.uid == geteuid())
			continue;
		agent_slots_add(&others, (uint8_t)slot);
	}
	client.slots = others;
	/* As a survivor of an urnicd that has died. */
	if (agent_client_resume(&client) == 0) {
		for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
			if (!agent_slots_has(&client.slots, (uint8_t)slot))
				continue;
			printf("was given slot %u as its own\n", slot);
			finds++;
		}
	}
	while (agent_client_list(&client, &index, &found) == 0) {
		if (found.memory < 0)
			continue;
		if (found.uid != geteuid()) {
			printf("took the memory of process %u\n", found.pid);
			finds++;
		}
		close(found.memory);
	}
	if (client.fd_store >= 0) {
		printf("took the fd store\n");
		finds++;
	}
	agent_client_done(&client);
}

int main(int argc, char **argv)
{
	struct agent_client client;
	struct agent_address address = {.scope_ifindex = 0};
	uint8_t slot;
	int fd, rc;

	address.gid.raw[10] = address.gid.raw[11] = 0xff;
	if (argc != 3 || inet_pton(AF_INET, argv[1], address.gid.raw + 12) != 1)
		return 2;
	rc = agent_client_connect(&client);
	if (!rc)
		rc = agent_client_attach(&client, -1, &slot);
	if (!rc)
		rc = agent_client_open(&client, slot, &address, &fd);
	if (rc) {
		printf("cannot attack: %s\n", client.why);
		return 2;
	}
	take_descriptors(client.agent_pid);
	take_slots();
	steal_packets(atof(argv[2]));
	agent_client_done(&client);
	return finds > 0;
}

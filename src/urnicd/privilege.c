/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/privilege.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMESPACES_MAX = 32 /* the kernel's limit on nesting */ };

/* Facts of a process from /proc. */
struct state {
	uid_t uid; /* effective */
	uint64_t capabilities; /* effective, in its user namespace */
	struct stat user_namespace;
};

static bool state_read(pid_t pid, struct state *state)
{
	char path[64], line[128];
	unsigned found = 0;
	unsigned long long capabilities;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	if (stat(path, &state->user_namespace) != 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		found += sscanf(line, "Uid: %*u %u", &state->uid) == 1;
		if (sscanf(line, "CapEff: %llx", &capabilities) == 1) {
			state->capabilities = capabilities;
			found++;
		}
	}
	fclose(file);
	return found == 2;
}

static bool is_namespace(int fd, const struct stat *wanted)
{
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_ino == wanted->st_ino &&
		status.st_dev == wanted->st_dev;
}

/*
 * Has the process CAP_NET_BIND_SERVICE in `user_namespace`? The function closes this descriptor. A
 * process's capabilities hold in its own user namespace and in those below that one. The creator of
 * a user namespace has all capabilities in the new namespace.
 */
static bool is_capable_in(int user_namespace, const struct state *state)
{
	bool is_capable = false;

	for (unsigned i = 0; user_namespace >= 0 && i < NAMESPACES_MAX && !is_capable; i++) {
		bool is_its_own = is_namespace(user_namespace, &state->user_namespace);
		int parent = ioctl(user_namespace, NS_GET_PARENT);
		uid_t maker;

		if (is_its_own)
			is_capable = state->capabilities >> CAP_NET_BIND_SERVICE & 1;
		else if (parent >= 0 && is_namespace(parent, &state->user_namespace))
			is_capable = ioctl(user_namespace, NS_GET_OWNER_UID, &maker) == 0 &&
				maker == state->uid;
		close(user_namespace);
		user_namespace = parent;
		if (is_its_own)
			break;
	}
	if (user_namespace >= 0)
		close(user_namespace);
	return is_capable;
}

bool privilege_has_low_ports(pid_t pid, uid_t uid, int pidfd)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};
	struct state state;
	int network;
	bool is_capable;

	if (pidfd < 0 || !state_read(pid, &state) || state.uid != uid)
		return false;
	network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (network < 0)
		return false;
	is_capable = is_capable_in(ioctl(network, NS_GET_USERNS), &state);
	close(network);
	return is_capable && poll(&ended, 1, 0) == 0;
}

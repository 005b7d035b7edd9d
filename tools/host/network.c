/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/network.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/command.h"
#include "common/user_namespace.h"
#include "host/network_setup.h"
#include "host/network_state.h"

#define NAMED_DIRECTORY "/run/netns"
#define NAMED_PREFIX    "urnic"

/* The holder's first descriptor of a host's namespace. Other processes open these through /proc. */
enum { HOLDER_FD = 10 };

const struct host_facts hosts[HOST_COUNT] = {
	{"a", "10.99.0.1", "fd00:99::1", "02:00:0a:63:00:01"},
	{"b", "10.99.0.2", "fd00:99::2", "02:00:0a:63:00:02"},
};

bool network_name_is_valid(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length < NETWORK_NAME_BYTES_MAX && name[0] != '-' &&
		strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* The name of a host for `ip netns`: urnic-a, or urnic-NAME-a. */
static void named_host(const char *network, int host, char *ret_name, size_t name_bytes)
{
	if (strcmp(network, NAMED_PREFIX) == 0)
		snprintf(ret_name, name_bytes, NAMED_PREFIX "-%s", hosts[host].name);
	else
		snprintf(ret_name, name_bytes, NAMED_PREFIX "-%s-%s", network, hosts[host].name);
}

/* Root of a user namespace may have user ID 0, but it cannot write to /run. */
static bool may_name_networks(void)
{
	return geteuid() == 0 && access("/run", W_OK) == 0;
}

/* Named networks */

static int make_named(const char *name, unsigned mtu)
{
	struct network network;
	int result = 0;

	for (int host = 0; host < HOST_COUNT && result == 0; host++) {
		char host_name[NAME_MAX];

		named_host(name, host, host_name, sizeof(host_name));
		result = network_run_ip((const char *const[]){"netns", "add", host_name, NULL});
	}
	if (result == 0)
		result = network_open(name, &network);
	if (result == 0) {
		result = network_configure(&network, mtu);
		network_close(&network);
	}
	if (result < 0)
		network_drop(name);
	return result;
}

static int open_named(const char *name, struct network *ret_network)
{
	struct network network = {.user_fd = -1, .net_fd = {-1, -1}};

	for (int host = 0; host < HOST_COUNT; host++) {
		char host_name[NAME_MAX], path[PATH_MAX];

		named_host(name, host, host_name, sizeof(host_name));
		snprintf(path, sizeof(path), NAMED_DIRECTORY "/%s", host_name);
		network.net_fd[host] = open(path, O_RDONLY | O_CLOEXEC);
		if (network.net_fd[host] < 0) {
			int error = errno;

			network_close(&network);
			return -error;
		}
	}
	*ret_network = network;
	return 0;
}

static int drop_named(const char *name)
{
	int result = 0;

	for (int host = 0; host < HOST_COUNT; host++) {
		char host_name[NAME_MAX], path[PATH_MAX];
		int dropped;

		named_host(name, host, host_name, sizeof(host_name));
		snprintf(path, sizeof(path), NAMED_DIRECTORY "/%s", host_name);
		if (access(path, F_OK) < 0)
			continue;
		dropped = network_run_ip((const char *const[]){"netns", "del", host_name, NULL});
		if (result == 0)
			result = dropped;
	}
	return result;
}

static void named_for_each(void (*visit)(const char *name, void *context), void *context)
{
	DIR *directory = opendir(NAMED_DIRECTORY);
	struct dirent *entry;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		char name[NETWORK_NAME_BYTES_MAX];
		struct network network;

		/* Every host a has such a name: urnic-a, urnic-NAME-a. */
		if (strcmp(entry->d_name, NAMED_PREFIX "-a") == 0)
			snprintf(name, sizeof(name), NAMED_PREFIX);
		else if (sscanf(entry->d_name, NAMED_PREFIX "-%31[a-z0-9-]", name) != 1 ||
			strlen(name) < 3 || strcmp(name + strlen(name) - 2, "-a") != 0)
			continue;
		else
			name[strlen(name) - 2] = '\0';
		if (network_open(name, &network) == 0) {
			network_close(&network);
			visit(name, context);
		}
	}
	closedir(directory);
}

/* Networks with a holder */

/* Put this process into a new network namespace, and keep that open as `fd`. */
static int make_namespace(int fd)
{
	int opened;

	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	opened = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (opened < 0)
		return -errno;
	if (dup3(opened, fd, O_CLOEXEC) < 0)
		return -errno;
	close(opened);
	return 0;
}

static int holder_prepare(unsigned mtu)
{
	struct network network = {.user_fd = -1, .net_fd = {HOLDER_FD, HOLDER_FD + 1}};
	int result = user_namespace_enter(0, 0);

	if (result < 0) {
		complain("host: this system does not let ordinary users make user namespaces (%s);"
			 " run it as root",
			strerror(-result));
		return result;
	}
	for (int host = 0; host < HOST_COUNT && result == 0; host++)
		result = make_namespace(network.net_fd[host]);
	if (result == 0)
		result = network_configure(&network, mtu);
	return result;
}

/* The holder: prepare, notify the parent by a byte, sleep until network_drop() ends it. */
static noreturn void holder_run(unsigned mtu, int ready_fd)
{
	int null_fd;

	setsid();
	if (chdir("/") < 0 || holder_prepare(mtu) < 0 || write(ready_fd, "", 1) != 1)
		_exit(EXIT_FAILED);
	prctl(PR_SET_NAME, "urnic-host");
	/* Let other processes of this user open the namespaces through /proc. */
	prctl(PR_SET_DUMPABLE, 1);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= STDERR_FILENO && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	close_range(STDERR_FILENO + 1, HOLDER_FD - 1, 0);
	close_range(HOLDER_FD + HOST_COUNT, ~0U, 0);
	for (;;)
		pause();
}

static int make_held(const char *name, unsigned mtu)
{
	int ready[2];
	pid_t holder;
	char byte;
	int result;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	holder = fork();
	if (holder == 0) {
		/* The descriptors from HOLDER_FD on must be free. */
		int ready_fd = fcntl(ready[1], F_DUPFD_CLOEXEC, HOLDER_FD + HOST_COUNT);

		close(ready[0]);
		close(ready[1]);
		holder_run(mtu, ready_fd);
	}
	result = holder < 0 ? -errno : 0;
	close(ready[1]);
	if (result == 0 && read(ready[0], &byte, 1) != 1)
		result = -EIO;
	close(ready[0]);
	if (result == 0)
		result = network_state_write(name, holder);
	if (result < 0 && holder > 0) {
		kill(holder, SIGKILL);
		network_wait_for(holder);
	}
	return result;
}

static int open_held(const char *name, struct network *ret_network)
{
	pid_t holder = network_state_holder(name);
	struct network network = {.holder_pid = holder, .net_fd = {-1, -1}};
	char path[64];

	if (holder == 0)
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)holder);
	network.user_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (network.user_fd < 0)
		return -errno;
	for (int host = 0; host < HOST_COUNT; host++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)holder, HOLDER_FD + host);
		network.net_fd[host] = open(path, O_RDONLY | O_CLOEXEC);
		if (network.net_fd[host] < 0) {
			int error = errno;

			network_close(&network);
			return -error;
		}
	}
	*ret_network = network;
	return 0;
}

static int drop_held(const char *name)
{
	pid_t holder = network_state_holder(name);

	if (holder > 0 && kill(holder, SIGKILL) < 0 && errno != ESRCH)
		return -errno;
	return network_state_remove(name);
}

/* Both kinds */

int network_make(const char *name, unsigned mtu)
{
	struct network network;

	if (network_open(name, &network) == 0) {
		network_close(&network);
		return -EEXIST;
	}
	/* Remove the remains of an interrupted set-up. */
	network_drop(name);
	return may_name_networks() ? make_named(name, mtu) : make_held(name, mtu);
}

int network_open(const char *name, struct network *ret_network)
{
	*ret_network = (struct network){.user_fd = -1, .net_fd = {-1, -1}};
	return may_name_networks() ? open_named(name, ret_network) : open_held(name, ret_network);
}

void network_close(struct network *network)
{
	if (network->user_fd >= 0)
		close(network->user_fd);
	for (int host = 0; host < HOST_COUNT; host++) {
		if (network->net_fd[host] >= 0)
			close(network->net_fd[host]);
	}
}

int network_enter(const struct network *network, int host)
{
	if (network->user_fd >= 0 && setns(network->user_fd, CLONE_NEWUSER) < 0)
		return -errno;
	if (setns(network->net_fd[host], CLONE_NEWNET) < 0)
		return -errno;
	/*
	 * /sys/class/net shows the namespace in which /sys was mounted. Where the kernel refuses
	 * another mount, programs that read it see the wrong interfaces; everything else works.
	 */
	if (unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 &&
		mount("sysfs", "/sys", "sysfs", 0, NULL) < 0)
		errno = 0;
	return 0;
}

int network_drop(const char *name)
{
	return may_name_networks() ? drop_named(name) : drop_held(name);
}

void network_for_each(void (*visit)(const char *name, void *context), void *context)
{
	if (may_name_networks())
		named_for_each(visit, context);
	else
		network_state_for_each(visit, context);
}

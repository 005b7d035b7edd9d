/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/setting.h"

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("cannot write %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static int unshare_network(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWNET) == 0)
		return 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return -1;
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
	return 0;
}

int netns_enter_new(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd;

	if (unshare_network() != 0) {
		printf("skipped: no network namespace of our own: %s\n", strerror(errno));
		return -1;
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0) {
		printf("skipped: cannot bring up loopback: %s\n", strerror(errno));
		return -1;
	}
	close(fd);
	/*
	 * Each of the many tests starts an urnicd. If these stayed for long, they would leave the
	 * user no descriptors to pass (docs/urnicd.md).
	 */
	setenv("URNICD_IDLE_S", "1", 0);
	settings_read();
	return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

void netns_switch(int fd)
{
	if (setns(fd, CLONE_NEWNET) != 0) {
		perror("setns");
		abort();
	}
}

int netns_run(const char *format, ...)
{
	char command[512];
	size_t used;
	va_list arguments;

	va_start(arguments, format);
	used = (size_t)vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	snprintf(command + used, sizeof(command) - used, " >/dev/null 2>&1");
	return system(command);
}

void netns_await(const char *address)
{
	/*
	 * The kernel routes an IPv6 address with a delay, in a worker, even without duplicate
	 * address detection.
	 */
	if (netns_run(
		    "timeout 60 sh -c 'until ip -6 route show table local | grep -q \"^local %s \"; do "
		    "sleep 0.01; done'",
		    address) != 0)
		printf("no route to %s\n", address);
}

/* `options`: of `ip link add`, for each end. */
static int join_with(int a, int b, const char *options)
{
	netns_switch(a);
	/* With one index at both ends the kernel would report the link as running a second late. */
	if (netns_run("ip link add va index 100 %s type veth peer name vb index 101 %s"
		      " netns /proc/%d/fd/%d",
		    options, options, getpid(), b) != 0 ||
		netns_run("ip addr add 10.99.0.1/24 dev va && "
			  "ip addr add fd00:99::1/64 dev va nodad && ip link set va up") != 0) {
		printf("skipped: cannot make a veth pair (is iproute2 there?)\n");
		return -1;
	}
	netns_switch(b);
	if (netns_run("ip addr add 10.99.0.2/24 dev vb && "
		      "ip addr add fd00:99::2/64 dev vb nodad && ip link set vb up") != 0) {
		printf("skipped: cannot set up a veth pair\n");
		return -1;
	}
	netns_await("fd00:99::2");
	netns_switch(a);
	netns_await("fd00:99::1");
	return 0;
}

int netns_join(int a, int b, unsigned mtu_bytes)
{
	char options[64];

	snprintf(options, sizeof(options), "mtu %u", mtu_bytes);
	return join_with(a, b, options);
}

int netns_join_queues(int a, int b, unsigned mtu_bytes, unsigned queues)
{
	char options[64];

	snprintf(options, sizeof(options), "mtu %u numrxqueues %u numtxqueues %u", mtu_bytes,
		queues, queues);
	return join_with(a, b, options);
}

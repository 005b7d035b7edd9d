/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/network_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"

enum {
	RUNNING_TRIES = 2000, /* wait_until_running() tries once a millisecond */

	/*
	 * The interface indexes of the hosts, and of the switch's ports to them, are these plus the
	 * number of the host. If both ends of a veth pair had one index, the kernel would report
	 * the link as running up to a second late.
	 */
	HOST_INDEX = 100,
	PORT_INDEX = 200,
};

int network_wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

int network_run_ip(const char *const *arguments)
{
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0) {
		const char *argv[8] = {"ip"};

		for (int i = 0; i < 6 && arguments[i]; i++)
			argv[i + 1] = arguments[i];
		run_program((char **)argv);
	}
	return network_wait_for(child);
}

static void accept_dad_clear(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Ignore a failure: link-local addresses are then usable a second later. */
	if (write(fd, "0", 1) < 0)
		errno = 0;
	close(fd);
}

/*
 * Make IPv6 addresses usable at once in this process's namespace. No other host can have them, so
 * there are no duplicates to detect. The interface exists already if another namespace has made it.
 */
static void duplicate_address_detection_skip(void)
{
	accept_dad_clear("/proc/sys/net/ipv6/conf/default/accept_dad");
	accept_dad_clear("/proc/sys/net/ipv6/conf/" NETWORK_INTERFACE "/accept_dad");
}

/* Run the commands of an `ip -batch` script in a namespace. `ip` reads `script_fd` to its end. */
static int run_script(int net_fd, int script_fd)
{
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0) {
		char *argv[] = {(char *)"ip", (char *)"-batch", (char *)"-", NULL};

		if (setns(net_fd, CLONE_NEWNET) < 0 || dup2(script_fd, STDIN_FILENO) < 0) {
			complain("host: %s", strerror(errno));
			_exit(EXIT_FAILED);
		}
		duplicate_address_detection_skip();
		run_program(argv);
	}
	return network_wait_for(child);
}

/* Write the command by which host 0 makes the veth pair that joins two hosts. */
static void write_pair(FILE *script, const struct network *network, unsigned mtu)
{
	fprintf(script,
		"link add " NETWORK_INTERFACE " index %d mtu %u address %s type veth"
		" peer name " NETWORK_INTERFACE
		" index %d mtu %u address %s netns /proc/%d/fd/%d\n",
		HOST_INDEX, mtu, host_facts(0).mac, HOST_INDEX + 1, mtu, host_facts(1).mac,
		(int)getpid(), network->net_fd[1]);
}

/* Write the commands for the bridge, and for a veth pair per host with one end at the bridge. */
static void write_switch(FILE *script, const struct network *network, unsigned mtu)
{
	fprintf(script, "link add switch mtu %u type bridge\nlink set switch up\n", mtu);
	for (int host = 0; host < network->host_count; host++) {
		const struct host_facts facts = host_facts(host);

		fprintf(script,
			"link add port-%s index %d mtu %u type veth"
			" peer name " NETWORK_INTERFACE
			" index %d mtu %u address %s netns /proc/%d/fd/%d\n"
			"link set port-%s master switch up\n",
			facts.name, PORT_INDEX + host, mtu, HOST_INDEX + host, mtu, facts.mac,
			(int)getpid(), network->net_fd[host], facts.name);
	}
}

/*
 * Write the commands for one host. Neighbour entries are permanent, so that the first packet does
 * not wait for ARP or neighbour discovery.
 */
static void write_host(FILE *script, const struct network *network, int host)
{
	const struct host_facts own = host_facts(host);

	fprintf(script,
		"link set lo up\n"
		"addr add %s/24 dev " NETWORK_INTERFACE "\n"
		"addr add %s/64 dev " NETWORK_INTERFACE " nodad\n"
		"link set " NETWORK_INTERFACE " up\n",
		own.ipv4, own.ipv6);
	for (int other = 0; other < network->host_count; other++) {
		const struct host_facts peer = host_facts(other);

		if (other != host)
			fprintf(script,
				"neigh replace %s lladdr %s dev " NETWORK_INTERFACE
				" nud permanent\n"
				"neigh replace %s lladdr %s dev " NETWORK_INTERFACE
				" nud permanent\n",
				peer.ipv4, peer.mac, peer.ipv6, peer.mac);
	}
}

/* Open a file in memory, because a container may have no directory that it may write to. */
static FILE *script_create(void)
{
	int fd = memfd_create("urnic-host", MFD_CLOEXEC);
	FILE *script = fd < 0 ? NULL : fdopen(fd, "w+");

	if (!script && fd >= 0)
		close(fd);
	return script;
}

/* Configure the namespace of a host, or of the switch if `host` is -1. */
static int configure_namespace(const struct network *network, int host, unsigned mtu)
{
	FILE *script = script_create();
	int result;

	if (!script)
		return -errno;
	if (host < 0)
		write_switch(script, network, mtu);
	else if (host == 0 && network->host_count == HOSTS_MIN)
		write_pair(script, network, mtu);
	if (host >= 0)
		write_host(script, network, host);
	rewind(script);
	result = run_script(host < 0 ? network->switch_fd : network->net_fd[host], fileno(script));
	fclose(script);
	return result;
}

/*
 * Wait until the kernel reports the link as running. The kernel does so a moment after both ends
 * are up, and drops packets until then.
 */
static int wait_until_running(int net_fd)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct ifreq request = {.ifr_name = NETWORK_INTERFACE};
	pid_t child = fork();
	int fd;

	if (child < 0)
		return -errno;
	if (child > 0)
		return network_wait_for(child);
	if (setns(net_fd, CLONE_NEWNET) < 0)
		_exit(EXIT_FAILED);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int tries = 0; fd >= 0 && tries < RUNNING_TRIES; tries++) {
		if (ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_RUNNING)
			_exit(EXIT_OK);
		nanosleep(&pause, NULL);
	}
	_exit(EXIT_FAILED);
}

unsigned network_mtu(const struct network *network)
{
	struct ifreq request = {.ifr_name = NETWORK_INTERFACE};
	int result[2], fd;
	pid_t child;

	if (pipe2(result, O_CLOEXEC) < 0)
		return 0;
	child = fork();
	if (child == 0) {
		if ((network->user_fd >= 0 && setns(network->user_fd, CLONE_NEWUSER) < 0) ||
			setns(network->net_fd[0], CLONE_NEWNET) < 0)
			_exit(EXIT_FAILED);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || ioctl(fd, SIOCGIFMTU, &request) < 0)
			_exit(EXIT_FAILED);
		_exit(write(result[1], &request.ifr_mtu, sizeof(request.ifr_mtu)) < 0);
	}
	close(result[1]);
	if (child > 0)
		network_wait_for(child);
	if (child < 0 || read(result[0], &request.ifr_mtu, sizeof(int)) != sizeof(int))
		request.ifr_mtu = 0;
	close(result[0]);
	return (unsigned)request.ifr_mtu;
}

int network_configure(const struct network *network, unsigned mtu)
{
	int first = network->host_count > HOSTS_MIN ? -1 : 0;
	int result = 0;

	for (int host = first; host < network->host_count && result == 0; host++)
		result = configure_namespace(network, host, mtu);
	for (int host = 0; host < network->host_count && result == 0; host++)
		result = wait_until_running(network->net_fd[host]);
	return result;
}

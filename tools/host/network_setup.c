/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/network_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"

/* a millisecond each */
enum { RUNNING_TRIES = 2000 };

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

/*
 * Make IPv6 addresses usable at once in this process's namespace. No other host can have them, so
 * there are no duplicates to detect.
 */
static void skip_duplicate_address_detection(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/default/accept_dad", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Without it a link-local address is usable a second later. */
	if (write(fd, "0", 1) < 0)
		errno = 0;
	close(fd);
}

/*
 * Run the commands of an `ip -batch` script in a host. `script_fd` is read to its end.
 */
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
		skip_duplicate_address_detection();
		run_program(argv);
	}
	return network_wait_for(child);
}

/*
 * Write one host's part of the set-up. Host a also makes the pair. Neighbour entries are permanent,
 * so that the first packet does not wait for an ARP exchange.
 */
static void write_script(FILE *script, int host, const struct network *network, unsigned mtu)
{
	const struct host_facts *own = &hosts[host], *peer = &hosts[1 - host];

	if (host == 0)
		fprintf(script,
			"link add " NETWORK_INTERFACE " mtu %u address %s type veth"
			" peer name " NETWORK_INTERFACE " mtu %u address %s netns /proc/%d/fd/%d\n",
			mtu, own->mac, mtu, peer->mac, (int)getpid(), network->net_fd[1]);
	fprintf(script,
		"link set lo up\n"
		"addr add %s/24 dev " NETWORK_INTERFACE "\n"
		"addr add %s/64 dev " NETWORK_INTERFACE " nodad\n"
		"link set " NETWORK_INTERFACE " up\n"
		"neigh replace %s lladdr %s dev " NETWORK_INTERFACE " nud permanent\n"
		"neigh replace %s lladdr %s dev " NETWORK_INTERFACE " nud permanent\n",
		own->ipv4, own->ipv6, peer->ipv4, peer->mac, peer->ipv6, peer->mac);
}

static int configure_host(const struct network *network, int host, unsigned mtu)
{
	FILE *script = tmpfile();
	int result;

	if (!script)
		return -errno;
	write_script(script, host, network, mtu);
	rewind(script);
	result = run_script(network->net_fd[host], fileno(script));
	fclose(script);
	return result;
}

/* The kernel reports the link up a moment after both ends are, and drops packets until then. */
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

int network_configure(const struct network *network, unsigned mtu)
{
	int result = 0;

	for (int host = 0; host < HOST_COUNT && result == 0; host++)
		result = configure_host(network, host, mtu);
	for (int host = 0; host < HOST_COUNT && result == 0; host++)
		result = wait_until_running(network->net_fd[host]);
	return result;
}

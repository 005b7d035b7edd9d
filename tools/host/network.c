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

#define SWITCH "switch" /* in place of a host's letter */

/*
 * Descriptors of the holder: HOLDER_FD + N is the namespace of host N, SWITCH_FD that of the
 * switch. Other processes open the hosts' namespaces through /proc.
 */
enum { HOLDER_FD = 10, SWITCH_FD = HOLDER_FD + HOSTS_MAX };

struct host_facts host_facts(int host)
{
	unsigned number = (unsigned char)(host + 1);
	struct host_facts facts = {.name = {(char)('a' + host)}};

	snprintf(facts.ipv4, sizeof(facts.ipv4), "10.99.0.%u", number);
	snprintf(facts.ipv6, sizeof(facts.ipv6), "fd00:99::%x", number);
	snprintf(facts.mac, sizeof(facts.mac), "02:00:0a:63:00:%02x", number);
	return facts;
}

static struct network network_none(void)
{
	struct network network = {.user_fd = -1, .switch_fd = -1};

	for (int host = 0; host < HOSTS_MAX; host++)
		network.net_fd[host] = -1;
	return network;
}

bool network_name_is_valid(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length < NETWORK_NAME_BYTES_MAX && name[0] != '-' &&
		strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/*
 * The name of a host, or of the switch, for `ip netns`: urnic-a in the network urnic, else
 * urnic-NETWORK-a.
 */
static void named_host(const char *network, const char *host, char ret_name[NAME_MAX])
{
	if (strcmp(network, NAMED_PREFIX) == 0)
		snprintf(ret_name, NAME_MAX, NAMED_PREFIX "-%s", host);
	else
		snprintf(ret_name, NAME_MAX, NAMED_PREFIX "-%s-%s", network, host);
}

/* Open the namespace of a host or of the switch. Returns the descriptor or -errno. */
static int named_open(const char *network, const char *host)
{
	char name[NAME_MAX], path[PATH_MAX];
	int fd;

	named_host(network, host, name);
	snprintf(path, sizeof(path), NAMED_DIRECTORY "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * May this process make named networks? Root of a user namespace has user ID 0, but cannot write to
 * /run.
 */
static bool may_name_networks(void)
{
	return geteuid() == 0 && access("/run", W_OK) == 0;
}

/* Named networks */

static int named_add(const char *network, const char *host)
{
	char name[NAME_MAX];

	named_host(network, host, name);
	return network_run_ip((const char *const[]){"netns", "add", name, NULL});
}

static int make_named(const char *name, const struct network_settings *settings)
{
	struct network network = network_none();
	int result = 0;

	for (int host = 0; host < (int)settings->hosts && result == 0; host++)
		result = named_add(name, host_facts(host).name);
	if (result == 0 && settings->hosts > HOSTS_MIN)
		result = named_add(name, SWITCH);
	if (result == 0)
		result = network_open(name, &network);
	if (result == 0) {
		if (settings->hosts > HOSTS_MIN)
			network.switch_fd = named_open(name, SWITCH);
		result = network_configure(&network, settings->mtu);
		network_close(&network);
	}
	if (result < 0)
		network_drop(name);
	return result;
}

/* Open the hosts in order, until one is missing. Returns 0, or -errno after network_close(). */
static int hosts_open(struct network *network, const char *name,
	int (*host_open)(const struct network *network, const char *name, int host))
{
	int fd = 0;

	while (network->host_count < HOSTS_MAX &&
		(fd = host_open(network, name, network->host_count)) >= 0)
		network->net_fd[network->host_count++] = fd;
	if (network->host_count >= HOSTS_MIN && (fd >= 0 || fd == -ENOENT))
		return 0;
	network_close(network);
	return fd;
}

static int named_host_open(const struct network *network, const char *name, int host)
{
	(void)network;
	return named_open(name, host_facts(host).name);
}

static int open_named(const char *name, struct network *ret_network)
{
	*ret_network = network_none();
	return hosts_open(ret_network, name, named_host_open);
}

static int named_del(const char *network, const char *host)
{
	char name[NAME_MAX], path[PATH_MAX];

	named_host(network, host, name);
	snprintf(path, sizeof(path), NAMED_DIRECTORY "/%s", name);
	if (access(path, F_OK) < 0)
		return 0;
	return network_run_ip((const char *const[]){"netns", "del", name, NULL});
}

static int drop_named(const char *name)
{
	int result = named_del(name, SWITCH);

	for (int host = 0; host < HOSTS_MAX; host++) {
		int dropped = named_del(name, host_facts(host).name);

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

		/* Each network has a host a, whose file is urnic-a or urnic-NETWORK-a. */
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

/* Put this process into a new network namespace, and open that namespace as descriptor `fd`. */
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

/* Enter a user namespace as its root. Returns 0, or -errno after a message. */
static int become_root(void)
{
	int result = user_namespace_enter(0, 0);

	if (result < 0)
		complain("this system does not let ordinary users make user namespaces (%s);"
			 " run it as root",
			strerror(-result));
	return result;
}

/*
 * Make the namespaces and configure them. Their descriptors get the numbers HOLDER_FD to SWITCH_FD,
 * which the caller keeps free.
 */
static int namespaces_make(const struct network_settings *settings, struct network *ret_network)
{
	struct network network = network_none();
	int result = 0;

	network.host_count = (int)settings->hosts;
	for (int host = 0; host < network.host_count && result == 0; host++) {
		network.net_fd[host] = HOLDER_FD + host;
		result = make_namespace(network.net_fd[host]);
	}
	if (result == 0 && settings->hosts > HOSTS_MIN) {
		network.switch_fd = SWITCH_FD;
		result = make_namespace(network.switch_fd);
	}
	if (result == 0)
		result = network_configure(&network, settings->mtu);
	*ret_network = network;
	return result;
}

static int holder_prepare(const struct network_settings *settings)
{
	struct network network;
	int result = become_root();

	return result < 0 ? result : namespaces_make(settings, &network);
}

/*
 * The holder. It makes the namespaces, sends its parent a byte, and sleeps until network_drop()
 * kills it.
 */
static noreturn void holder_run(const struct network_settings *settings, int ready_fd)
{
	int null_fd;

	setsid();
	if (chdir("/") < 0 || holder_prepare(settings) < 0 || write(ready_fd, "", 1) != 1)
		_exit(EXIT_FAILED);
	prctl(PR_SET_NAME, "urnic-host");
	/* Let other processes of this user open the namespaces through /proc. */
	prctl(PR_SET_DUMPABLE, 1);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= STDERR_FILENO && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	close_range(STDERR_FILENO + 1, HOLDER_FD - 1, 0);
	close_range(HOLDER_FD + settings->hosts, SWITCH_FD - 1, 0);
	close_range(SWITCH_FD + 1, ~0U, 0);
	for (;;)
		pause();
}

static int make_held(const char *name, const struct network_settings *settings)
{
	int ready[2];
	pid_t holder;
	char byte;
	int result;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	holder = fork();
	if (holder == 0) {
		/* Keep the descriptors HOLDER_FD to SWITCH_FD free for the namespaces. */
		int ready_fd = fcntl(ready[1], F_DUPFD_CLOEXEC, SWITCH_FD + 1);

		close(ready[0]);
		close(ready[1]);
		holder_run(settings, ready_fd);
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

static int held_host_open(const struct network *network, const char *name, int host)
{
	char path[64];
	int fd;

	(void)name;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", network->holder_pid, HOLDER_FD + host);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_held(const char *name, struct network *ret_network)
{
	pid_t holder = network_state_holder(name);
	struct network network = network_none();
	char path[64];
	int result;

	if (holder == 0)
		return -ENOENT;
	network.holder_pid = holder;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)holder);
	network.user_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (network.user_fd < 0)
		return -errno;
	result = hosts_open(&network, name, held_host_open);
	if (result == 0)
		*ret_network = network;
	return result;
}

static int drop_held(const char *name)
{
	pid_t holder = network_state_holder(name);

	if (holder > 0 && kill(holder, SIGKILL) < 0 && errno != ESRCH)
		return -errno;
	return network_state_remove(name);
}

/* All kinds */

int network_make_private(const struct network_settings *settings, struct network *ret_network)
{
	int result = may_name_networks() ? 0 : become_root();

	*ret_network = network_none();
	if (result < 0)
		return result;
	result = namespaces_make(settings, ret_network);
	if (result < 0) {
		network_close(ret_network);
		complain("could not make a network: %s", strerror(-result));
	}
	return result;
}

int network_make(const char *name, const struct network_settings *settings)
{
	struct network network;

	if (network_open(name, &network) == 0) {
		network_close(&network);
		return -EEXIST;
	}
	/* Remove the remains of an interrupted set-up. */
	network_drop(name);
	return may_name_networks() ? make_named(name, settings) : make_held(name, settings);
}

int network_open(const char *name, struct network *ret_network)
{
	*ret_network = network_none();
	return may_name_networks() ? open_named(name, ret_network) : open_held(name, ret_network);
}

void network_close(struct network *network)
{
	if (network->user_fd >= 0)
		close(network->user_fd);
	if (network->switch_fd >= 0)
		close(network->switch_fd);
	for (int host = 0; host < HOSTS_MAX; host++) {
		if (network->net_fd[host] >= 0)
			close(network->net_fd[host]);
	}
	*network = network_none();
}

int network_enter(const struct network *network, int host)
{
	if (network->user_fd >= 0 && setns(network->user_fd, CLONE_NEWUSER) < 0)
		return -errno;
	if (setns(network->net_fd[host], CLONE_NEWNET) < 0)
		return -errno;
	/*
	 * /sys/class/net shows the network namespace in which /sys was mounted, so mount /sys anew.
	 * If the kernel refuses that, programs that read /sys/class/net see the wrong interfaces;
	 * everything else works.
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

/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/view_counters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_client.h"
#include "base/arith.h"
#include "common/stat_memory.h"
#include "os/process.h"
#include "run/view_fabric_counters.h"

enum {
	DEVICES_MAX = 64,
	FILE_MODE = 0444,
	OPEN_MS = 20, /* between two updates while a file is open */
	BUSY_MS = 1000, /* between two updates while programs use urnic, and no file is open */
	/* Between two searches for processes that have the view, once the program has ended. */
	LEFT_MS = 5000,
	/* The bytes of a packet besides its payload: Ethernet, IPv4, UDP, BTH and ICRC. */
	PACKET_OVERHEAD_BYTES = 14 + 20 + 8 + 12 + 4,
};

/* What a kernel counts for a port. Data is counted in units of four bytes, headers included. */
enum port_counter { XMIT_DATA, RCV_DATA, XMIT_PACKETS, RCV_PACKETS, PORT_COUNTER_COUNT };

static const char *const port_names[PORT_COUNTER_COUNT] = {
	[XMIT_DATA] = "port_xmit_data",
	[RCV_DATA] = "port_rcv_data",
	[XMIT_PACKETS] = "port_xmit_packets",
	[RCV_PACKETS] = "port_rcv_packets",
};

static const char *const hardware_names[COUNTER_COUNT] = {
#define COUNTER(name, sentence) [COUNTER_##name] = #name,
#include "lane/counter.def"
#undef COUNTER
};

#define PORT_DIRECTORY     "ports/1/counters"
#define HARDWARE_DIRECTORY "ports/1/hw_counters"

struct port {
	uint32_t ifindex;
	uint64_t total[COUNTER_COUNT];
	/* What the files contain */
	uint64_t port_written[PORT_COUNTER_COUNT];
	uint64_t hardware_written[COUNTER_COUNT];
	int directory_fd[2]; /* of PORT_DIRECTORY and HARDWARE_DIRECTORY */
};

/* The counters of a queue pair at the last update. */
struct seen {
	int32_t pid;
	uint32_t qpn;
	uint64_t counters[COUNTER_COUNT];
};

struct seen_list {
	uint32_t count;
	struct seen *items; /* in the order of the walk, which changes little between two updates */
};

static struct port *ports[DEVICES_MAX];
static uint32_t port_count;
static struct seen_list before;

/* --- the files ------------------------------------------------------------------------------- */

static int file_make(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	int result = fd >= 0 && pwrite(fd, "0\n", 2, 0) == 2 ? 0 : -errno;

	if (fd >= 0)
		close(fd);
	return result;
}

/* Make a directory and its files. The call sets *ret_directory also if it fails at a file. */
static int directory_make(int device, const char *path, const char *const *names, uint32_t count,
	int *ret_directory)
{
	int directory, result = 0;

	if (mkdirat(device, path, 0755) < 0)
		return -errno;
	directory = openat(device, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	*ret_directory = directory;
	for (uint32_t i = 0; i < count && result == 0; i++)
		result = file_make(directory, names[i]);
	return result;
}

static void port_destroy(struct port *port)
{
	for (uint32_t i = 0; i < ARRAY_COUNT(port->directory_fd); i++)
		if (port->directory_fd[i] >= 0)
			close(port->directory_fd[i]);
	free(port);
}

static struct port *port_create(uint32_t ifindex)
{
	struct port *port = calloc(1, sizeof(*port));

	if (!port)
		return NULL;
	port->ifindex = ifindex;
	memset(port->directory_fd, -1, sizeof(port->directory_fd));
	return port;
}

int view_counters_add(int directory, const struct device_facts *device)
{
	struct port *port;
	int result;

	if (port_count == DEVICES_MAX)
		return 0;
	port = port_create(device->ifindex);
	if (!port)
		return -ENOMEM;
	result = directory_make(directory, PORT_DIRECTORY, port_names, PORT_COUNTER_COUNT,
		&port->directory_fd[0]);
	if (result == 0)
		result = directory_make(directory, HARDWARE_DIRECTORY, hardware_names,
			COUNTER_COUNT, &port->directory_fd[1]);
	if (result < 0)
		port_destroy(port);
	else
		ports[port_count++] = port;
	return result;
}

/* Nobody may write to the files, so their owner permits it to itself first. */
static int file_open(int directory, const char *name)
{
	int fd = openat(directory, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && fchmodat(directory, name, FILE_MODE | S_IWUSR, 0) == 0) {
		fd = openat(directory, name, O_WRONLY | O_CLOEXEC);
		fchmodat(directory, name, FILE_MODE, 0);
	}
	return fd;
}

/*
 * Write a value that has changed, in place. The text never gets shorter, because the number only
 * grows. No descriptor stays open: each device has some sixty files, and the limit on open files
 * may be as low. If the file cannot be written, it keeps its old value.
 */
static void file_write(int directory, const char *name, uint64_t value, uint64_t *written)
{
	char text[24];
	int bytes = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value);
	int fd = value == *written ? -1 : file_open(directory, name);

	if (fd < 0)
		return;
	if (pwrite(fd, text, (size_t)bytes, 0) == bytes)
		*written = value;
	close(fd);
}

static void port_write(struct port *port)
{
	const uint64_t *total = port->total;
	const uint64_t values[PORT_COUNTER_COUNT] = {
		[XMIT_DATA] = (total[COUNTER_sent_bytes] +
				      total[COUNTER_sent_pkts] * PACKET_OVERHEAD_BYTES) /
			4,
		[RCV_DATA] = (total[COUNTER_rcvd_bytes] - total[COUNTER_local_bytes] +
				     total[COUNTER_rcvd_pkts] * PACKET_OVERHEAD_BYTES) /
			4,
		[XMIT_PACKETS] = total[COUNTER_sent_pkts],
		[RCV_PACKETS] = total[COUNTER_rcvd_pkts],
	};

	for (uint32_t i = 0; i < PORT_COUNTER_COUNT; i++)
		file_write(port->directory_fd[0], port_names[i], values[i], &port->port_written[i]);
	for (uint32_t i = 0; i < COUNTER_COUNT; i++)
		file_write(port->directory_fd[1], hardware_names[i], total[i],
			&port->hardware_written[i]);
}

/* --- looking --------------------------------------------------------------------------------- */

static struct port *port_find(uint32_t ifindex)
{
	for (uint32_t i = 0; i < port_count; i++)
		if (ports[i]->ifindex == ifindex)
			return ports[i];
	return NULL;
}

/*
 * Find a queue pair in the list of the last update; `start` is its expected position. NULL: it is
 * new.
 */
static const struct seen *seen_find(int32_t pid, uint32_t qpn, uint32_t start)
{
	for (uint32_t i = 0; i < before.count; i++) {
		const struct seen *seen = &before.items[(start + i) % before.count];

		if (seen->pid == pid && seen->qpn == qpn)
			return seen;
	}
	return NULL;
}

static bool seen_add(struct seen_list *now, int32_t pid, const struct stat_qp *qp)
{
	struct seen *longer;

	if ((now->count & (now->count - 1)) == 0) {
		longer = reallocarray(
			now->items, now->count ? 2 * (size_t)now->count : 1, sizeof(*longer));
		if (!longer)
			return false;
		now->items = longer;
	}
	now->items[now->count].pid = pid;
	now->items[now->count].qpn = qp->qpn;
	memcpy(now->items[now->count].counters, qp->counters, sizeof(qp->counters));
	now->count++;
	return true;
}

/*
 * Add what a queue pair has counted since the last update. If a counter is smaller than it was
 * then, another queue pair has got the number, and has counted from 0.
 */
static void qp_count_up(struct seen_list *now, int32_t pid, const struct stat_qp *qp)
{
	struct port *port = port_find(qp->ifindex);
	const struct seen *seen = port ? seen_find(pid, qp->qpn, now->count) : NULL;

	if (!port || !seen_add(now, pid, qp))
		return;
	for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
		uint64_t was = seen && seen->counters[i] <= qp->counters[i] ? seen->counters[i] : 0;

		port->total[i] += qp->counters[i] - was;
	}
}

static void process_count_up(struct seen_list *now, const struct agent_process *process)
{
	struct stat_memory memory;

	if (stat_memory_read(process->memory, (pid_t)process->pid, &memory) < 0)
		return;
	for (uint32_t lane = 0; lane < memory.lane_count; lane++)
		for (uint32_t i = 0; i < memory.lanes[lane].qp_count; i++)
			qp_count_up(now, process->pid, &memory.lanes[lane].qps[i]);
	stat_memory_done(&memory);
}

/* Update the counters. Returns whether programs use urnic. */
static bool programs_update(void)
{
	struct agent_client client;
	struct agent_process process;
	struct seen_list now = {0};
	uint32_t index = 0;

	if (agent_client_connect_running(&client) < 0)
		return false;
	while (agent_client_list(&client, &index, &process) == 0) {
		if (process.memory < 0)
			continue;
		process_count_up(&now, &process);
		close(process.memory);
	}
	agent_client_done(&client);
	free(before.items);
	before = now;
	for (uint32_t i = 0; i < port_count; i++)
		port_write(ports[i]);
	return now.count > 0;
}

/* --- the keeper ------------------------------------------------------------------------------ */

/*
 * If a program in the view starts urnicd, this urnicd has the view, too. It outlives the program,
 * and needs no counters.
 */
static bool is_urnicd(pid_t pid)
{
	char name[PROCESS_NAME_BYTES];

	process_name_read(pid, name);
	return strcmp(name, "urnicd") == 0;
}

static bool is_in_view(const char *pid, const char *view)
{
	char path[64], target[64];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%.20s/ns/mnt", pid);
	bytes = readlink(path, target, sizeof(target) - 1);
	if (bytes < 0)
		return false;
	target[bytes] = '\0';
	return strcmp(target, view) == 0 && !is_urnicd(atoi(pid));
}

/* Does another process have the view? */
static bool is_view_used(void)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	char view[64];
	ssize_t bytes = readlink("/proc/self/ns/mnt", view, sizeof(view) - 1);
	bool is_found = false;

	if (!processes)
		return false;
	view[bytes < 0 ? 0 : bytes] = '\0';
	while (!is_found && (entry = readdir(processes)))
		is_found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			atoi(entry->d_name) != getpid() && is_in_view(entry->d_name, view);
	closedir(processes);
	return is_found;
}

/*
 * Read inotify's events, and return how many files are open now; `open_count` were open before.
 * Directories do not count.
 */
static int count_open(int inotify, int open_count)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t bytes;

	while ((bytes = read(inotify, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < bytes;) {
			const struct inotify_event *event = (const void *)(buffer + at);

			at += (ssize_t)sizeof(*event) + event->len;
			if (event->mask & IN_Q_OVERFLOW)
				open_count = 0;
			else if (!(event->mask & IN_ISDIR))
				open_count += event->mask & IN_OPEN ? 1 : -1;
		}
	}
	return open_count > 0 ? open_count : 0;
}

/* Update all counters. Returns whether they may change. */
static bool counters_update(void)
{
	const bool has_fabric = view_fabric_counters_update();

	return (port_count && programs_update()) || has_fabric;
}

static _Noreturn void counters_keep(int program, int inotify)
{
	struct pollfd polled[] = {{inotify, POLLIN, 0}, {program, POLLIN, 0}};
	int open_count = 0;
	bool is_busy = counters_update();

	open_count = count_open(inotify, open_count);
	for (;;) {
		int wait_ms = is_busy ? BUSY_MS : -1;
		bool is_left = polled[1].fd < 0;

		if (open_count > 0)
			wait_ms = OPEN_MS;
		else if (is_left && wait_ms < 0)
			wait_ms = LEFT_MS;
		if (poll(polled, ARRAY_COUNT(polled), wait_ms) < 0 && errno != EINTR)
			_exit(EXIT_FAILURE);
		if (polled[1].revents)
			polled[1].fd = -1;
		if (polled[1].fd < 0 && !is_view_used())
			_exit(EXIT_SUCCESS);
		/*
		 * If no program uses urnic and no file is open, do not connect to urnicd, so that
		 * urnicd can become idle and end.
		 */
		if (is_busy || open_count > 0 || polled[0].revents) {
			is_busy = counters_update();
			/* The update's own calls of open() and close() are among the events. */
			open_count = count_open(inotify, open_count);
		}
	}
}

/*
 * Close the descriptors that the caller's program inherits. Otherwise a pipe of the program, for
 * example, would stay open after the end of the program. Descriptors with FD_CLOEXEC stay open,
 * among them those that this file has opened.
 */
static void close_inherited(void)
{
	DIR *descriptors = opendir("/proc/self/fd");
	struct dirent *entry;

	while (descriptors && (entry = readdir(descriptors))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			close(fd);
	}
	if (descriptors)
		closedir(descriptors);
	for (int i = 0; i < 3; i++)
		if (open("/dev/null", O_RDWR) < 0)
			return;
}

static bool directory_watch(int inotify, int directory)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", directory);
	return inotify_add_watch(inotify, path, IN_OPEN | IN_CLOSE) >= 0;
}

static int watch_files(void)
{
	int inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	uint32_t fabric_count;
	const int *fabric = view_fabric_counters_directories(&fabric_count);
	bool is_watched = inotify >= 0;

	for (uint32_t i = 0; is_watched && i < 2 * port_count; i++)
		is_watched = directory_watch(inotify, ports[i / 2]->directory_fd[i % 2]);
	for (uint32_t i = 0; is_watched && i < fabric_count; i++)
		is_watched = directory_watch(inotify, fabric[i]);
	if (!is_watched && inotify >= 0)
		close(inotify);
	return is_watched ? inotify : -1;
}

void view_counters_keep(void)
{
	int program = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int inotify = watch_files();
	pid_t child = program < 0 || inotify < 0 ? -1 : fork();

	if (child == 0) {
		if (fork() != 0)
			_exit(EXIT_SUCCESS);
		setsid();
		prctl(PR_SET_NAME, "urnic-counters");
		close_inherited();
		counters_keep(program, inotify);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	if (program >= 0)
		close(program);
	if (inotify >= 0)
		close(inotify);
}

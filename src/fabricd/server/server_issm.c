/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IsSM in the capability mask of ports. Linux has a device for each port, and IsSM is set while a
 * process has it open; a subnet manager just opens its path. Here an empty file takes the place of
 * the device. inotify reports when a process opens or closes it, and when the process is killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabricd/server/server_internal.h"

enum { RECOUNTS_MAX = 8 };

int issm_create(struct fabric_server *server)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	int rc;

	if (fd < 0)
		return -errno;
	server->issm_watch = (struct watch){.kind = WATCH_ISSM, .fd = fd};
	rc = server_watch(server, &server->issm_watch, EPOLLIN);
	if (rc) {
		close(fd);
		server->issm_watch.fd = -1;
	}
	return rc;
}

static void path_print(const struct server_port *port, char ret_path[ATTACH_TEXT_BYTES])
{
	snprintf(ret_path, ATTACH_TEXT_BYTES, "%s.issm-%u.%u", port->server->place.path,
		port->node, port->number);
}

int issm_path(struct server_port *port, char ret_path[ATTACH_TEXT_BYTES])
{
	int fd;

	path_print(port, ret_path);
	if (port->issm_watch >= 0)
		return 0;
	fd = open(ret_path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	port->issm_watch =
		inotify_add_watch(port->server->issm_watch.fd, ret_path, IN_OPEN | IN_CLOSE);
	return port->issm_watch < 0 ? -errno : 0;
}

static struct server_port *port_by_watch(struct fabric_server *server, int watch)
{
	for (struct server_port *port = NULL; (port = server_port_next(server, port));)
		if (port->issm_watch == watch)
			return port;
	return NULL;
}

static void capability_set(struct fabric_server *server, const struct server_port *port)
{
	server_issm_set(server, port, port->issm_count > 0);
}

static void opening_count(struct fabric_server *server, const struct inotify_event *event)
{
	struct server_port *port = port_by_watch(server, event->wd);

	if (!port)
		return;
	if (event->mask & IN_OPEN)
		port->issm_count++;
	else if (event->mask & IN_CLOSE && port->issm_count > 0)
		port->issm_count--;
	capability_set(server, port);
}

/* Read the waiting events. Returns whether there were any. *ret_is_lost: the kernel lost some. */
static bool events_read(struct fabric_server *server, bool is_counted, bool *ret_is_lost)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool has_some = false;
	ssize_t bytes;

	*ret_is_lost = false;
	while ((bytes = read(server->issm_watch.fd, buffer, sizeof(buffer))) > 0) {
		has_some = true;
		for (ssize_t at = 0; at < bytes;) {
			const struct inotify_event *event = (const void *)(buffer + at);

			at += (ssize_t)sizeof(*event) + event->len;
			*ret_is_lost |= (event->mask & IN_Q_OVERFLOW) != 0;
			if (is_counted)
				opening_count(server, event);
		}
	}
	return has_some;
}

/* --- counting anew --- */

/* The port whose IsSM file has this path; NULL: it is not the path of a port's file. */
static struct server_port *port_by_name(struct fabric_server *server, const char *path)
{
	const char *name = strrchr(path, '/');
	const char *own = strrchr(server->place.path, '/');
	unsigned node, number;
	char rest;

	if (!name || !own || strncmp(name, own, strlen(own)) != 0 ||
		sscanf(name + strlen(own), ".issm-%u.%u%c", &node, &number, &rest) != 2 ||
		node >= server->node_count)
		return NULL;
	return server_port_find(server, node, number);
}

/* Is the descriptor the port's own file, and not another file of the same name? */
static bool is_file_of(const struct server_port *port, int descriptors, const char *name)
{
	char path[ATTACH_TEXT_BYTES];
	struct stat own, other;

	path_print(port, path);
	return stat(path, &own) == 0 && fstatat(descriptors, name, &other, 0) == 0 &&
		own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static void descriptors_count(struct fabric_server *server, const char *process)
{
	char path[PATH_MAX], target[PATH_MAX];
	struct server_port *port;
	struct dirent *entry;
	DIR *descriptors;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", process);
	descriptors = opendir(path);
	while (descriptors && (entry = readdir(descriptors))) {
		ssize_t bytes =
			readlinkat(dirfd(descriptors), entry->d_name, target, sizeof(target) - 1);

		if (bytes < 0)
			continue;
		target[bytes] = '\0';
		port = port_by_name(server, target);
		if (port && is_file_of(port, dirfd(descriptors), entry->d_name))
			port->issm_count++;
	}
	if (descriptors)
		closedir(descriptors);
}

/* The next port with a file; NULL: there is none. */
static struct server_port *watched_port_next(
	const struct fabric_server *server, struct server_port *port)
{
	while ((port = server_port_next(server, port)) && port->issm_watch < 0)
		;
	return port;
}

/* The kernel has dropped events: look which processes have the files open. */
static void openings_recount(struct fabric_server *server)
{
	struct server_port *port;
	struct dirent *entry;
	bool is_lost;

	/* Count again if a file was opened or closed meanwhile. Its event would count it twice. */
	for (unsigned i = 0; i < RECOUNTS_MAX; i++) {
		DIR *processes;

		events_read(server, false, &is_lost);
		for (port = NULL; (port = watched_port_next(server, port));)
			port->issm_count = 0;
		processes = opendir("/proc");
		while (processes && (entry = readdir(processes)))
			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
				descriptors_count(server, entry->d_name);
		if (processes)
			closedir(processes);
		if (!events_read(server, false, &is_lost))
			break;
	}
	for (port = NULL; (port = watched_port_next(server, port));)
		capability_set(server, port);
}

void issm_event(struct fabric_server *server)
{
	bool is_lost;

	events_read(server, true, &is_lost);
	if (is_lost)
		openings_recount(server);
}

void issm_destroy(struct fabric_server *server)
{
	char path[ATTACH_TEXT_BYTES];

	for (struct server_port *port = NULL; (port = watched_port_next(server, port));) {
		path_print(port, path);
		unlink(path);
	}
	if (server->issm_watch.fd >= 0)
		close(server->issm_watch.fd);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IsSM in the capability mask of ports. Linux has a device for each port, and IsSM is set while a
 * process has it open; a subnet manager just opens its path. Here an empty file takes the place of
 * the device. inotify reports when a process opens or closes it, and when the process is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "fabricd/server/server_internal.h"

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
	snprintf(ret_path, ATTACH_TEXT_BYTES, "%s.issm-%u.%u", port->server->listener.path,
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
	for (uint32_t i = 0; i < server->node_count; i++)
		for (uint32_t j = 0; server->nodes[i].ports && j < server->nodes[i].port_count; j++)
			if (server->nodes[i].ports[j].issm_watch == watch)
				return &server->nodes[i].ports[j];
	return NULL;
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
	subnet_port_capability(server->subnet, port->node, port->number,
		port->issm_count > 0 ? IB_CAPABILITY_IS_SM : 0,
		port->issm_count > 0 ? 0 : IB_CAPABILITY_IS_SM, server->now_ns);
}

void issm_event(struct fabric_server *server)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t bytes;

	while ((bytes = read(server->issm_watch.fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < bytes;) {
			const struct inotify_event *event = (const void *)(buffer + at);

			at += (ssize_t)sizeof(*event) + event->len;
			opening_count(server, event);
		}
	}
}

void issm_destroy(struct fabric_server *server)
{
	char path[ATTACH_TEXT_BYTES];

	for (uint32_t i = 0; i < server->node_count; i++) {
		struct server_node *node = &server->nodes[i];

		for (uint32_t j = 0; node->ports && j < node->port_count; j++) {
			if (node->ports[j].issm_watch < 0)
				continue;
			path_print(&node->ports[j], path);
			unlink(path);
		}
	}
	if (server->issm_watch.fd >= 0)
		close(server->issm_watch.fd);
}

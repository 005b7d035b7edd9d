/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "nvmf/host/nbd/nbd_server.h"

/* Whether the file is a UNIX socket on which no process listens, as after a crash. */
static bool is_abandoned(const struct sockaddr_un *name)
{
	struct stat status;
	bool is_refused;
	int fd;

	if (lstat(name->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	is_refused = connect(fd, (const struct sockaddr *)name, sizeof(*name)) != 0 &&
		errno == ECONNREFUSED;
	close(fd);
	return is_refused;
}

static int listen_on(const struct sockaddr *name, socklen_t name_bytes)
{
	int fd = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, error;

	if (fd < 0)
		return -errno;
	if (name->sa_family != AF_UNIX)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* bind() gives the file of a UNIX socket the mode of the socket. */
	if ((name->sa_family == AF_UNIX && fchmod(fd, 0600) != 0) ||
		bind(fd, name, name_bytes) != 0 || listen(fd, NBD_CLIENTS_MAX) != 0) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

static int listen_unix(const char *path, char *text, size_t text_bytes)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	size_t path_bytes = strlen(path) + 1;
	int fd;

	if (path_bytes > sizeof(name.sun_path)) {
		snprintf(text, text_bytes, "The path of a UNIX socket has at most %zu bytes: %s",
			sizeof(name.sun_path) - 1, path);
		return -ENAMETOOLONG;
	}
	memcpy(name.sun_path, path, path_bytes);
	if (is_abandoned(&name))
		unlink(path);
	fd = listen_on((struct sockaddr *)&name, sizeof(name));
	if (fd == -EADDRINUSE)
		snprintf(text, text_bytes,
			"%s exists: choose another path, or end the server that uses it.", path);
	else if (fd < 0)
		snprintf(text, text_bytes, "Cannot listen on %s: %s.", path, strerror(-fd));
	return fd;
}

/* Split HOST:PORT in place. Returns the port; NULL if there is none. */
static char *split_port(char *host)
{
	char *colon = strrchr(host, ':');

	if (!colon || !colon[1])
		return NULL;
	*colon = 0;
	return colon + 1;
}

static int listen_tcp(const char *address, char *text, size_t text_bytes)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	size_t address_bytes = strlen(address) + 1;
	char copy[256], *port = NULL, *host = copy;
	int fd = -EINVAL, error;

	if (address_bytes <= sizeof(copy)) {
		memcpy(copy, address, address_bytes);
		port = split_port(copy);
	}
	if (port && host[0] == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = 0;
		host++;
	}
	if (!port) {
		snprintf(text, text_bytes, "'%s' is neither a path with a slash nor HOST:PORT.",
			address);
		return -EINVAL;
	}
	error = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
	if (error) {
		snprintf(text, text_bytes, "Cannot find %s: %s.", address, gai_strerror(error));
		return -EINVAL;
	}
	fd = listen_on(found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	if (fd < 0)
		snprintf(text, text_bytes, "Cannot listen on %s: %s.", address, strerror(-fd));
	return fd;
}

int nbd_listen(const char *address, char *text, size_t text_bytes)
{
	return strchr(address, '/') ? listen_unix(address, text, text_bytes)
				    : listen_tcp(address, text, text_bytes);
}

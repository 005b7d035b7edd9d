/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "nvmf/target/ctl/ctl.h"

static int send_words(int fd, unsigned word_count, const char *const *words)
{
	for (unsigned i = 0; i < word_count; i++) {
		size_t left = strlen(words[i]) + 1;
		const char *bytes = words[i];

		while (left > 0) {
			ssize_t sent = send(fd, bytes, left, MSG_NOSIGNAL);

			if (sent < 0 && errno == EINTR)
				continue;
			if (sent < 0)
				return -errno;
			bytes += sent;
			left -= (size_t)sent;
		}
	}
	return shutdown(fd, SHUT_WR) ? -errno : 0;
}

/* Receive all bytes of the answer, and append a NUL. */
static int receive_text(int fd, char **ret_text)
{
	size_t bytes = 0, room = 4096;
	char *text = malloc(room);
	ssize_t got = 1;

	while (text && got > 0) {
		if (room - bytes < 2) {
			char *larger = realloc(text, room *= 2);

			if (!larger)
				free(text);
			text = larger;
			continue;
		}
		got = recv(fd, text + bytes, room - bytes - 1, 0);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got > 0)
			bytes += (size_t)got;
	}
	if (!text)
		return -ENOMEM;
	if (got < 0) {
		int error = -errno;

		free(text);
		return error;
	}
	text[bytes] = '\0';
	*ret_text = text;
	return 0;
}

/*
 * Whether the server runs as this user or root. Root trusts any server at the path that it names.
 */
static bool is_trusted(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
		return false;
	return peer.uid == 0 || peer.uid == geteuid() || geteuid() == 0;
}

static int call_failed(int error, const char *path, char **ret_text)
{
	bool is_foreign = error == -EPERM;

	if (asprintf(ret_text, "%s: %s: %s; name the socket of a running target of yours", path,
		    is_foreign ? "another user's program listens there" : "no target answers there",
		    strerror(-error)) < 0)
		*ret_text = NULL;
	return error;
}

int ctl_call(const char *path, unsigned word_count, const char *const *words, char **ret_text)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t path_bytes = strlen(path) + 1;
	int fd, error = 0;
	char *text = NULL;

	if (path_bytes > sizeof(address.sun_path))
		return call_failed(-ENAMETOOLONG, path, ret_text);
	memcpy(address.sun_path, path, path_bytes);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return call_failed(-errno, path, ret_text);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		error = -errno;
	if (error == 0 && !is_trusted(fd))
		error = -EPERM;
	if (error == 0)
		error = send_words(fd, word_count, words);
	if (error == 0)
		error = receive_text(fd, &text);
	close(fd);
	if (text && strncmp(text, "ok\n", 3) == 0) {
		memmove(text, text + 3, strlen(text + 3) + 1);
	} else if (text && strncmp(text, "error\n", 6) == 0) {
		memmove(text, text + 6, strlen(text + 6) + 1);
		error = -EPROTO;
	} else {
		free(text);
		return call_failed(error ? error : -ECONNRESET, path, ret_text);
	}
	*ret_text = text;
	return error;
}

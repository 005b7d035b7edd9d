/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/setting.h"

enum {
	PLACES = 3,
	LISTEN_BACKLOG = 128,
	ANSWER_TIMEOUT_S = 2, /* one second of it may be urnicd's, that waits for survivors */
	MAKE_ATTEMPTS = 3, /* whoever leaves may remove the directory that was just made */
	LOCK_ATTEMPTS = 50,
	LOCK_PAUSE_US = 2000,
	NAME_BYTES = 40, /* two numbers in hexadecimal */
};

/* --- directories --- */

/* Of place `place`, or of a name in it. */
static int place_path(unsigned place, const char *name, char *ret_path, size_t path_bytes)
{
	const char *slash = *name ? "/" : "";
	int length = 0;

	switch (place) {
	case 0:
		length = snprintf(ret_path, path_bytes, "/run/urnic%s%s", slash, name);
		break;
	case 1:
		length = snprintf(
			ret_path, path_bytes, "/run/user/%u/urnic%s%s", geteuid(), slash, name);
		break;
	default:
		length =
			snprintf(ret_path, path_bytes, "/tmp/urnic-%u%s%s", geteuid(), slash, name);
	}
	return length < (int)path_bytes ? 0 : -ENAMETOOLONG;
}

static uid_t place_owner(unsigned place)
{
	return place == 0 ? 0 : geteuid();
}

/* Returns a descriptor, or -errno; -EPERM: others could write there. */
static int place_open(unsigned place)
{
	char path[PATH_MAX];
	struct stat stat;
	int fd;

	place_path(place, "", path, sizeof(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat) || stat.st_uid != place_owner(place) ||
		stat.st_mode & (S_IWGRP | S_IWOTH)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* The same, made if need be. */
static int place_make(unsigned place)
{
	char path[PATH_MAX];

	if (place_owner(place) != geteuid())
		return -EPERM;
	place_path(place, "", path, sizeof(path));
	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	return place_open(place);
}

/* Only one process at a time removes or makes names. One that stands still meanwhile is not waited for long. */
static bool place_lock(int directory)
{
	for (unsigned i = 0; i < LOCK_ATTEMPTS; i++) {
		if (flock(directory, LOCK_EX | LOCK_NB) == 0)
			return true;
		usleep(LOCK_PAUSE_US);
	}
	return false;
}

/* --- names --- */

/* FNV-1a. Who gives the same number to two hosts has chosen to. */
static uint64_t host_number(void)
{
	const char *text = setting_text("URNIC_HOST_ID");
	uint64_t number = 0xcbf29ce484222325u;

	if (!text)
		return 0;
	for (; *text; text++)
		number = (number ^ (uint8_t)*text) * 0x100000001b3u;
	return number;
}

struct rendezvous_name rendezvous_name(void)
{
	struct stat status;
	uint64_t netns = stat("/proc/self/ns/net", &status) ? 0 : status.st_ino;

	return (struct rendezvous_name){netns, host_number()};
}

static void name_print(const struct rendezvous_name *name, char *ret_text, size_t text_bytes)
{
	snprintf(ret_text, text_bytes, "%" PRIx64 "-%" PRIx64, name->netns, name->host);
}

/* False when it is none of ours. */
static bool name_parse(const char *text, struct rendezvous_name *ret_name)
{
	char again[NAME_BYTES];

	if (sscanf(text, "%" SCNx64 "-%" SCNx64, &ret_name->netns, &ret_name->host) != 2)
		return false;
	name_print(ret_name, again, sizeof(again));
	return strcmp(text, again) == 0;
}

static int address_make(unsigned place, const char *name, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return place_path(place, name, ret_address->sun_path, sizeof(ret_address->sun_path));
}

/* For each name in the directory, which is closed, until `visit` says true. */
static void names_visit(int directory,
	bool (*visit)(void *context, const char *text, const struct rendezvous_name *name),
	void *context)
{
	DIR *entries = fdopendir(directory);
	struct dirent *entry;
	struct rendezvous_name name;

	if (!entries) {
		close(directory);
		return;
	}
	while ((entry = readdir(entries)))
		if (name_parse(entry->d_name, &name) && visit(context, entry->d_name, &name))
			break;
	closedir(entries);
}

/* --- urnicd --- */

struct sweep {
	int directory;
	unsigned place;
};

/* Remove the name if nobody listens there. The place is locked. */
static bool sweep_one(void *context, const char *text, const struct rendezvous_name *name)
{
	const struct sweep *sweep = context;
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)name;
	if (fd < 0)
		return true;
	if (address_make(sweep->place, text, &address) == 0 &&
		connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 &&
		errno == ECONNREFUSED)
		unlinkat(sweep->directory, text, 0);
	close(fd);
	return false;
}

/* `directory` is locked, or cannot be. Returns a socket or -errno. */
static int listen_in(
	int directory, unsigned place, const struct rendezvous_name *name, bool is_system)
{
	struct sockaddr_un address;
	char text[NAME_BYTES];
	int fd, error;

	name_print(name, text, sizeof(text));
	error = name->netns ? address_make(place, text, &address) : -ENOENT;
	if (error)
		return error;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlinkat(directory, text, 0);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		fchmodat(directory, text, is_system ? 0666 : 0600, 0) ||
		(is_system && fchmod(directory, 0755)) || listen(fd, LISTEN_BACKLOG)) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

static int listen_at(unsigned place, const struct rendezvous_name *name, bool is_system)
{
	int directory = place_make(place);
	int fd;

	if (directory < 0)
		return directory;
	if (place_lock(directory))
		names_visit(dup(directory), sweep_one, &(struct sweep){directory, place});
	fd = listen_in(directory, place, name, is_system);
	close(directory);
	return fd;
}

int rendezvous_listen(struct rendezvous *rendezvous, bool is_system)
{
	int fd = -ENOENT;

	rendezvous->name = rendezvous_name();
	for (unsigned i = 0; fd < 0 && i < PLACES * MAKE_ATTEMPTS; i++) {
		rendezvous->place = i / MAKE_ATTEMPTS;
		fd = listen_at(rendezvous->place, &rendezvous->name, is_system);
	}
	rendezvous->listener = fd < 0 ? -1 : fd;
	return fd < 0 ? fd : 0;
}

void rendezvous_leave(struct rendezvous *rendezvous)
{
	char text[NAME_BYTES], path[PATH_MAX];
	int directory;

	if (rendezvous->listener < 0)
		return;
	close(rendezvous->listener);
	rendezvous->listener = -1;
	directory = place_open(rendezvous->place);
	if (directory < 0)
		return;
	place_lock(directory);
	name_print(&rendezvous->name, text, sizeof(text));
	unlinkat(directory, text, 0);
	place_path(rendezvous->place, "", path, sizeof(path));
	rmdir(path); /* unless others are there */
	close(directory);
}

/* --- who looks for a process --- */

struct question {
	const struct rendezvous_name *own;
	unsigned place;
	uint8_t slot;
	const struct gid *gid;
	rendezvous_visit *visit;
	void *context;
	bool is_found;
};

/* Returns a connection to the urnicd of this name, which is whose the directory is; or -1. */
static int connect_to(unsigned place, const char *text)
{
	const struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
	struct sockaddr_un address;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (address_make(place, text, &address) ||
		connect(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) ||
		peer.uid != place_owner(place)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Returns 0 and a process, whose memory the caller owns; or -errno. */
static int exchange(int fd, const struct question *question, struct agent_process *ret_process)
{
	struct agent_message message = {
		.version = AGENT_VERSION,
		.type = AGENT_FIND,
		.find = {.gid = *question->gid, .slot = question->slot},
	};
	struct agent_descriptors descriptors;
	int error = agent_message_send(fd, &message, NULL, NULL, 0, 0);

	if (!error)
		error = agent_message_receive(fd, false, &message, NULL, &descriptors, 0);
	if (error)
		return error;
	if (message.type != AGENT_FIND || message.status) {
		agent_descriptors_close(&descriptors);
		return message.status ? -message.status : -EPROTO;
	}
	agent_process_found(&message, &descriptors, ret_process);
	return 0;
}

/* Returns true when enough have been asked. */
static bool ask_one(void *context, const char *text, const struct rendezvous_name *name)
{
	struct question *question = context;
	struct agent_process process;
	int fd;

	if (name->host != question->own->host || name->netns == question->own->netns)
		return false;
	fd = connect_to(question->place, text);
	if (fd < 0)
		return false;
	if (exchange(fd, question, &process) == 0) {
		question->is_found = question->visit(question->context, &process);
		if (process.memory >= 0)
			close(process.memory);
	}
	close(fd);
	return question->is_found;
}

void rendezvous_ask(const struct rendezvous_name *own, uint8_t slot, const struct gid *gid,
	rendezvous_visit *visit, void *context)
{
	struct question question = {
		.own = own, .slot = slot, .gid = gid, .visit = visit, .context = context};

	for (unsigned place = 0; !question.is_found && place < PLACES; place++) {
		int directory = own->netns ? place_open(place) : -1;

		question.place = place;
		if (directory >= 0)
			names_visit(directory, ask_one, &question);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/failure_file.h"
#include "agent/place_directory.h"
#include "base/arith.h"
#include "os/clock.h"
#include "port/socket.h"

enum {
	LISTEN_BACKLOG = 128,
	/* How long to wait for a process that has the lock and does not listen yet. */
	LISTEN_WAIT_MS = 2000,
	PAUSE_MS = 5,
	/* How long the kernel may take to close all descriptors of a process that is killed. */
	ENDING_MS = 50,
	LOCK_ATTEMPTS = 8, /* a leaving listener may remove the file that was just locked */
	NAME_BYTES = 32, /* a kind and a number in hexadecimal, terminated */
};

static const char *const kind_names[] = {[PLACE_URNICD] = "net",
	[PLACE_CAPTURE] = "capture",
	[PLACE_XRC] = "xrc",
	[PLACE_FABRIC] = "fabric"};

/* --- the lock --- */

static void name_print(
	enum place_kind kind, uint64_t number, const char *suffix, char ret_name[NAME_BYTES])
{
	snprintf(ret_name, NAME_BYTES, "%s-%" PRIx64 "%s", kind_names[kind], number, suffix);
}

/* The number in a file name, or 0 for other names. */
static uint64_t name_parse(enum place_kind kind, const char *suffix, const char *name)
{
	size_t kind_bytes = strlen(kind_names[kind]);
	char again[NAME_BYTES];
	uint64_t number;

	if (strncmp(name, kind_names[kind], kind_bytes) != 0 || name[kind_bytes] != '-')
		return 0;
	number = strtoull(name + kind_bytes + 1, NULL, 16);
	name_print(kind, number, suffix, again);
	return strcmp(name, again) == 0 ? number : 0;
}

/* Returns a descriptor with the lock; -EWOULDBLOCK: another process has it; or another -errno. */
static int lock_take(int directory, const char *name, int flags)
{
	for (unsigned i = 0; i < LOCK_ATTEMPTS; i++) {
		struct stat status;
		int fd = openat(directory, name,
			O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);

		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &status)) {
			int error = -errno;

			close(fd);
			return error;
		}
		if (status.st_nlink > 0)
			return fd;
		close(fd);
	}
	return -EWOULDBLOCK;
}

struct lock_search {
	enum place_kind kind;
	uint64_t number;
	const char *except; /* the path of a directory that the search skips, or NULL */
};

/*
 * A place_directory_visit_fn: returns -EWOULDBLOCK when a listener with this name has a lock there.
 */
static int is_locked(void *context, const struct place *place)
{
	const struct lock_search *search = context;
	char name[NAME_BYTES];
	int fd;

	if (search->except && strcmp(search->except, place->path) == 0)
		return 0;
	name_print(search->kind, search->number, ".lock", name);
	fd = lock_take(place->fd, name, 0);
	if (fd >= 0)
		close(fd);
	return fd == -EWOULDBLOCK || place_directory_is_shortage(fd) ? fd : 0;
}

/* If `lock_name` is the lock of a listener of this kind that has ended, remove its files. */
static void files_sweep(const struct place *place, enum place_kind kind, const char *lock_name)
{
	uint64_t number = name_parse(kind, ".lock", lock_name);
	int lock = number ? lock_take(place->fd, lock_name, 0) : -1;
	char name[NAME_BYTES];

	if (lock < 0)
		return;
	name_print(kind, number, "", name);
	unlinkat(place->fd, name, 0);
	unlinkat(place->fd, lock_name, 0);
	close(lock);
}

/* Remove the files of listeners that have ended. A lock that the caller has is left alone. */
static void place_sweep(const struct place *place)
{
	int copy = openat(place->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		for (size_t kind = 0; kind < ARRAY_COUNT(kind_names); kind++)
			files_sweep(place, (enum place_kind)kind, entry->d_name);
	if (entries)
		closedir(entries);
	else if (copy >= 0)
		close(copy);
	failure_file_sweep(place->fd, FAILURE_FILES_MAX);
}

/* --- listeners --- */

static int socket_address(const char *directory, const char *name, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s/%s", directory,
		    name) >= (int)sizeof(ret_address->sun_path))
		return -ENAMETOOLONG;
	return 0;
}

/* Listen on the socket `name`, whose lock the caller has. Returns the socket or -errno. */
static int socket_listen(const struct place *place, const char *name, bool is_for_all)
{
	struct sockaddr_un address;
	int error = socket_address(place->path, name, &address);
	int fd =
		error ? -1 : socket_open(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error ? error : -errno;
	unlinkat(place->fd, name, 0);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		fchmodat(place->fd, name, is_for_all ? 0666 : 0600, 0) ||
		(is_for_all && fchmod(place->fd, 0755)) || listen(fd, LISTEN_BACKLOG)) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

/* Listen in `place`, unless another process has the lock of this name in any of the directories. */
static int listen_in(struct place *place, enum place_kind kind, uint64_t number, bool is_for_all,
	struct place_listener *ret_listener)
{
	struct lock_search search = {.kind = kind, .number = number, .except = place->path};
	char name[NAME_BYTES], lock_name[NAME_BYTES];
	int lock, fd, error;

	name_print(kind, number, "", name);
	name_print(kind, number, ".lock", lock_name);
	lock = lock_take(place->fd, lock_name, O_CREAT);
	if (lock == -ENOENT) /* the last listener to leave has removed the directory */
		return -EWOULDBLOCK;
	if (lock < 0)
		return lock;
	error = place_directory_visit(PLACE_OWN, is_locked, &search);
	if (error) {
		unlinkat(place->fd, lock_name, 0);
		close(lock);
		return error;
	}
	place_sweep(place);
	fd = socket_listen(place, name, is_for_all);
	if (fd < 0) {
		close(lock);
		return fd;
	}
	*ret_listener = (struct place_listener){.socket = fd, .lock = lock, .directory = place->fd};
	snprintf(ret_listener->path, sizeof(ret_listener->path), "%s/%s", place->path, name);
	return 0;
}

static int listen_once(
	enum place_kind kind, uint64_t number, bool is_for_all, struct place_listener *ret_listener)
{
	struct lock_search search = {.kind = kind, .number = number};
	struct place place;
	int error = place_directory_visit(PLACE_OWN, is_locked, &search);

	if (!error)
		error = place_directory_make(is_for_all, &place);
	if (error)
		return error;
	error = listen_in(&place, kind, number, is_for_all, ret_listener);
	if (error)
		close(place.fd);
	return error;
}

/*
 * Is the listener of this connection alive? A process that is being killed may have closed only
 * some of its descriptors so far; it closes its end of the connection within ENDING_MS. The
 * function closes `fd`.
 */
static bool is_alive(int fd)
{
	struct pollfd pollfd = {.fd = fd};
	bool has_ended = poll(&pollfd, 1, ENDING_MS) > 0;

	close(fd);
	return !has_ended;
}

int place_listen_as(
	enum place_kind kind, uint64_t number, bool is_for_all, struct place_listener *ret_listener)
{
	uint64_t give_up_ns = clock_now_ns() + (uint64_t)LISTEN_WAIT_MS * 1000000;
	char path[PLACE_PATH_BYTES];
	int error, fd;

	*ret_listener = (struct place_listener){.socket = -1, .lock = -1, .directory = -1};
	do {
		error = listen_once(kind, number, is_for_all, ret_listener);
		if (error != -EWOULDBLOCK)
			return error;
		fd = place_connect_as(kind, number, PLACE_OWN, 0, path);
		if (fd >= 0 ? is_alive(fd) : fd == -ETIMEDOUT)
			return -EADDRINUSE;
		/* Two processes may wait for each other's lock, so each waits for another time. */
		usleep((PAUSE_MS + (useconds_t)getpid() % 8) * 1000);
	} while (clock_now_ns() < give_up_ns);
	return -EADDRINUSE;
}

int place_listen(enum place_kind kind, bool is_for_all, struct place_listener *ret_listener)
{
	uint64_t netns;
	int error = place_netns(&netns);

	if (!error)
		return place_listen_as(kind, netns, is_for_all, ret_listener);
	*ret_listener = (struct place_listener){.socket = -1, .lock = -1, .directory = -1};
	return error;
}

/* Is `fd` the file that the directory has under this name? */
static bool is_named(const struct place *place, const char *name, int fd)
{
	struct stat named, own;

	return fstatat(place->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &own) == 0 &&
		named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

/* Does the socket listen at this path? */
static bool listens_at(int fd, const char *path)
{
	struct sockaddr_un address = {0};
	socklen_t bytes = sizeof(address);
	int type = 0, is_listening = 0;
	socklen_t type_bytes = sizeof(type), listening_bytes = sizeof(is_listening);

	return getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
		getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 &&
		getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &listening_bytes) == 0 &&
		address.sun_family == AF_UNIX && type == SOCK_SEQPACKET && is_listening &&
		strncmp(address.sun_path, path, sizeof(address.sun_path)) == 0 &&
		access(path, F_OK) == 0;
}

int place_adopt(enum place_kind kind, int socket, int lock, struct place_listener *ret_listener)
{
	struct place_listener listener = {.socket = socket, .lock = lock};
	char name[NAME_BYTES], lock_name[NAME_BYTES];
	struct place place;
	uint64_t netns;

	if (place_netns(&netns) || place_directory_make(true, &place))
		return -EINVAL;
	name_print(kind, netns, "", name);
	name_print(kind, netns, ".lock", lock_name);
	listener.directory = place.fd;
	snprintf(listener.path, sizeof(listener.path), "%s/%s", place.path, name);
	if (!listens_at(socket, listener.path) || !is_named(&place, lock_name, lock)) {
		close(place.fd);
		return -EINVAL;
	}
	*ret_listener = listener;
	return 0;
}

void place_pass_on(struct place_listener *listener)
{
	if (listener->socket < 0)
		return;
	close(listener->socket);
	close(listener->lock);
	close(listener->directory);
	listener->socket = -1;
}

void place_leave(struct place_listener *listener)
{
	const struct place place = {.fd = listener->directory};
	char lock_path[PLACE_PATH_BYTES + sizeof(".lock")];
	const char *name;
	char *slash;

	if (listener->socket < 0)
		return;
	snprintf(lock_path, sizeof(lock_path), "%s.lock", listener->path);
	slash = strrchr(lock_path, '/');
	name = strrchr(listener->path, '/') + 1;
	unlinkat(listener->directory, name, 0);
	unlinkat(listener->directory, slash + 1, 0);
	*slash = '\0';
	place_sweep(&place);
	rmdir(lock_path); /* fails while other listeners have files there */
	place_pass_on(listener);
}

/* --- connecting --- */

/* Connect to a listener in a trusted directory. Returns a socket or -errno; -EAGAIN: queue full. */
static int socket_connect(const struct place *place, const char *name)
{
	struct sockaddr_un address;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int error = socket_address(place->path, name, &address);
	int fd =
		error ? -1 : socket_open(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error ? error : -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
		error = -errno;
	else if (peer.uid != place->owner)
		error = -EPERM;
	else if (fcntl(fd, F_SETFL, 0))
		error = -errno;
	if (!error)
		return fd;
	close(fd);
	return error;
}

struct connect_search {
	char name[NAME_BYTES];
	unsigned wait_ms;
	char *path;
	int result; /* a socket or -errno */
};

/* A place_directory_visit_fn: connect to the listener in this directory, if there is one. */
static int connect_there(void *context, const struct place *place)
{
	struct connect_search *search = context;
	uint64_t give_up_ns = clock_now_ns() + (uint64_t)search->wait_ms * 1000000;
	int fd = socket_connect(place, search->name);

	while (fd == -EAGAIN && clock_now_ns() < give_up_ns) {
		usleep(PAUSE_MS * 1000);
		fd = socket_connect(place, search->name);
	}
	if (fd < 0 && fd != -EAGAIN && !place_directory_is_shortage(fd))
		return 0; /* no process listens, or the listener serves other users */
	snprintf(search->path, PLACE_PATH_BYTES, "%s/%s", place->path, search->name);
	search->result = fd == -EAGAIN ? -ETIMEDOUT : fd;
	return 1;
}

int place_connect_as(enum place_kind kind, uint64_t number, enum place_whose whose,
	unsigned wait_ms, char *ret_path)
{
	struct connect_search search = {
		.wait_ms = wait_ms, .path = ret_path, .result = -ECONNREFUSED};
	int result;

	name_print(kind, number, "", search.name);
	result = place_directory_visit(whose, connect_there, &search);
	return result < 0 ? result : search.result;
}

int place_connect(enum place_kind kind, enum place_whose whose, unsigned wait_ms, char *ret_path)
{
	uint64_t netns;
	int error = place_netns(&netns);

	return error ? error : place_connect_as(kind, netns, whose, wait_ms, ret_path);
}

struct others {
	enum place_kind kind;
	uint64_t own_netns;
	place_visit *visit;
	void *context;
};

static int others_there(void *context, const struct place *place)
{
	const struct others *others = context;
	int copy = openat(place->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;
	bool is_done = false;

	while (entries && !is_done && (entry = readdir(entries))) {
		uint64_t netns = name_parse(others->kind, "", entry->d_name);
		int fd = netns && netns != others->own_netns ? socket_connect(place, entry->d_name)
							     : -1;

		if (fd < 0)
			continue;
		is_done = others->visit(others->context, fd);
		close(fd);
	}
	if (entries)
		closedir(entries);
	else if (copy >= 0)
		close(copy);
	return is_done;
}

bool place_visit_others(enum place_kind kind, uint64_t own_netns, place_visit *visit, void *context)
{
	struct others others = {
		.kind = kind, .own_netns = own_netns, .visit = visit, .context = context};

	return place_directory_visit(PLACE_ROOTS, others_there, &others) == 1 ||
		place_directory_visit(PLACE_OWN, others_there, &others) == 1;
}

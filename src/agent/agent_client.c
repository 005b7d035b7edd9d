/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/agent_client.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent_exchange.h"
#include "agent/agent_start.h"
#include "agent/place.h"
#include "os/clock.h"
#include "os/epoll.h"
#include "os/log.h"
#include "os/setting.h"

enum {
	/*
	 * How long to retry while the queue of urnicd's socket is full. urnicd empties the queue at
	 * once, unless it is stopped (SIGSTOP).
	 */
	CONNECT_WAIT_MS = 2000,
	CONNECT_PAUSE_MS = 5,
	/* An idle urnicd may exit between our connect() and our first request. */
	CONNECT_ATTEMPTS_MAX = 8,
};

static const int socket_none = -1;

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = socket_none;
}

/* Put the connection into the epoll set that agent_client_fd() returns. */
static int connection_watch(struct agent_client *client)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (client->watcher < 0)
		client->watcher = epoll_open(EPOLL_CLOEXEC);
	if (client->watcher < 0 ||
		epoll_change(client->watcher, EPOLL_CTL_ADD, client->fd, &event) != 0)
		return agent_client_fail(
			client, -errno, "cannot watch urnicd: %s", strerror(errno));
	return 0;
}

/*
 * Remove the connection from the epoll set explicitly. Otherwise a copy of the descriptor in a
 * forked child would keep the connection in the set after the close.
 */
static void connection_close(struct agent_client *client)
{
	if (client->fd >= 0 && client->watcher >= 0)
		epoll_change(client->watcher, EPOLL_CTL_DEL, client->fd, NULL);
	close_if_open(&client->fd);
	client->agent_pid = 0;
}

static int fail_connect(struct agent_client *client, int error, const char *path)
{
	if (error == -ETIMEDOUT)
		return agent_client_fail(client, error,
			"urnicd at %s has accepted no connection for %d s: its process is "
			"stopped (kill -CONT) or overloaded (end it; running programs go on)",
			path, CONNECT_WAIT_MS / 1000);
	if (error == -ENOPROTOOPT)
		return agent_client_fail(
			client, error, "urnic needs Linux 5.14 or newer (SO_NETNS_COOKIE)");
	return agent_client_fail(client, error, "cannot reach urnicd: %s%s", strerror(-error),
		error == -EMFILE ? ": raise the limit on open files (ulimit -n)" : "");
}

/*
 * place_connect(), retried while urnicd's queue is full; the caller's lock is released meanwhile.
 */
static int place_connect_retry(struct agent_client *client, enum place_whose whose, char *path)
{
	uint64_t until_ns = clock_now_ns() + CONNECT_WAIT_MS * 1000000ull;
	uint64_t now_ns = 0;
	int rc;

	do {
		rc = place_connect(PLACE_URNICD, whose, 0, path);
		if (rc != -ETIMEDOUT)
			return rc;
		now_ns = clock_now_ns();
		agent_wait_for(client, -1, 0, now_ns + CONNECT_PAUSE_MS * 1000000ull);
	} while (now_ns < until_ns);
	return rc;
}

/* Connect to root's urnicd or the user's own. -ECONNREFUSED: none runs, or none is trusted. */
static int connect_to(struct agent_client *client, enum place_whose whose)
{
	struct agent_message message = {.type = AGENT_HELLO};
	struct passed_fds descriptors;
	char path[PLACE_PATH_BYTES];
	int rc = place_connect_retry(client, whose, path);

	if (rc < 0)
		return fail_connect(client, rc, path);
	client->fd = rc;
	rc = agent_exchange(client, &message, NULL, 0, &descriptors);
	if (rc)
		goto fail_close;
	rc = connection_watch(client);
	if (rc) {
		passed_fds_close(&descriptors);
		goto fail_close;
	}
	client->agent_pid = message.hello.pid;
	client->fd_store = passed_fds_take(&descriptors, 0);
	passed_fds_close(&descriptors);
	return 0;
fail_close:
	connection_close(client);
	return rc;
}

static int connect_running(struct agent_client *client)
{
	/* Try the system's urnicd first: if there is one, it shares port 4791 among all users. */
	int rc = connect_to(client, PLACE_ROOTS);

	return rc == -ECONNREFUSED ? connect_to(client, PLACE_OWN) : rc;
}

static int urnicd_start(struct agent_client *client)
{
	const char *given = setting_path("URNIC_URNICD");
	char path[PATH_MAX];
	int rc = agent_find(path, sizeof(path));

	if (rc && given)
		return agent_client_fail(client, rc,
			"URNIC_URNICD is %.100s, which is not a program; unset it to use the one beside the library",
			given);
	if (rc)
		return agent_client_fail(client, rc,
			"the program urnicd is missing beside the library: set URNIC_URNICD");
	agent_settings_check();
	agent_pause_begin(client);
	rc = agent_start(path);
	agent_pause_end(client);
	if (rc == -EMFILE)
		return agent_client_fail(client, rc,
			"urnicd needs %d open files: raise the limit (ulimit -n)", AGENT_FILES_MIN);
	if (rc == -ENOTDIR)
		return agent_client_fail(client, rc,
			"urnicd has no directory for its socket: user %u can make none in /run, /dev/shm "
			"and /tmp that others cannot write to",
			geteuid());
	if (rc == -ETIMEDOUT)
		return agent_client_fail(client, rc,
			"%s does not start: it is stopped, or the machine is overloaded", path);
	if (rc == -ECANCELED)
		return agent_client_fail(
			client, rc, "%s failed; run it with --foreground to see why", path);
	if (rc)
		return agent_client_fail(client, rc, "cannot run %s: %s", path, strerror(-rc));
	return 0;
}

static int connect_or_start(struct agent_client *client)
{
	int rc = -ECONNREFUSED;

	for (unsigned i = 0; i < CONNECT_ATTEMPTS_MAX; i++) {
		rc = connect_running(client);
		if (rc == -ECONNREFUSED)
			rc = urnicd_start(client);
		else if (rc != -ECONNRESET)
			return rc;
		else
			continue;
		if (rc)
			return rc;
	}
	return agent_client_fail(client, -ETIMEDOUT,
		"urnicd leaves before it answers: it cannot accept programs (URNICD_LOG=FILE in its "
		"environment logs the reason), or it is of an older version of urnic and leaves soon "
		"after the programs that use it have ended");
}

void agent_client_init(struct agent_client *client, const struct agent_pause *pause)
{
	memset(client, 0, sizeof(*client));
	client->pause = pause;
	client->fd = socket_none;
	client->watcher = socket_none;
	client->fd_store = socket_none;
	client->old_fd_store = socket_none;
	client->memory = socket_none;
	list_init(&client->claims);
}

int agent_client_begin(struct agent_client *client)
{
	int rc = connect_or_start(client);

	if (rc)
		close_if_open(&client->watcher);
	return rc;
}

int agent_client_connect(struct agent_client *client)
{
	agent_client_init(client, NULL);
	return agent_client_begin(client);
}

int agent_client_connect_running(struct agent_client *client)
{
	int rc;

	agent_client_init(client, NULL);
	rc = connect_running(client);
	if (rc)
		close_if_open(&client->watcher);
	return rc;
}

void agent_client_done(struct agent_client *client)
{
	/* A forked child may still have the connection open: end it for both processes. */
	if (client->fd >= 0)
		shutdown(client->fd, SHUT_RDWR);
	agent_client_forget(client);
}

void agent_client_forget(struct agent_client *client)
{
	close_if_open(&client->fd);
	close_if_open(&client->watcher);
	close_if_open(&client->fd_store);
	close_if_open(&client->old_fd_store);
	agent_client_init(client, client->pause);
}

int agent_client_fd(const struct agent_client *client)
{
	return client->watcher;
}

bool agent_client_has_ended(const struct agent_client *client)
{
	char byte;

	return client->fd < 0 || recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/*
 * Resume the leases of this client. The new urnicd learns the sockets of its predecessor from the
 * old fd store.
 */
static int slots_resume(struct agent_client *client)
{
	struct agent_message message = {
		.type = AGENT_RESUME,
		.resume =
			{
				.slots = client->slots,
				.has_fd_store = client->old_fd_store >= 0,
				.has_memory = client->memory >= 0,
			},
	};
	struct passed_fds descriptors;
	int fds[AGENT_DESCRIPTORS_MAX];
	uint32_t fd_count = 0;
	int rc;

	if (client->old_fd_store >= 0)
		fds[fd_count++] = client->old_fd_store;
	if (client->memory >= 0)
		fds[fd_count++] = client->memory;
	rc = agent_exchange(client, &message, fds, fd_count, &descriptors);
	if (rc)
		return rc;
	passed_fds_close(&descriptors);
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		if (agent_slots_has(&client->slots, (uint8_t)slot) &&
			!agent_slots_has(&message.resume.slots, (uint8_t)slot)) {
			agent_slots_remove(&client->slots, (uint8_t)slot);
			agent_slots_add(&client->lost, (uint8_t)slot);
			log_write(LOG_ERROR,
				"urnicd has died, and the next one has leased slot %u of this process "
				"to another process: the queue pairs 0x%02x0000 to 0x%02xffff fail",
				slot, slot, slot);
		}
	}
	return 0;
}

int agent_client_resume(struct agent_client *client)
{
	int rc;

	connection_close(client);
	client->is_silent = false;
	client->old_fd_store = client->fd_store;
	client->fd_store = socket_none;
	rc = connect_or_start(client);
	if (rc == 0)
		rc = slots_resume(client);
	if (rc == 0)
		rc = agent_claims_repeat(client);
	if (rc) {
		/* Keep the old fd store for the next attempt: it still has the sockets in use. */
		connection_close(client);
		close_if_open(&client->fd_store);
		client->fd_store = client->old_fd_store;
		client->old_fd_store = socket_none;
		return rc;
	}
	close_if_open(&client->old_fd_store);
	return 0;
}

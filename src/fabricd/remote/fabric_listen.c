/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/fabric_listen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "fabricd/remote/fabric_listen_internal.h"
#include "os/clock.h"

enum {
	BACKLOG = 16,
	EVENTS_PER_TURN = 64,
	TURNS_PER_POLL = 32,
	SPIN_NS = 50000, /* how long after the last frame the loop does not sleep */
	SLEEP_MS_MAX = 50,
	SOCKET_REST_NS = 100000000,
};

/* --- connections --- */

/* With too many connections of strangers, the oldest one makes room for the next. */
static void stranger_end(struct fabric_listen *listen)
{
	struct machine *oldest = NULL;
	uint32_t count = 0;

	list_for_each(machine, &listen->machines, struct machine, link) {
		if (machine->has_joined)
			continue;
		if (!oldest)
			oldest = machine;
		count++;
	}
	if (count >= STRANGERS_MAX)
		machine_end(oldest, "others want to join");
}

static int listen_watch(struct fabric_listen *listen, int fd, void *tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(listen->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* The connection that waits stays, and epoll would report it without end. */
static void socket_rest(struct fabric_listen *listen)
{
	epoll_ctl(listen->epoll, EPOLL_CTL_DEL, listen->socket, NULL);
	listen->socket_rests_until_ns = listen->now_ns + SOCKET_REST_NS;
}

static void socket_go_on(struct fabric_listen *listen)
{
	if (!listen->socket_rests_until_ns || listen->now_ns < listen->socket_rests_until_ns)
		return;
	listen->socket_rests_until_ns = 0;
	if (listen_watch(listen, listen->socket, &listen->socket))
		socket_rest(listen);
}

static void machine_accept(struct fabric_listen *listen)
{
	struct remote_address peer = {.bytes = sizeof(peer.socket)};
	int fd = accept4(listen->socket, (struct sockaddr *)&peer.socket, &peer.bytes,
		SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		if (is_shortage(errno))
			socket_rest(listen);
		return;
	}
	stranger_end(listen);
	if (listen->machine_count == MACHINES_MAX) {
		printf("a machine has not joined: %d others have\n", MACHINES_MAX);
		fflush(stdout);
		close(fd);
		return;
	}
	machine_begin(listen, fd, &peer);
}

/* --- the loop --- */

static void events_handle(struct fabric_listen *listen, const struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr == &listen->signals)
			listen->is_ended = true;
		else if (events[i].data.ptr == &listen->socket)
			machine_accept(listen);
		/* Others only end the sleep: each poll serves all machines. */
	}
	list_for_each_safe(machine, &listen->machines, struct machine, link)
		if (machine_serve(machine))
			machine_advance(machine);
}

static int descriptors_poll(struct fabric_listen *listen, int timeout_ms)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int count = epoll_wait(listen->epoll, events, EVENTS_PER_TURN, timeout_ms);

	listen->now_ns = clock_now_ns();
	if (count < 0 && errno != EINTR)
		return -errno;
	events_handle(listen, events, count);
	socket_go_on(listen);
	return listen->has_lost_fabric ? -ECONNRESET : 0;
}

int fabric_listen_turn(struct fabric_listen *listen)
{
	uint32_t frames = 0;
	int rc = 0;

	listen->now_ns = clock_now_ns();
	list_for_each(machine, &listen->machines, struct machine, link)
		frames += machine_frames_run(machine);
	if (listen->turn++ % TURNS_PER_POLL == 0)
		rc = descriptors_poll(listen, 0);
	return rc < 0 ? rc : frames > 0;
}

static int listen_sleep(struct fabric_listen *listen)
{
	bool is_idle = true;
	int rc;

	list_for_each(machine, &listen->machines, struct machine, link)
		is_idle &= machine_wait_begin(machine);
	rc = descriptors_poll(listen, is_idle ? SLEEP_MS_MAX : 0);
	list_for_each(machine, &listen->machines, struct machine, link)
		machine_wait_end(machine);
	return rc;
}

int fabric_listen_run(struct fabric_listen *listen)
{
	uint64_t busy_until_ns = 0;
	int rc = 0;

	while (!listen->is_ended && rc >= 0) {
		rc = fabric_listen_turn(listen);
		if (rc > 0)
			busy_until_ns = listen->now_ns + SPIN_NS;
		else if (rc == 0 && listen->now_ns >= busy_until_ns)
			rc = listen_sleep(listen);
	}
	return rc < 0 ? rc : 0;
}

/* --- its life --- */

static int fabric_find(const char *name, char why[ATTACH_TEXT_BYTES])
{
	char place[ATTACH_NAME_BYTES + 1];
	struct fabric_client *client;
	int rc;

	snprintf(place, sizeof(place), "%s:", name);
	rc = fabric_client_open(place, &client, why);
	if (rc == 0)
		fabric_client_close(client);
	return rc;
}

static int signals_open(struct fabric_listen *listen)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	listen->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return listen->signals < 0 ? -errno
				   : listen_watch(listen, listen->signals, &listen->signals);
}

static int socket_open(struct fabric_listen *listen)
{
	const struct remote_address *address = listen->settings->address;
	const int is_reused = 1;

	listen->socket =
		socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listen->socket < 0)
		return -errno;
	setsockopt(listen->socket, SOL_SOCKET, SO_REUSEADDR, &is_reused, sizeof(is_reused));
	if (bind(listen->socket, (const struct sockaddr *)&address->socket, address->bytes) < 0)
		return -errno;
	return 0;
}

int fabric_listen_create(const struct fabric_listen_settings *settings,
	struct fabric_listen **ret_listen, char why[ATTACH_TEXT_BYTES])
{
	struct fabric_listen *listening = calloc(1, sizeof(*listening));
	int rc = listening ? fabric_find(settings->name, why) : -ENOMEM;

	if (rc) {
		if (!listening)
			snprintf(why, ATTACH_TEXT_BYTES, "no memory");
		free(listening);
		return rc;
	}
	listening->settings = settings;
	listening->socket = listening->signals = -1;
	list_init(&listening->machines);
	listening->epoll = epoll_create1(EPOLL_CLOEXEC);
	rc = listening->epoll < 0 ? -errno : socket_open(listening);
	if (rc == 0 && listen(listening->socket, BACKLOG) < 0)
		rc = -errno;
	if (rc == 0)
		rc = listen_watch(listening, listening->socket, &listening->socket);
	if (rc == 0)
		rc = signals_open(listening);
	if (rc) {
		snprintf(
			why, ATTACH_TEXT_BYTES, "cannot listen at this address: %s", strerror(-rc));
		fabric_listen_destroy(listening);
		return rc;
	}
	*ret_listen = listening;
	return 0;
}

void fabric_listen_destroy(struct fabric_listen *listen)
{
	if (!listen)
		return;
	list_for_each_safe(machine, &listen->machines, struct machine, link)
		machine_end(machine, "the listener ends");
	if (listen->signals >= 0)
		close(listen->signals);
	if (listen->socket >= 0)
		close(listen->socket);
	if (listen->epoll >= 0)
		close(listen->epoll);
	free(listen);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/fabric_listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabricd/remote/fabric_listen_internal.h"
#include "os/clock.h"

enum {
	BACKLOG = 16,
	SLEEP_MS_MAX = 50,
};

/* --- connections --- */

/* End the oldest connection that has not joined, to make room for another one. */
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

static void machine_accept(struct fabric_listen *listen)
{
	struct remote_address peer = {.bytes = sizeof(peer.socket)};
	int fd = accept4(listen->listener.fd, (struct sockaddr *)&peer.socket, &peer.bytes,
		SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		fabric_listener_failed(&listen->loop, &listen->listener, errno);
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

static void listen_ready(void *context, void *tag, uint32_t events)
{
	struct fabric_listen *listen = context;

	(void)events;
	if (tag == &listen->listener)
		machine_accept(listen);
	/* Other descriptors only end the sleep: each poll serves all machines. */
}

static int machines_serve(void *context)
{
	struct fabric_listen *listen = context;

	list_for_each_safe(machine, &listen->machines, struct machine, link)
		if (machine_serve(machine))
			machine_advance(machine);
	fabric_listener_go_on(&listen->loop, &listen->listener);
	return listen->has_lost_fabric ? -ECONNRESET : 0;
}

int fabric_listen_turn(struct fabric_listen *listen)
{
	uint32_t frames = 0;
	int rc;

	listen->now_ns = clock_now_ns();
	list_for_each(machine, &listen->machines, struct machine, link)
		frames += machine_frames_run(machine);
	rc = fabric_loop_poll_rarely(&listen->loop);
	return rc < 0 ? rc : frames > 0;
}

static int listen_turn(void *context)
{
	return fabric_listen_turn(context);
}

static int listen_sleep(void *context)
{
	struct fabric_listen *listen = context;
	bool is_idle = true;
	int rc;

	list_for_each(machine, &listen->machines, struct machine, link)
		is_idle &= machine_wait_begin(machine);
	rc = fabric_loop_poll(&listen->loop, is_idle ? SLEEP_MS_MAX : 0);
	list_for_each(machine, &listen->machines, struct machine, link)
		machine_wait_end(machine);
	return rc;
}

int fabric_listen_run(struct fabric_listen *listen)
{
	return fabric_loop_run(&listen->loop);
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

static int socket_open(struct fabric_listen *listening)
{
	const struct remote_address *address = listening->settings->address;
	const int is_reused = 1;
	int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	listening->listener.fd = fd;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &is_reused, sizeof(is_reused));
	if (bind(fd, (const struct sockaddr *)&address->socket, address->bytes) < 0 ||
		listen(fd, BACKLOG) < 0)
		return -errno;
	return fabric_listener_watch(&listening->loop, &listening->listener);
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
	listening->listener.fd = -1;
	list_init(&listening->machines);
	listening->loop_user = (struct fabric_loop_user){.turn = listen_turn,
		.sleep = listen_sleep,
		.ready = listen_ready,
		.polled = machines_serve,
		.context = listening,
		.now_ns = &listening->now_ns};
	rc = fabric_loop_init(&listening->loop, &listening->loop_user);
	if (rc == 0)
		rc = socket_open(listening);
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
	if (listen->listener.fd >= 0)
		close(listen->listener.fd);
	fabric_loop_done(&listen->loop);
	free(listen);
}

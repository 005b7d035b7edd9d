/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/namespace_lookup.h"
#include "agent/place.h"
#include "base/arith.h"
#include "netdev/netdev.h"
#include "os/process.h"
#include "port/address.h"
#include "urnicd/event_log.h"
#include "urnicd/fd_store.h"
#include "urnicd/fd_store_adopt.h"
#include "urnicd/port_holder.h"
#include "urnicd/quota.h"
#include "urnicd/requests.h"

enum {
	EVENTS_PER_TURN = 64,
	REST_MS = 100, /* between attempts to accept without descriptors */
	UNWANTED_MS = 50, /* for a client to ask, which it does as soon as it has connected */
	CLOSED_CHANNELS_MAX = 64, /* in the fd store, besides as many as there are open ones */
};

/* What an epoll event is about: the kind in the upper half of its data, an index in the lower. */
enum watch { WATCH_LISTENER, WATCH_CLIENT, WATCH_PROCESS, WATCH_GROUP };

uint64_t server_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool server_is_settled(const struct server *server)
{
	return server->has_adopted || server_now_ms() >= server->settled_at_ms;
}

static int epoll_watch(struct server *server, int operation, int fd, uint32_t events,
	enum watch what, uint64_t index)
{
	struct epoll_event event = {.events = events, .data.u64 = (uint64_t)what << 32 | index};

	return epoll_ctl(server->epoll, operation, fd, &event) ? -errno : 0;
}

struct group *server_group_find(struct server *server, const struct agent_address *address)
{
	for (uint32_t i = 0; i < server->group_count; i++) {
		struct group *group = &server->groups[i];

		if (group->count > 0 && gid_is_equal(&group->address.gid, &address->gid) &&
			group->address.scope_ifindex == address->scope_ifindex)
			return group;
	}
	return NULL;
}

struct group *server_group(struct server *server, const struct agent_address *address)
{
	struct group *unused = server_group_find(server, address);

	if (unused)
		return unused;
	for (uint32_t i = 0; i < server->group_count && !unused; i++)
		if (server->groups[i].count == 0)
			unused = &server->groups[i];
	if (!unused) {
		if (server->group_count == SERVER_GROUPS_MAX)
			return server_drop_groups(server) ? server_group(server, address) : NULL;
		unused = &server->groups[server->group_count++];
	}
	group_init(unused, address);
	return unused;
}

void server_watch_group(struct server *server, struct group *group)
{
	uint32_t index = (uint32_t)(group - server->groups);
	int rc = gsi_port_open(&server->gsi_ports[index], server, group);

	if (rc)
		log_line("cannot listen to QP1 of an address: %s", strerror(-rc));
	epoll_watch(server, EPOLL_CTL_ADD, group->sockets[0], EPOLLIN, WATCH_GROUP, index);
}

void server_note_group(struct server *server, const struct group *group)
{
	struct ledger_group noted;

	if (server->ledger < 0)
		return;
	group_note(group, &noted);
	ledger_put_group(server->ledger, (uint32_t)(group - server->groups), &noted);
}

void server_note_lease(struct server *server, uint8_t slot)
{
	const struct slot_lease *lease = &server->slots.leases[slot];
	const struct ledger_lease noted = {
		.is_leased = lease->state != SLOT_FREE, .uid = lease->uid};

	if (server->ledger >= 0)
		ledger_put_lease(server->ledger, slot, &noted);
}

/* Slots whose sockets are not to be given to others. */
static struct agent_slots slots_leased(const struct server *server)
{
	struct agent_slots slots = {{0}};

	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		if (server->slots.leases[slot].state != SLOT_FREE)
			agent_slots_add(&slots, (uint8_t)slot);
	return slots;
}

int server_group_assign(struct server *server, struct group *group, uint8_t slot, uid_t uid)
{
	const struct agent_slots leased = slots_leased(server);
	const struct group_wish wish = {
		.slot = slot, .is_kept = !server_gives_members(server, uid), .leased = &leased};
	bool is_new = group->count == 0;
	int rc = group_assign(group, &wish, server->fd_store);

	server_note_group(server, group);
	if (is_new && group->count > 0) {
		group->maker = uid;
		server_watch_group(server, group);
	}
	return rc;
}

uint32_t server_group_missing(
	const struct server *server, const struct group *group, uint8_t slot, uid_t uid)
{
	const struct agent_slots leased = slots_leased(server);
	const struct group_wish wish = {
		.slot = slot, .is_kept = !server_gives_members(server, uid), .leased = &leased};

	return group_sockets_missing(group, &wish);
}

bool server_gives_members(const struct server *server, uid_t uid)
{
	return !server->is_system || uid == geteuid();
}

static bool is_needed(void *context, const struct fd_store_label *label, const int *fds)
{
	struct server *server = context;

	if (label->kind == FD_STORE_SOCKETS)
		return server_group_find(server, &label->address) != NULL;
	return label->kind != FD_STORE_CHANNEL ||
		relay_has(server->relay, &label->address, (uint8_t)label->first, fds[0]);
}

/* The fd store keeps channels that are closed, until they are more than those that are open. */
static void sweep_channels(struct server *server)
{
	int rc;

	if (server->closed_channels <= relay_count(server->relay) + CLOSED_CHANNELS_MAX)
		return;
	rc = fd_store_sweep(server->fd_store, is_needed, server);
	if (rc)
		log_line("cannot sweep the fd store: %s", strerror(-rc));
	server->closed_channels = 0;
}

bool server_address_lasts(const struct agent_address *address)
{
	static const uint8_t loopback[4] = {127, 0, 0, 1};
	const uint8_t *ipv4 = address->gid.raw + 12;

	/* The kernel lets any address of 127.0.0.0/8 be bound, and no interface need have it. */
	if (gid_is_ipv4(&address->gid) && ipv4[0] == loopback[0])
		return memcmp(ipv4, loopback, sizeof(loopback)) == 0;
	return netdev_has_address(&address->gid, address->scope_ifindex);
}

/* May nobody need the group any more? */
static bool is_gone(const struct server *server, const struct group *group)
{
	if (group->count == 0 || server_address_lasts(&group->address) ||
		claim_table_has_address(&server->claims, &group->address))
		return false;
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		if (group->member_of_slot[slot] && server->slots.leases[slot].state != SLOT_FREE)
			return false;
	return true;
}

/*
 * Out of the fd store before they are closed: an urnicd that dies in between leaves sockets that
 * nobody has.
 */
uint32_t server_drop_groups(struct server *server)
{
	struct group *dropped = calloc(SERVER_GROUPS_MAX, sizeof(*dropped));
	uint32_t count = 0;
	int rc;

	for (uint32_t i = 0; dropped && i < server->group_count; i++) {
		struct group *group = &server->groups[i];

		if (!is_gone(server, group))
			continue;
		gsi_port_close(&server->gsi_ports[i]);
		epoll_ctl(server->epoll, EPOLL_CTL_DEL, group->sockets[0], NULL);
		dropped[count++] = *group;
		group_init(group, &group->address);
		server_note_group(server, group);
	}
	rc = count ? fd_store_sweep(server->fd_store, is_needed, server) : 0;
	if (rc)
		log_line("cannot sweep the fd store: %s", strerror(-rc));
	for (uint32_t i = 0; i < count; i++)
		group_done(&dropped[i]);
	free(dropped);
	return count;
}

void server_clear_slot(struct server *server, uint8_t slot)
{
	for (uint32_t i = 0; i < server->group_count; i++)
		group_bar(&server->groups[i], slot);
	if (server->relay) {
		server->closed_channels += relay_close_slot(server->relay, slot);
		sweep_channels(server);
	}
}

void server_release_slot(struct server *server, uint8_t slot)
{
	server_clear_slot(server, slot);
	slot_return(&server->slots, slot, server_now_ms());
	server_note_lease(server, slot);
}

/*
 * Or was it cut off, and lives? Its end of the connection is closed when it ends, or executes
 * another program.
 */
static bool has_ended(const struct client *client)
{
	struct pollfd fds[] = {{.fd = client->fd}, {.fd = client->pidfd, .events = POLLIN}};

	return poll(fds, ARRAY_COUNT(fds), 0) > 0;
}

static void client_drop(struct server *server, struct client *client)
{
	log_line("process %d (%s) has disconnected", client->pid, client->comm);
	if (client->memory >= 0 && has_ended(client))
		gsi_send_last_messages(server, client->memory, &client->slots);
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		if (agent_slots_has(&client->slots, (uint8_t)slot))
			server_release_slot(server, (uint8_t)slot);
	}
	close(client->fd);
	if (client->pidfd >= 0)
		close(client->pidfd);
	if (client->memory >= 0)
		close(client->memory);
	if (client->gsi >= 0)
		close(client->gsi);
	claim_table_drop_client(&server->claims, (uint32_t)(client - server->clients));
	client->fd = -1;
	if (client->is_unwanted)
		server->rests_until_ms = 0;
	server->foreign_count -= client->is_foreign;
	if (--server->client_count == 0)
		server->idle_since_ms = server_now_ms();
}

/*
 * A forked child of the client may hold the connection open after the client's death, so its
 * process is watched too, where it can be (another PID namespace shows no number).
 */
static void watch_process(struct server *server, struct client *client)
{
	client->pidfd = client->pid > 0 ? (int)syscall(SYS_pidfd_open, client->pid, 0) : -1;
	if (client->pidfd >= 0)
		epoll_watch(server, EPOLL_CTL_ADD, client->pidfd, EPOLLIN, WATCH_PROCESS,
			(uint64_t)(client - server->clients));
}

static struct client *unused_client(struct server *server)
{
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		if (server->clients[i].fd < 0)
			return &server->clients[i];
	}
	return NULL;
}

/*
 * There are no descriptors. The listener stays readable, so the loop would spin; it is not watched
 * for a while.
 */
static void listener_rest(struct server *server, unsigned ms)
{
	epoll_watch(server, EPOLL_CTL_MOD, server->listener, 0, WATCH_LISTENER, 0);
	server->is_resting = true;
	server->rests_until_ms = server_now_ms() + ms;
}

static void drop_unwanted(struct server *server)
{
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		if (server->clients[i].fd >= 0 && server->clients[i].is_unwanted)
			client_drop(server, &server->clients[i]);
}

static void listener_wake(struct server *server)
{
	if (!server->is_resting || server_now_ms() < server->rests_until_ms)
		return;
	drop_unwanted(server);
	if (server->reserve < 0)
		server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (server->reserve < 0) {
		server->rests_until_ms = server_now_ms() + REST_MS;
		return;
	}
	server->is_resting = epoll_watch(server, EPOLL_CTL_MOD, server->listener, EPOLLIN,
				     WATCH_LISTENER, 0) != 0;
}

static int listener_accept(const struct server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

/*
 * Returns whether it is worth another attempt at once. A urnicd without clients that can accept
 * none leaves: the program that waits hears so at once.
 */
static bool accept_failed(struct server *server, int error)
{
	if (error == -EINTR || error == -ECONNABORTED)
		return true;
	if (error == -EAGAIN)
		return false;
	if (!server->is_resting)
		log_line("no program can connect: accept4: %s", strerror(-error));
	listener_rest(server, REST_MS);
	server->is_useless = server->client_count == 0;
	return false;
}

/*
 * Who has more connections than its share is told so; one at a time of each user, so that they take
 * no places.
 */
static bool is_over_quota(struct server *server, uid_t uid, bool is_foreign)
{
	char why[AGENT_WHY_BYTES];

	if (!quota_is_reached(
		    server, uid, is_foreign ? QUOTA_FOREIGN : QUOTA_CONNECTIONS, why, sizeof(why)))
		return false;
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		if (server->clients[i].fd >= 0 && server->clients[i].is_over_quota &&
			server->clients[i].uid == uid)
			client_drop(server, &server->clients[i]);
	server->counters.quota_refused++;
	return true;
}

/* Returns false when nobody else waits to be accepted. */
static bool client_accept(struct server *server)
{
	int fd = listener_accept(server);
	struct client *client = unused_client(server);
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	bool is_unwanted = false;
	bool is_foreign, is_over;

	if (is_shortage(fd) && server->reserve >= 0) {
		close(server->reserve);
		server->reserve = -1;
		is_unwanted = true;
		fd = listener_accept(server);
		listener_rest(server, UNWANTED_MS);
	}
	if (fd < 0)
		return accept_failed(server, fd);
	is_foreign = place_netns_of(fd) != server->netns;
	if (!client || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
		(!server->is_system && peer.uid != geteuid()) ||
		(is_foreign && server->foreign_count == SERVER_FOREIGN_MAX)) {
		server->counters.clients_refused++;
		close(fd);
		return true;
	}
	is_over = is_over_quota(server, peer.uid, is_foreign);
	*client = (struct client){.fd = fd,
		.memory = -1,
		.gsi = -1,
		.pid = peer.pid,
		.uid = peer.uid,
		.is_over_quota = is_over,
		.is_unwanted = is_unwanted,
		.is_foreign = is_foreign};
	if (epoll_watch(server, EPOLL_CTL_ADD, fd, EPOLLIN, WATCH_CLIENT,
		    (uint64_t)(client - server->clients)) != 0) {
		close(fd);
		client->fd = -1;
		return true;
	}
	process_name_read(client->pid, client->comm);
	watch_process(server, client);
	server->client_count++;
	server->foreign_count += is_foreign;
	server->counters.clients_accepted++;
	log_line(
		"process %d (%s) of user %u has connected", client->pid, client->comm, client->uid);
	return !is_unwanted;
}

/* While a request waits nothing more is read: a client has one request in hand at most. */
static void client_rearm(struct server *server, struct client *client)
{
	epoll_watch(server, EPOLL_CTL_MOD, client->fd, client->is_waiting ? 0 : EPOLLIN,
		WATCH_CLIENT, (uint64_t)(client - server->clients));
}

static void client_event(struct server *server, struct client *client, uint32_t events)
{
	bool was_waiting = client->is_waiting;

	if (client->fd < 0)
		return;
	if (was_waiting ? (events & (EPOLLHUP | EPOLLERR)) != 0 : !request_receive(server, client))
		client_drop(server, client);
	else if (client->is_waiting != was_waiting)
		client_rearm(server, client);
}

static void process_event(struct server *server, struct client *client)
{
	struct pollfd fd = {.fd = client->pidfd, .events = POLLIN};

	/* The event may be about the former user of this place in the table. */
	if (client->fd >= 0 && client->pidfd >= 0 && poll(&fd, 1, 0) == 1)
		client_drop(server, client);
}

static void event_dispatch(struct server *server, const struct epoll_event *event)
{
	uint32_t index = (uint32_t)event->data.u64;

	switch ((enum watch)(event->data.u64 >> 32)) {
	case WATCH_LISTENER:
		client_accept(server);
		break;
	case WATCH_CLIENT:
		client_event(server, &server->clients[index], event->events);
		break;
	case WATCH_PROCESS:
		process_event(server, &server->clients[index]);
		break;
	case WATCH_GROUP:
		gsi_port_receive(&server->gsi_ports[index]);
		break;
	}
}

/* Returns how many clients still wait. */
static uint32_t retry_waiting(struct server *server)
{
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		if (client->fd < 0 || !client->is_waiting)
			continue;
		if (!server_is_settled(server))
			waiting++;
		else if (!request_retry(server, client))
			client_drop(server, client);
		else if (client->is_waiting)
			waiting++;
		else
			client_rearm(server, client);
	}
	return waiting;
}

/* Milliseconds until something is due, or -1. */
static int next_timeout(const struct server *server, uint32_t waiting)
{
	uint64_t now = server_now_ms();
	uint64_t due = UINT64_MAX;

	if (waiting > 0)
		due = server->settled_at_ms;
	if (server->is_resting)
		due = min_u64(due, server->rests_until_ms);
	if (server->client_count == 0 && server->idle_ms > 0)
		due = min_u64(due, server->idle_since_ms + server->idle_ms);
	if (due == UINT64_MAX)
		return -1;
	return due > now ? (int)min_u64(due - now, INT32_MAX) : 0;
}

static bool is_idle(struct server *server)
{
	if (server->idle_ms == 0 || server->client_count > 0 ||
		server_now_ms() < server->idle_since_ms + server->idle_ms)
		return false;
	/* Whoever is just coming in is served. Later ones meet a closed door and start another. */
	while (client_accept(server))
		;
	return server->client_count == 0;
}

int server_run(struct server *server)
{
	struct epoll_event events[EVENTS_PER_TURN];

	for (;;) {
		uint32_t waiting = retry_waiting(server);
		int count;

		listener_wake(server);
		if (is_idle(server)) {
			log_line("no program is connected: leaving");
			return 0;
		}
		if (server->is_useless) {
			log_line("no program is connected and none can connect: leaving");
			return 0;
		}
		count = epoll_wait(
			server->epoll, events, EVENTS_PER_TURN, next_timeout(server, waiting));
		if (count < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < count; i++)
			event_dispatch(server, &events[i]);
	}
}

/* The fd store is new, and has none. */
static int ledger_begin(struct server *server)
{
	const struct fd_store_label label = {
		.version = AGENT_VERSION, .kind = FD_STORE_LEDGER, .count = 1};

	server->generation = 1;
	server->ledger = ledger_create(server->generation);
	return server->ledger < 0 ? server->ledger
				  : fd_store_put(server->fd_store, &label, &server->ledger);
}

int server_create(const struct server_settings *settings, struct server **ret_server)
{
	struct server *server = calloc(1, sizeof(*server));
	struct namespace_id name;
	int rc;

	if (!server)
		return -ENOMEM;
	server->is_system = settings->is_system;
	server->idle_ms = settings->idle_ms;
	server->sockets_max = settings->sockets_max;
	server->listener = settings->listener;
	name = namespace_id_own();
	server->netns = name.netns;
	server->host = name.host;
	server->fd_store = settings->fd_store;
	server->ledger = -1;
	server->idle_since_ms = server_now_ms();
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		server->clients[i].fd = -1;
	server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll < 0) {
		rc = -errno;
		goto fail_destroy;
	}
	rc = epoll_watch(server, EPOLL_CTL_ADD, server->listener, EPOLLIN, WATCH_LISTENER, 0);
	if (rc)
		goto fail_destroy;
	if (server->is_system)
		rc = relay_create(&server->relay);
	if (rc)
		goto fail_destroy;
	server->started_at_ms = server_now_ms();
	fd_store_adopt(server, server->fd_store);
	if (server->ledger < 0)
		rc = ledger_begin(server);
	if (rc)
		goto fail_destroy;
	server->has_survivors = !server->has_adopted && port_holder_has_survivors();
	server->settled_at_ms = server_now_ms() + SERVER_SETTLE_MS;
	server->is_successor = server->has_adopted || server->has_survivors;
	if (server->has_survivors)
		log_line("programs of an earlier urnicd are running: waiting for them");
	*ret_server = server;
	return 0;
fail_destroy:
	server_destroy(server);
	return rc;
}

void server_destroy(struct server *server)
{
	if (!server)
		return;
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		if (server->clients[i].fd >= 0)
			client_drop(server, &server->clients[i]);
	}
	for (uint32_t i = 0; i < server->group_count; i++) {
		gsi_port_close(&server->gsi_ports[i]);
		group_done(&server->groups[i]);
	}
	if (server->reserve >= 0)
		close(server->reserve);
	relay_destroy(server->relay);
	if (server->ledger >= 0)
		close(server->ledger);
	if (server->epoll >= 0)
		close(server->epoll);
	free(server);
}

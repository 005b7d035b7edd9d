/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: `lock`, the manager's; see lock_order.def. No thread waits for urnicd while it has the
 * lock, so other threads can set up connections during such a wait.
 *
 * Thread: one. It sleeps until a message arrives, a deadline is due, or another thread sets an
 * earlier deadline and writes to `kick`.
 */
#include "connection/nic_cm.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/gsi_socket.h"
#include "connection/nic_cm_ib.h"
#include "connection/nic_cm_manager.h"
#include "nic/nic_fabric.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "os/cancel.h"
#include "os/clock.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"

enum {
	SENDERS_MAX = 64, /* local addresses, each with a socket to send from */
	FDS_MAX = SENDERS_MAX + 2,
	MESSAGES_PER_TURN = 64,
	REOPEN_PAUSE_MS = 100, /* between attempts to reach a new urnicd */
};

struct manager {
	bool is_running;
	bool is_infiniband; /* messages come and go by nic_cm_ib.h; `gsi` is its descriptor */
	struct cm cm;
	uint8_t slot;
	const struct nic_cm_user *user;
	int gsi; /* socket to urnicd; used by the thread only */
	int kick; /* eventfd that ends the thread's sleep */
	uint64_t sleeps_until_ns; /* deadline that the thread waits for; 0: it is awake */
	uint32_t sender_count;
	struct gsi_socket senders[SENDERS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct manager manager;

/* --- sending --- */

static struct gsi_socket *sender_find(const struct agent_address *address)
{
	for (uint32_t i = 0; i < manager.sender_count; i++)
		if (agent_address_is_equal(&manager.senders[i].address, address))
			return &manager.senders[i];
	return NULL;
}

/* A packet that the kernel refuses counts as lost; the manager repeats its message (cm/cm.h). */
static void send_one(const struct cm_path *path, const uint8_t packet[GSI_PACKET_BYTES])
{
	struct agent_address address = agent_address_of(&path->local, path->ifindex);
	struct gsi_socket *sender = sender_find(&address);

	if (path->ib.port)
		nic_cm_ib_send(path, packet);
	else if (sender)
		gsi_socket_send(sender, &path->remote, path->traffic_class, packet);
}

void nic_cm_pump(void)
{
	uint8_t packet[GSI_PACKET_BYTES];
	struct cm_event event;
	struct cm_path path;

	while (cm_next_event(&manager.cm, &event))
		manager.user->on_event(&event);
	while (cm_next_packet(&manager.cm, &path, packet))
		send_one(&path, packet);
	nic.public->cm = manager.cm.counters;
	if (cm_deadline_ns(&manager.cm) < manager.sleeps_until_ns) {
		manager.sleeps_until_ns = 0;
		kick_raise(manager.kick);
	}
}

struct cm *nic_cm_enter(int *ret_cancel)
{
	*ret_cancel = cancel_forbid();
	pthread_mutex_lock(&lock);
	return &manager.cm;
}

void nic_cm_leave(int cancel)
{
	if (manager.is_running)
		nic_cm_pump();
	pthread_mutex_unlock(&lock);
	cancel_allow(cancel);
}

/* --- the thread --- */

static void receive_one(const struct agent_message *message, const uint8_t *packet)
{
	const struct agent_forward *head = &message->forward;
	const uint8_t *mad = gsi_packet_mad(packet, head->data_bytes);
	struct cm_path path = {
		.local = head->dgid,
		.remote = head->sgid,
		.ifindex = head->ifindex,
		.traffic_class = head->tos,
	};
	struct agent_address address;
	int cancel;

	if (!mad)
		return;
	address = agent_address_of(&path.local, path.ifindex);
	nic_cm_use_address(&address);
	cm_receive(nic_cm_enter(&cancel), &path, mad, clock_now_ns());
	nic_cm_leave(cancel);
}

/* Returns false when urnicd has closed the socket. */
static bool receive_all(void)
{
	static uint8_t packet[AGENT_PACKET_BYTES_MAX];
	struct passed_fds descriptors;
	struct agent_message message;

	for (unsigned i = 0; i < MESSAGES_PER_TURN; i++) {
		int rc = agent_message_receive(
			manager.gsi, false, &message, packet, &descriptors, MSG_DONTWAIT);

		if (rc == -EAGAIN)
			return true;
		if (rc)
			return false;
		passed_fds_close(&descriptors);
		if (message.type == AGENT_FORWARD)
			receive_one(&message, packet);
	}
	return true;
}

/* Replace the socket to urnicd. Returns 0 or -errno. */
static int gsi_replace(void)
{
	int fd, rc = nic_turn_begin();

	if (rc)
		return rc;
	rc = nic_agent_log(agent_client_gsi_open(&nic.agent, manager.slot, &fd));
	/*
	 * A fork() waits for nic_turn_end(), so the child finds the new descriptor in `gsi`, and
	 * closes it.
	 */
	if (!rc) {
		close(manager.gsi);
		manager.gsi = fd;
	}
	nic_turn_end();
	return rc;
}

/* urnicd has died: get a socket from the next one. */
static void gsi_reopen(void)
{
	if (!gsi_replace())
		return;
	own_thread_sleep();
	poll(NULL, 0, REOPEN_PAUSE_MS);
	own_thread_wake();
}

/*
 * Read the ICMP errors for messages of `sender`, and report them to the manager (cm/cm.h), which
 * may then end attempts to connect at once. The manager is locked.
 */
static void reports_take(struct gsi_socket *sender)
{
	uint8_t packet[GSI_PACKET_BYTES];
	struct cm_path path = {.local = sender->address.gid};
	int error;

	while ((error = gsi_socket_report(sender, &path.remote, packet)) >= 0) {
		const uint8_t *mad = gsi_packet_mad(packet, sizeof(packet));

		if (error == 0 || !mad)
			continue;
		cm_undeliverable(&manager.cm, &path, error == ECONNREFUSED, mad);
		nic_cm_pump();
	}
}

/*
 * Fill in the descriptors that the thread polls. It polls the senders for errors only. Returns the
 * number of descriptors. The manager is locked.
 */
static unsigned list_fds(struct pollfd fds[FDS_MAX])
{
	unsigned count = 0;

	fds[count++] = (struct pollfd){.fd = manager.gsi, .events = POLLIN};
	fds[count++] = (struct pollfd){.fd = manager.kick, .events = POLLIN};
	for (uint32_t i = 0; i < manager.sender_count; i++)
		fds[count++] = (struct pollfd){.fd = manager.senders[i].fd};
	return count;
}

static void deadlines_serve(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < manager.sender_count; i++)
		reports_take(&manager.senders[i]);
	while (cm_expire(&manager.cm, clock_now_ns()))
		nic_cm_pump();
	pthread_mutex_unlock(&lock);
}

static void infiniband_receive(void)
{
	pthread_mutex_lock(&lock);
	nic_cm_ib_receive(&manager.cm, nic_cm_pump);
	pthread_mutex_unlock(&lock);
}

static void *thread_main(void *unused)
{
	(void)unused;
	own_thread_wake();
	if (manager.is_infiniband)
		infiniband_receive(); /* from now on a message makes the descriptor readable */
	for (;;) {
		struct pollfd fds[FDS_MAX];
		unsigned count;
		int timeout_ms;

		pthread_mutex_lock(&lock);
		manager.sleeps_until_ns = cm_deadline_ns(&manager.cm);
		timeout_ms = clock_ms_until(manager.sleeps_until_ns);
		count = list_fds(fds);
		pthread_mutex_unlock(&lock);
		own_thread_poll(fds, count, timeout_ms);
		if (fds[1].revents)
			kick_clear(manager.kick);
		if (manager.is_infiniband)
			infiniband_receive();
		else if (fds[0].revents && !receive_all())
			gsi_reopen();
		deadlines_serve();
	}
	return NULL;
}

/* --- life --- */

/* If there is no memory for last messages, peers get none after the death of this process. */
static void last_messages_keep(void)
{
	uint64_t offset =
		arena_alloc(&nic.arena, CM_LAST_MESSAGES_MAX * sizeof(struct cm_last_message));

	if (!offset)
		return;
	cm_keep_last_messages(&manager.cm, arena_at(&nic.arena, offset), CM_LAST_MESSAGES_MAX);
	atomic_store_explicit(&nic.public->last_messages_offset, offset, memory_order_release);
	if (manager.is_infiniband)
		nic_fabric_gsi_keep_last_messages(offset);
}

static int numbers_begin(uint64_t guid)
{
	struct permutation *permutation = nic_permutation_draw();

	if (!permutation)
		return -ENOMEM;
	cm_init(&manager.cm, manager.slot, guid, permutation, nic_random_u64());
	free(permutation);
	return 0;
}

/* Set manager.slot and manager.gsi. Returns 0 or -errno. */
static int messages_open(uint8_t slot)
{
	int gsi = -1;
	int error;

	manager.slot = slot;
	manager.is_infiniband = nic_fabric_is_wanted();
	if (manager.is_infiniband) {
		error = nic_cm_ib_open(&manager.slot);
		manager.gsi = nic_cm_ib_fd();
		return error;
	}
	nic_request_enter();
	error = nic_agent_log(agent_client_gsi_open(&nic.agent, slot, &gsi));
	nic_request_leave(gsi);
	manager.gsi = gsi;
	return error;
}

static void messages_close(void)
{
	if (manager.is_infiniband)
		nic_cm_ib_forget(); /* the subnet's end stays open until the process ends */
	else
		close(manager.gsi);
}

/* The NIC is locked, and the caller has begun a request to urnicd (nic_request_begin()). */
static int manager_start(uint8_t slot, uint64_t guid, const struct nic_cm_user *user)
{
	int error = messages_open(slot);

	if (error)
		return error;
	manager.kick = kick_create("no connection manager");
	if (manager.kick < 0) {
		error = manager.kick;
		goto fail_close;
	}
	manager.user = user;
	manager.sleeps_until_ns = 0;
	error = numbers_begin(guid);
	if (error)
		goto fail_close_kick;
	last_messages_keep();
	error = own_thread_start(NULL, "urnic-cm", thread_main, NULL);
	if (error)
		goto fail_close_kick;
	manager.is_running = true;
	return 0;

fail_close_kick:
	close(manager.kick);
fail_close:
	messages_close();
	return error;
}

/* The NIC is locked; the call unlocks it while it waits for urnicd. */
static int manager_start_once(uint64_t guid, const struct nic_cm_user *user)
{
	struct worker *worker;
	int error = nic_start();

	if (!error)
		error = nic_worker_get(0, &worker);
	if (!error)
		error = nic_request_begin();
	if (error)
		return error;
	if (!manager.is_running)
		error = manager_start((uint8_t)worker->lane.slot, guid, user);
	nic_request_end();
	return error;
}

int nic_cm_start(uint64_t guid, const struct nic_cm_user *user)
{
	int error = 0;

	nic_enter();
	if (!manager.is_running)
		error = manager_start_once(guid, user);
	nic_leave();
	return error;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

static void fork_prepare_last(void)
{
	if (manager.is_running)
		manager.user->fork_prepare();
}

static void fork_parent(void)
{
	if (manager.is_running)
		manager.user->fork_parent();
	pthread_mutex_unlock(&lock);
}

static void fork_child(void)
{
	for (uint32_t i = 0; i < manager.sender_count; i++)
		gsi_socket_close(&manager.senders[i]);
	if (manager.is_running) {
		manager.user->fork_child();
		messages_close();
		close(manager.kick);
	}
	memset(&manager, 0, sizeof(manager));
	pthread_mutex_unlock(&lock);
}

const struct nic_part nic_cm_part = {
	.fork_prepare = fork_prepare,
	.fork_prepare_last = fork_prepare_last,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
};

uint64_t nic_cm_epoch(void)
{
	return nic_epoch;
}

uint32_t nic_cm_random_psn(void)
{
	return (uint32_t)nic_random_u64() & 0xffffff;
}

/* --- addresses and ports --- */

int nic_cm_use_address(const struct agent_address *address)
{
	int cancel = cancel_forbid();
	bool is_known;
	int rc = 0;

	if (nic_fabric_is_wanted()) {
		cancel_allow(cancel);
		return 0;
	}
	pthread_mutex_lock(&lock);
	is_known = sender_find(address) != NULL;
	pthread_mutex_unlock(&lock);
	if (!is_known)
		rc = nic_cm_receive_address(address);
	pthread_mutex_lock(&lock);
	if (rc == 0 && !sender_find(address)) {
		rc = manager.sender_count == SENDERS_MAX
			? -ENOSPC
			: gsi_socket_open(&manager.senders[manager.sender_count], address);
		if (rc == 0) {
			manager.sender_count++;
			kick_raise(manager.kick); /* so that the thread polls the new socket */
		}
	}
	pthread_mutex_unlock(&lock);
	cancel_allow(cancel);
	return rc;
}

int nic_cm_receive_address(const struct agent_address *address)
{
	int cancel = cancel_forbid();
	bool is_everywhere = nic_fabric_is_wanted();
	int rc = is_everywhere ? 0 : nic_turn_begin();

	if (!rc && !is_everywhere) {
		rc = nic_agent_log(agent_client_gsi_address(&nic.agent, address));
		nic_turn_end();
	}
	cancel_allow(cancel);
	return rc;
}

int nic_cm_claim(struct agent_claim *claim)
{
	int cancel = cancel_forbid();
	bool is_infiniband = nic_fabric_is_wanted();
	int rc = is_infiniband ? nic_cm_ib_claim(claim) : nic_turn_begin();

	if (!rc && !is_infiniband) {
		rc = agent_client_claim(&nic.agent, claim);
		/*
		 * Not logged: the errno tells the program that another program has the port, or
		 * that the address is not available.
		 */
		if (rc != -EADDRINUSE && rc != -EADDRNOTAVAIL)
			nic_agent_log(rc);
		nic_turn_end();
	}
	cancel_allow(cancel);
	return rc;
}

void nic_cm_unclaim(struct agent_claim *claim)
{
	int cancel = cancel_forbid();

	if (nic_fabric_is_wanted())
		nic_cm_ib_unclaim(claim);
	else
		nic_agent_unclaim(claim);
	cancel_allow(cancel);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/agent_client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent_start.h"
#include "agent/place.h"
#include "base/arith.h"
#include "os/clock.h"
#include "os/setting.h"

enum {
	/*
	 * While the queue of urnicd's socket is full. It empties it at once, unless it is stopped.
	 */
	CONNECT_WAIT_MS = 2000,
	CONNECT_PAUSE_MS = 5,
	/* urnicd may leave, idle, between our finding and asking it; not many times running. */
	CONNECT_ATTEMPTS_MAX = 8,
	/* Packets that may precede an answer before we call the connection broken. */
	ANSWER_MESSAGES_MAX = 4096,
};

static const int socket_none = -1;
static const uint64_t answer_timeout_ns = AGENT_ANSWER_TIMEOUT_S * 1000000000ull;

__attribute__((format(printf, 3, 4))) static int agent_client_fail(
	struct agent_client *client, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(client->why, sizeof(client->why), format, arguments);
	va_end(arguments);
	return error;
}

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = socket_none;
}

/* The end of a connection has several names. */
static bool is_gone(int rc)
{
	return rc == -ECONNRESET || rc == -EPIPE || rc == -ENOTCONN;
}

static int fail_version(struct agent_client *client, uint32_t version)
{
	struct ucred peer = {.pid = 0};
	socklen_t bytes = sizeof(peer);

	getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
	return agent_client_fail(client, -EPROTONOSUPPORT,
		"urnicd (process %d) is of another version of urnic (its protocol %u, ours %u): it "
		"leaves soon after the programs that use it have ended",
		peer.pid, version, AGENT_VERSION);
}

int agent_client_fail_silent(struct agent_client *client)
{
	char process[sizeof(" (process 4294967295)")] = "";

	/* It says so itself: the kernel only knows the process that has made its socket. */
	if (client->agent_pid)
		snprintf(process, sizeof(process), " (process %u)", client->agent_pid);
	return agent_client_fail(client, -ETIMEDOUT,
		"urnicd%s does not answer within %d seconds: it is stopped (kill -CONT) or overloaded "
		"(end it; running programs go on)",
		process, AGENT_ANSWER_TIMEOUT_S);
}

/* --- waiting --- */

static void pause_begin(const struct agent_client *client)
{
	if (client->pause)
		client->pause->begin();
}

static void pause_end(const struct agent_client *client)
{
	if (client->pause)
		client->pause->end();
}

/* Wait until the connection, or none (-1), has what is asked for. False: it is too late. */
static bool wait_for(const struct agent_client *client, int fd, short events, uint64_t until_ns)
{
	struct pollfd pollfd = {.fd = fd, .events = events};
	uint64_t now_ns = clock_now_ns();

	if (now_ns >= until_ns)
		return false;
	pause_begin(client);
	poll(&pollfd, 1, (int)div_ceil_u64(until_ns - now_ns, 1000000));
	pause_end(client);
	return true;
}

/* --- requests --- */

/* A message whose answer nobody waits for. What does not get through dies with the connection. */
static void agent_send_only(struct agent_client *client, struct agent_message *message)
{
	message->version = AGENT_VERSION;
	message->sequence = ++client->sequence;
	if (client->fd >= 0)
		agent_message_send(client->fd, message, NULL, NULL, 0, MSG_DONTWAIT);
}

/* The answer to a request that gave up: what it was given nobody has. */
static void late_answer(struct agent_client *client, const struct agent_message *answer)
{
	struct agent_message message = {.type = AGENT_DETACH, .detach.slot = answer->attach.slot};

	if (answer->type == AGENT_ATTACH && !answer->status &&
		!agent_slots_has(&client->slots, (uint8_t)answer->attach.slot))
		agent_send_only(client, &message);
}

/* Receive until the answer to the request is there, which is in `message`. */
static int await_answer(struct agent_client *client, struct agent_message *message,
	struct passed_fds *descriptors, uint64_t until_ns)
{
	const uint32_t type = message->type, sequence = message->sequence;
	uint8_t packet[AGENT_PACKET_BYTES_MAX];

	for (unsigned i = 0; i < ANSWER_MESSAGES_MAX;) {
		int rc = agent_message_receive(
			client->fd, false, message, packet, descriptors, MSG_DONTWAIT);

		if (rc == -EAGAIN && wait_for(client, client->fd, POLLIN, until_ns))
			continue;
		client->is_silent = rc == -EAGAIN;
		if (rc == -EAGAIN)
			return agent_client_fail_silent(client);
		if (is_gone(rc))
			return agent_client_fail(
				client, -ECONNRESET, "urnicd closed the connection");
		if (rc == -EMFILE)
			return agent_client_fail(
				client, rc, "too many open files: raise the limit (ulimit -n)");
		if (rc == -EPROTONOSUPPORT)
			return fail_version(client, message->version);
		if (rc)
			return agent_client_fail(client, rc, "urnicd does not speak our protocol");
		if (message->type == type && message->sequence == sequence)
			return 0;
		passed_fds_close(descriptors);
		if (message->type == AGENT_FORWARD)
			client->forwards_dropped++;
		else
			late_answer(client, message);
		i++;
	}
	return agent_client_fail(client, -EPROTO, "urnicd sends packets but no answer");
}

/* A message that a child sends. */
struct pass {
	int fd;
	const struct agent_message *message;
	const int *fds;
	uint32_t fd_count;
	int rc;
};

static int pass_past_limit(void *context)
{
	struct pass *pass = context;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
		pass->rc = agent_message_send(
			pass->fd, pass->message, NULL, pass->fds, pass->fd_count, MSG_DONTWAIT);
	return 0;
}

/*
 * The kernel refused: more descriptors of this user's are under way in messages than this program
 * may open. Mostly they are in urnicds' fd stores, one for each network namespace. The program's limit
 * is mostly low only until the program asks for more. That is for the program to decide; so a child
 * asks for more, and sends.
 */
static int send_past_limit(struct agent_client *client, const struct agent_message *message,
	const int *fds, uint32_t fd_count)
{
	struct pass pass = {client->fd, message, fds, fd_count, -ETOOMANYREFS};

	agent_in_child(pass_past_limit, &pass);
	return pass.rc;
}

static int request_send(struct agent_client *client, const struct agent_message *message,
	const int *fds, uint32_t fd_count, uint64_t until_ns)
{
	int rc;

	do {
		rc = agent_message_send(client->fd, message, NULL, fds, fd_count, MSG_DONTWAIT);
		if (rc == -ETOOMANYREFS)
			rc = send_past_limit(client, message, fds, fd_count);
	} while (rc == -EAGAIN && wait_for(client, client->fd, POLLOUT, until_ns));
	return rc;
}

/* One request and its answer, on the connection that there is. */
static int exchange_within(struct agent_client *client, struct agent_message *message,
	const int *fds, uint32_t fd_count, struct passed_fds *descriptors, uint64_t timeout_ns)
{
	uint64_t until_ns = clock_now_ns() + timeout_ns;
	int rc;

	message->version = AGENT_VERSION;
	message->sequence = ++client->sequence;
	message->status = 0;
	rc = request_send(client, message, fds, fd_count, until_ns);
	if (rc == -EAGAIN)
		return agent_client_fail_silent(client);
	if (is_gone(rc))
		return agent_client_fail(client, -ECONNRESET, "urnicd closed the connection");
	if (rc == -ETOOMANYREFS)
		return agent_client_fail(client, rc,
			"this program may not pass descriptors: raise its limit on open files "
			"(ulimit -n)");
	if (rc)
		return agent_client_fail(client, rc, "cannot send to urnicd: %s", strerror(-rc));
	rc = await_answer(client, message, descriptors, until_ns);
	if (rc)
		return rc;
	if (message->status != 0) {
		passed_fds_close(descriptors);
		return agent_client_fail(client, -message->status, "%s", message->why);
	}
	return 0;
}

static int agent_exchange(struct agent_client *client, struct agent_message *message,
	const int *fds, uint32_t fd_count, struct passed_fds *descriptors)
{
	return exchange_within(client, message, fds, fd_count, descriptors, answer_timeout_ns);
}

/* A dead urnicd has forgotten all that it gave, and what we do not claim again is free. */
static void give_back(struct agent_client *client, struct agent_message *message)
{
	struct passed_fds descriptors;

	if (client->fd < 0 || client->is_silent)
		agent_send_only(client, message);
	else if (!exchange_within(
			 client, message, NULL, 0, &descriptors, AGENT_GIVE_BACK_MS * 1000000ull))
		passed_fds_close(&descriptors);
}

/* A request that outlives one death of urnicd. */
static int agent_exchange_or_resume(struct agent_client *client, struct agent_message *message,
	const int *fds, uint32_t fd_count, struct passed_fds *descriptors)
{
	struct agent_message copy = *message;
	int rc = client->fd < 0 ? -ECONNRESET
				: agent_exchange(client, message, fds, fd_count, descriptors);

	if (rc != -ECONNRESET)
		return rc;
	rc = agent_client_resume(client);
	if (rc)
		return rc;
	*message = copy;
	return agent_exchange(client, message, fds, fd_count, descriptors);
}

/* Make the connection what agent_client_fd() is about. */
static int connection_watch(struct agent_client *client)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (client->watcher < 0)
		client->watcher = epoll_create1(EPOLL_CLOEXEC);
	if (client->watcher < 0 ||
		epoll_ctl(client->watcher, EPOLL_CTL_ADD, client->fd, &event) != 0)
		return agent_client_fail(
			client, -errno, "cannot watch urnicd: %s", strerror(errno));
	return 0;
}

/*
 * A copy of the connection in a forked child would keep the dead one in the watcher: take it out.
 */
static void connection_close(struct agent_client *client)
{
	if (client->fd >= 0 && client->watcher >= 0)
		epoll_ctl(client->watcher, EPOLL_CTL_DEL, client->fd, NULL);
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

/* place_connect(), that lets go of the caller's lock while the queue is full. */
static int place_connect_patiently(struct agent_client *client, enum place_whose whose, char *path)
{
	uint64_t until_ns = clock_now_ns() + CONNECT_WAIT_MS * 1000000ull;
	uint64_t now_ns = 0;
	int rc;

	do {
		rc = place_connect(PLACE_URNICD, whose, 0, path);
		if (rc != -ETIMEDOUT)
			return rc;
		now_ns = clock_now_ns();
		wait_for(client, -1, 0, now_ns + CONNECT_PAUSE_MS * 1000000ull);
	} while (now_ns < until_ns);
	return rc;
}

/* Connect to one urnicd. -ECONNREFUSED: none runs that can be trusted. */
static int connect_to(struct agent_client *client, enum place_whose whose)
{
	struct agent_message message = {.type = AGENT_HELLO};
	struct passed_fds descriptors;
	char path[PLACE_PATH_BYTES];
	int rc = place_connect_patiently(client, whose, path);

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
	/* The system's urnicd, if there is one, shares port 4791 among all users. */
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
	pause_begin(client);
	rc = agent_start(path);
	pause_end(client);
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
	/* A forked child may still hold the connection: end it for all. */
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

int agent_client_attach(struct agent_client *client, int memory, uint8_t *ret_slot)
{
	struct agent_message message = {.type = AGENT_ATTACH};
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(
		client, &message, &memory, memory >= 0 ? 1 : 0, &descriptors);

	if (rc)
		return rc;
	passed_fds_close(&descriptors);
	if (memory >= 0)
		client->memory = memory;
	*ret_slot = (uint8_t)message.attach.slot;
	agent_slots_add(&client->slots, *ret_slot);
	agent_slots_remove(&client->lost, *ret_slot);
	return 0;
}

/* A number from elsewhere may name slot 0; urnicd would cut off who asks for it. */
static int no_process(struct agent_client *client)
{
	return agent_client_fail(client, -ENOENT, "slot 0 is urnicd's own");
}

void agent_client_detach(struct agent_client *client, uint8_t slot)
{
	struct agent_message message = {.type = AGENT_DETACH, .detach.slot = slot};

	if (!agent_slots_has(&client->slots, slot))
		return;
	agent_slots_remove(&client->slots, slot);
	give_back(client, &message);
}

/* A request that is answered with a socket, which is the caller's. */
static int request_socket(
	struct agent_client *client, struct agent_message *message, int *ret_socket)
{
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(client, message, NULL, 0, &descriptors);
	int fd;

	if (rc)
		return rc;
	fd = passed_fds_take(&descriptors, 0);
	passed_fds_close(&descriptors);
	if (fd < 0)
		return agent_client_fail(client, -EMFILE,
			"the socket from urnicd did not arrive: too many open files");
	*ret_socket = fd;
	return 0;
}

int agent_client_open(struct agent_client *client, uint8_t slot,
	const struct agent_address *address, int *ret_socket)
{
	struct agent_message message = {
		.type = AGENT_OPEN,
		.open = {.address = *address, .slot = slot},
	};

	return request_socket(client, &message, ret_socket);
}

int agent_client_forward(
	struct agent_client *client, const struct agent_forward *head, const uint8_t *data)
{
	struct agent_message message = {
		.version = AGENT_VERSION,
		.type = AGENT_FORWARD,
		.forward = *head,
	};

	if (client->fd < 0)
		return -ENOTCONN;
	if (head->data_bytes > AGENT_PACKET_BYTES_MAX)
		return -EMSGSIZE;
	return agent_message_send(client->fd, &message, data, NULL, 0, MSG_DONTWAIT);
}

int agent_client_receive(struct agent_client *client, struct agent_packet *ret_packet)
{
	struct passed_fds descriptors;
	struct agent_message message;
	int rc;

	if (client->fd < 0)
		return -ECONNRESET;
	for (unsigned i = 0; i < ANSWER_MESSAGES_MAX; i++) {
		rc = agent_message_receive(
			client->fd, false, &message, ret_packet->data, &descriptors, MSG_DONTWAIT);
		if (rc == -EAGAIN)
			return rc;
		if (rc)
			return -ECONNRESET;
		client->is_silent = false;
		passed_fds_close(&descriptors);
		if (message.type == AGENT_FORWARD) {
			ret_packet->head = message.forward;
			return 0;
		}
		late_answer(client, &message);
	}
	return -EAGAIN;
}

bool agent_client_has_ended(const struct agent_client *client)
{
	char byte;

	return client->fd < 0 || recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/*
 * Claim what we held before. The old fd store is what a new urnicd needs to know the sockets of its
 * predecessor.
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
		}
	}
	return 0;
}

static void claim_message(const struct agent_claim *claim, struct agent_message *ret_message)
{
	*ret_message = (struct agent_message){
		.type = AGENT_CLAIM,
		.claim =
			{
				.service_id = claim->service_id,
				.address = claim->address,
				.id = claim->id,
				.flags = claim->flags,
			},
	};
}

static struct agent_claim *claim_find(const struct agent_client *client, uint32_t id)
{
	list_for_each(claim, &client->claims, struct agent_claim, node)
		if (claim->id == id)
			return claim;
	return NULL;
}

static struct agent_claim *claim_unrepeated(const struct agent_client *client)
{
	list_for_each(claim, &client->claims, struct agent_claim, node)
		if (!claim->is_repeated)
			return claim;
	return NULL;
}

/*
 * A new urnicd does not know what we had claimed. The process that comes first has the port.
 * Another thread may give a claim back while this one waits: then urnicd is told after the claim.
 */
static int claims_repeat(struct agent_client *client)
{
	struct agent_claim *claim;

	list_for_each(each, &client->claims, struct agent_claim, node)
		each->is_repeated = false;
	while ((claim = claim_unrepeated(client))) {
		struct passed_fds descriptors;
		struct agent_message message;
		uint32_t id = claim->id;
		int rc;

		claim->is_repeated = true;
		claim_message(claim, &message);
		rc = agent_exchange(client, &message, NULL, 0, &descriptors);
		if (rc == -ECONNRESET || rc == -ETIMEDOUT)
			return rc;
		claim = claim_find(client, id);
		if (claim)
			claim->is_lost = rc != 0;
		if (rc == 0)
			passed_fds_close(&descriptors);
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
		rc = claims_repeat(client);
	if (rc) {
		/* The old fd store is still the one that we depend on. */
		connection_close(client);
		close_if_open(&client->fd_store);
		client->fd_store = client->old_fd_store;
		client->old_fd_store = socket_none;
		return rc;
	}
	close_if_open(&client->old_fd_store);
	return 0;
}

void agent_process_found(const struct agent_message *answer, struct passed_fds *descriptors,
	struct agent_process *ret_process)
{
	*ret_process = (struct agent_process){
		.pid = answer->find.pid,
		.uid = answer->find.uid,
		.memory = passed_fds_take(descriptors, 0),
	};
	passed_fds_close(descriptors);
}

int agent_client_list(
	struct agent_client *client, uint32_t *index, struct agent_process *ret_process)
{
	struct agent_message message = {.type = AGENT_LIST, .list.index = *index};
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(client, &message, NULL, 0, &descriptors);

	if (rc)
		return rc;
	*index = message.list.index;
	*ret_process = (struct agent_process){
		.pid = message.list.pid,
		.uid = message.list.uid,
		.slots = message.list.slots,
		.memory = passed_fds_take(&descriptors, 0),
	};
	memcpy(ret_process->comm, message.list.comm, sizeof(ret_process->comm));
	passed_fds_close(&descriptors);
	return 0;
}

int agent_client_find(struct agent_client *client, uint8_t slot, struct agent_process *ret_process)
{
	struct agent_message message = {.type = AGENT_FIND, .find.slot = slot};
	struct passed_fds descriptors;
	int rc = slot ? agent_exchange_or_resume(client, &message, NULL, 0, &descriptors)
		      : no_process(client);

	if (rc)
		return rc;
	agent_process_found(&message, &descriptors, ret_process);
	return 0;
}

int agent_client_stat(struct agent_client *client, struct agent_counters *ret_counters)
{
	struct agent_message message = {.type = AGENT_STAT};
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(client, &message, NULL, 0, &descriptors);

	if (rc)
		return rc;
	passed_fds_close(&descriptors);
	*ret_counters = message.stat;
	return 0;
}

int agent_client_gsi_open(struct agent_client *client, uint8_t slot, int *ret_socket)
{
	struct agent_message message = {.type = AGENT_GSI_OPEN, .gsi_open.slot = slot};

	return request_socket(client, &message, ret_socket);
}

int agent_client_gsi_address(struct agent_client *client, const struct agent_address *address)
{
	struct agent_message message = {.type = AGENT_GSI_ADDRESS, .gsi_address.address = *address};
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(client, &message, NULL, 0, &descriptors);

	if (rc == 0)
		passed_fds_close(&descriptors);
	return rc;
}

static void unclaim_tell(struct agent_client *client, uint32_t id)
{
	struct agent_message message = {.type = AGENT_UNCLAIM, .unclaim.id = id};

	agent_send_only(client, &message);
}

int agent_client_claim(struct agent_client *client, struct agent_claim *claim)
{
	struct passed_fds descriptors;
	struct agent_message message;
	bool is_new = claim->id == 0;
	int rc;

	if (is_new) {
		claim->id = ++client->claims_made;
		list_init(&claim->node);
	}
	claim_message(claim, &message);
	rc = agent_exchange_or_resume(client, &message, NULL, 0, &descriptors);
	if (rc) {
		/* urnicd may do it later. */
		if (is_new && rc == -ETIMEDOUT)
			unclaim_tell(client, claim->id);
		if (is_new)
			claim->id = 0;
		return rc;
	}
	passed_fds_close(&descriptors);
	claim->service_id = message.claim.service_id;
	if (is_new)
		list_append(&client->claims, &claim->node);
	return 0;
}

void agent_client_unclaim(struct agent_client *client, struct agent_claim *claim)
{
	struct agent_message message = {.type = AGENT_UNCLAIM, .unclaim.id = claim->id};

	if (claim->id == 0)
		return;
	list_remove(&claim->node);
	claim->id = 0;
	give_back(client, &message);
}

void agent_client_unclaim_unanswered(struct agent_client *client, struct agent_claim *claim)
{
	if (claim->id == 0)
		return;
	list_remove(&claim->node);
	unclaim_tell(client, claim->id);
	claim->id = 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/agent_exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "agent/agent_start.h"
#include "os/clock.h"

static const uint64_t answer_timeout_ns = AGENT_ANSWER_TIMEOUT_S * 1000000000ull;

int agent_client_fail(struct agent_client *client, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(client->why, sizeof(client->why), format, arguments);
	va_end(arguments);
	return error;
}

/* The kernel reports the end of a connection as one of several errors. */
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

	/*
	 * agent_pid comes from HELLO. SO_PEERCRED would name the process that began to listen,
	 * which may be the parent of the present urnicd.
	 */
	if (client->agent_pid)
		snprintf(process, sizeof(process), " (process %u)", client->agent_pid);
	return agent_client_fail(client, -ETIMEDOUT,
		"urnicd%s does not answer within %d seconds: it is stopped (kill -CONT) or overloaded "
		"(end it; running programs go on)",
		process, AGENT_ANSWER_TIMEOUT_S);
}

/* --- waiting --- */

void agent_pause_begin(const struct agent_client *client)
{
	if (client->pause)
		client->pause->begin();
}

void agent_pause_end(const struct agent_client *client)
{
	if (client->pause)
		client->pause->end();
}

bool agent_wait_for(const struct agent_client *client, int fd, short events, uint64_t until_ns)
{
	struct pollfd pollfd = {.fd = fd, .events = events};
	int timeout_ms = clock_ms_until(until_ns);

	if (!timeout_ms)
		return false;
	agent_pause_begin(client);
	poll(&pollfd, 1, timeout_ms);
	agent_pause_end(client);
	return true;
}

/* --- requests --- */

void agent_send_only(struct agent_client *client, struct agent_message *message)
{
	message->version = AGENT_VERSION;
	message->sequence = ++client->sequence;
	if (client->fd >= 0)
		agent_message_send(client->fd, message, NULL, NULL, 0, MSG_DONTWAIT);
}

void agent_late_answer(struct agent_client *client, const struct agent_message *answer)
{
	struct agent_message message = {.type = AGENT_DETACH, .detach.slot = answer->attach.slot};

	if (answer->type == AGENT_ATTACH && !answer->status &&
		!agent_slots_has(&client->slots, (uint8_t)answer->attach.slot))
		agent_send_only(client, &message);
}

/* Receive until the answer to the request in `message` arrives, and store it in `message`. */
static int await_answer(struct agent_client *client, struct agent_message *message,
	struct passed_fds *descriptors, uint64_t until_ns)
{
	const uint32_t type = message->type, sequence = message->sequence;
	uint8_t packet[AGENT_PACKET_BYTES_MAX];

	for (unsigned i = 0; i < ANSWER_MESSAGES_MAX;) {
		int rc = agent_message_receive(
			client->fd, false, message, packet, descriptors, MSG_DONTWAIT);

		if (rc == -EAGAIN && agent_wait_for(client, client->fd, POLLIN, until_ns))
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
		/* A packet (AGENT_FORWARD) that arrives during the wait is dropped here. */
		agent_late_answer(client, message);
		i++;
	}
	return agent_client_fail(client, -EPROTO, "urnicd sends packets but no answer");
}

/* A message that a child process sends for this one, and the result `rc`. */
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
 * A program cannot pass a descriptor while more descriptors of its user are in messages than the
 * program may open. Most of these lie in the fd stores of urnicds, one per network namespace. The
 * program's soft limit must not change, so a child raises its own limit and sends the message.
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
	} while (rc == -EAGAIN && agent_wait_for(client, client->fd, POLLOUT, until_ns));
	return rc;
}

/* Send one request and receive its answer, within `timeout_ns`. */
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

int agent_exchange(struct agent_client *client, struct agent_message *message, const int *fds,
	uint32_t fd_count, struct passed_fds *descriptors)
{
	return exchange_within(client, message, fds, fd_count, descriptors, answer_timeout_ns);
}

/*
 * If urnicd has died, no message is needed: the next urnicd takes each resource as free that this
 * client does not resume.
 */
void agent_give_back(struct agent_client *client, struct agent_message *message)
{
	struct passed_fds descriptors;

	if (client->fd < 0 || client->is_silent)
		agent_send_only(client, message);
	else if (!exchange_within(
			 client, message, NULL, 0, &descriptors, AGENT_GIVE_BACK_MS * 1000000ull))
		passed_fds_close(&descriptors);
}

int agent_exchange_or_resume(struct agent_client *client, struct agent_message *message,
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

int agent_request(struct agent_client *client, struct agent_message *message, const int *fds,
	uint32_t fd_count)
{
	struct passed_fds descriptors;
	int rc = agent_exchange_or_resume(client, message, fds, fd_count, &descriptors);

	if (!rc)
		passed_fds_close(&descriptors);
	return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The control connection to a fabric's process: questions and answers. */
#include "fabricd/client/fabric_client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/place.h"
#include "fabricd/client/fabric_client_internal.h"
#include "fabricd/fabric_name.h"
#include "os/fd_pass.h"

enum { CONNECT_WAIT_MS = 5000 };

/* --- questions and answers --- */

/* Send a message with a descriptor. -1: without one. */
static int message_send(int socket, struct attach_message *message, int descriptor)
{
	struct iovec piece = {message, sizeof(*message)};

	message->version = ATTACH_VERSION;
	return fd_pass_send(socket, &piece, 1, &descriptor, descriptor >= 0, 0);
}

static int message_receive(int socket, struct attach_message *message, struct passed_fds *fds)
{
	struct iovec piece = {message, sizeof(*message)};
	int flags;
	ssize_t bytes = fd_pass_receive(socket, &piece, 1, ATTACH_DESCRIPTORS_MAX, fds, &flags, 0);

	if (bytes < 0)
		return (int)bytes;
	if (bytes == 0)
		return -ECONNRESET;
	message->text[sizeof(message->text) - 1] = '\0';
	if (bytes == sizeof(*message) && message->version == ATTACH_VERSION &&
		!(flags & MSG_CTRUNC))
		return 0;
	passed_fds_close(fds);
	return -EPROTO;
}

static int ask_locked(struct fabric_client *client, struct attach_message *message, int descriptor,
	struct passed_fds *ret_fds)
{
	uint32_t type = message->type;
	int rc = message_send(client->socket, message, descriptor);

	if (rc == 0)
		rc = message_receive(client->socket, message, ret_fds);
	if (rc) {
		snprintf(message->text, sizeof(message->text), "the fabric does not answer: %s",
			strerror(-rc));
		return rc;
	}
	if (message->type == type && message->status == 0)
		return 0;
	passed_fds_close(ret_fds);
	return message->type != type || message->status < 0 ? -EPROTO : -message->status;
}

static int message_exchange(struct fabric_client *client, struct attach_message *message,
	int descriptor, struct passed_fds *ret_fds)
{
	int rc;

	pthread_mutex_lock(&client->lock);
	rc = ask_locked(client, message, descriptor, ret_fds);
	pthread_mutex_unlock(&client->lock);
	return rc;
}

int fabric_client_give(struct fabric_client *client, struct attach_message *message, int descriptor)
{
	struct passed_fds fds = {0};
	int rc = message_exchange(client, message, descriptor, &fds);

	if (rc == 0)
		passed_fds_close(&fds);
	return rc;
}

int fabric_client_ask(struct fabric_client *client, struct attach_message *message,
	int *ret_descriptors, uint32_t count)
{
	struct passed_fds fds = {0};
	int rc = message_exchange(client, message, -1, &fds);

	if (rc)
		return rc;
	if (fds.count != count) {
		passed_fds_close(&fds);
		return -EPROTO;
	}
	for (uint32_t i = 0; i < count; i++)
		ret_descriptors[i] = passed_fds_take(&fds, i);
	return 0;
}

/* --- connections --- */

static struct fabric_client *client_create(int socket)
{
	struct fabric_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->socket = socket;
	pthread_mutex_init(&client->lock, NULL);
	return client;
}

static int client_hello(struct fabric_client *client, const char *node, char why[ATTACH_TEXT_BYTES])
{
	struct attach_message message = {.type = ATTACH_HELLO};
	int rc;

	snprintf(message.text, sizeof(message.text), "%s", node);
	rc = fabric_client_ask(client, &message, NULL, 0);
	if (rc == 0) {
		client->node = message.node;
		client->node.name[ATTACH_NAME_BYTES - 1] = '\0';
		return 0;
	}
	if (rc == -EPROTO)
		snprintf(
			why, ATTACH_TEXT_BYTES, "the fabric's process is another version of urnic");
	else
		memcpy(why, message.text, ATTACH_TEXT_BYTES);
	return rc;
}

int fabric_client_open(
	const char *place, struct fabric_client **ret_client, char why[ATTACH_TEXT_BYTES])
{
	struct fabric_place parsed;
	char path[PLACE_PATH_BYTES];
	struct fabric_client *client;
	int socket, rc;

	*why = '\0';
	if (fabric_place_parse(place, &parsed) < 0) {
		snprintf(why, ATTACH_TEXT_BYTES, "a node is named as [FABRIC:]NODE");
		return -EINVAL;
	}
	socket = place_connect_as(
		PLACE_FABRIC, fabric_name_number(parsed.fabric), PLACE_OWN, CONNECT_WAIT_MS, path);
	if (socket < 0) {
		snprintf(why, ATTACH_TEXT_BYTES, "no fabric \"%s\" runs: %s", parsed.fabric,
			strerror(-socket));
		return socket;
	}
	client = client_create(socket);
	if (!client) {
		snprintf(why, ATTACH_TEXT_BYTES, "no memory");
		close(socket);
		return -ENOMEM;
	}
	rc = client_hello(client, parsed.node, why);
	if (rc)
		fabric_client_close(client);
	else
		*ret_client = client;
	return rc;
}

int fabric_client_open_node(
	const char *place, struct fabric_client **ret_client, char why[ATTACH_TEXT_BYTES])
{
	struct fabric_client *client;
	int rc = fabric_client_open(place, &client, why);

	if (rc)
		return rc;
	if (client->node.index == UINT32_MAX) {
		snprintf(why, ATTACH_TEXT_BYTES, "\"%s\" names no node", place);
		fabric_client_close(client);
		return -EINVAL;
	}
	*ret_client = client;
	return 0;
}

void fabric_client_close(struct fabric_client *client)
{
	if (!client)
		return;
	close(client->socket);
	pthread_mutex_destroy(&client->lock);
	free(client);
}

void fabric_client_forget(struct fabric_client *client)
{
	if (!client)
		return;
	close(client->socket);
	free(client);
}

const struct attach_node *fabric_client_node(const struct fabric_client *client)
{
	return &client->node;
}

int fabric_client_port(struct fabric_client *client, uint32_t port, struct attach_port *ret_port)
{
	struct attach_message message = {.type = ATTACH_PORT, .port.number = port};
	int rc = fabric_client_ask(client, &message, NULL, 0);

	if (rc)
		return rc;
	if (message.port.info.pkey_count > ATTACH_PKEYS_MAX ||
		message.port.info.guid_count > ATTACH_GUIDS_MAX)
		return -EPROTO;
	*ret_port = message.port.info;
	return 0;
}

int fabric_client_counters(
	struct fabric_client *client, uint32_t port, struct attach_counters *ret_counters)
{
	struct attach_message message = {.type = ATTACH_COUNTERS, .counters.port = port};
	int rc = fabric_client_ask(client, &message, NULL, 0);

	if (rc == 0)
		*ret_counters = message.counters.values;
	return rc;
}

int fabric_client_events(struct fabric_client *client)
{
	struct attach_message message = {.type = ATTACH_EVENTS_OPEN};
	int socket;
	int rc = fabric_client_ask(client, &message, &socket, 1);

	return rc ? rc : socket;
}

static int ask_of_membership(struct fabric_client *client, enum attach_message_type type,
	uint32_t port, const struct gid *mgid, uint8_t join_state)
{
	struct attach_message message = {.type = type};

	message.frames.port = port;
	message.frames.mgid = *mgid;
	message.frames.join_state = join_state;
	return fabric_client_ask(client, &message, NULL, 0);
}

int fabric_client_group_hold(
	struct fabric_client *client, uint32_t port, const struct gid *mgid, uint8_t join_state)
{
	return ask_of_membership(client, ATTACH_GROUP_HOLD, port, mgid, join_state);
}

int fabric_client_group_release(
	struct fabric_client *client, uint32_t port, const struct gid *mgid, uint8_t join_state)
{
	return ask_of_membership(client, ATTACH_GROUP_RELEASE, port, mgid, join_state);
}

int fabric_client_issm_path(
	struct fabric_client *client, uint32_t port, char ret_path[ATTACH_TEXT_BYTES])
{
	struct attach_message message = {.type = ATTACH_ISSM_PATH, .port.number = port};
	int rc = fabric_client_ask(client, &message, NULL, 0);

	if (rc == 0)
		memcpy(ret_path, message.text, ATTACH_TEXT_BYTES);
	return rc;
}

/* Read a whole file from its beginning, as a string. */
static int file_read(int fd, char **ret_text)
{
	struct stat status;
	char *text;
	size_t at = 0;

	if (fstat(fd, &status) < 0)
		return -errno;
	text = malloc((size_t)status.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (at < (size_t)status.st_size) {
		ssize_t bytes = pread(fd, text + at, (size_t)status.st_size - at, (off_t)at);

		if (bytes <= 0)
			break;
		at += (size_t)bytes;
	}
	text[at] = '\0';
	*ret_text = text;
	return 0;
}

int fabric_client_console(struct fabric_client *client, const char *command, char **ret_text,
	char why[ATTACH_TEXT_BYTES])
{
	struct attach_message message = {.type = ATTACH_CONSOLE};
	int fd, rc;

	*why = '\0';
	if (strlen(command) >= sizeof(message.text)) {
		snprintf(why, ATTACH_TEXT_BYTES, "the command is too long");
		return -EINVAL;
	}
	snprintf(message.text, sizeof(message.text), "%s", command);
	rc = fabric_client_ask(client, &message, &fd, 1);
	if (rc) {
		memcpy(why, message.text, ATTACH_TEXT_BYTES);
		return rc;
	}
	rc = file_read(fd, ret_text);
	close(fd);
	return rc;
}

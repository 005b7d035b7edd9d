/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients of a fabric's process that send anything: requests, MADs, memfds of any kind, frames, and
 * rings with any indices. The process goes on, and forgets each client with its connection.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/place.h"
#include "cm/cm.h"
#include "fabricd/attach_protocol.h"
#include "fabricd/console/console.h"
#include "fabricd/fabric_name.h"
#include "fabricd/server/fabric_server.h"
#include "os/fd_pass.h"

enum {
	STEP_BYTES = 8,
	SOCKETS_MAX = 8,
	CHANNELS_MAX = 4,
	STEPS_MAX = 256,
	TURNS = 70,
	MESSAGES = 64, /* last messages in a memfd */
	DESCRIPTORS_MAX = 256,
};

static struct fabric_server *server;
static char name[32];

static struct {
	int control;
	int sockets[SOCKETS_MAX];
	uint32_t socket_count;
	struct attach_frames *channels[CHANNELS_MAX];
	uint32_t channel_count;
} client;

static void server_end(void)
{
	fabric_server_destroy(server);
}

static void server_begin(void)
{
	static const char text[] = "Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n\n"
				   "Ca 1 \"a\"\n\nCa 1 \"b\"\n";
	struct fabric_server_settings settings = {.name = name, .console = console_run};
	struct subnet_topology *topology;
	char why[TOPOLOGY_WHY_BYTES];
	uint32_t line;

	snprintf(name, sizeof(name), "fuzz-%d", getpid());
	if (subnet_topology_read(text, sizeof(text) - 1, &topology, &line, why) ||
		fabric_server_create(&settings, topology, &server, why))
		abort();
	subnet_topology_destroy(topology);
	atexit(server_end);
}

static void server_run(void)
{
	/* Not each turn looks at descriptors. */
	for (unsigned i = 0; i < TURNS; i++)
		if (fabric_server_turn(server) < 0)
			abort();
}

static void fds_keep(struct passed_fds *fds, uint32_t type)
{
	int fd;

	if ((type == ATTACH_FRAMES_OPEN || type == ATTACH_HOST_TAKE) &&
		fds->count == ATTACH_CHANNEL_DESCRIPTORS && client.channel_count < CHANNELS_MAX) {
		void *shared = mmap(NULL, sizeof(struct attach_frames), PROT_READ | PROT_WRITE,
			MAP_SHARED, fds->fds[0], 0);

		if (shared == MAP_FAILED)
			abort();
		client.channels[client.channel_count++] = shared;
	} else if (fds->count == 1 && client.socket_count < SOCKETS_MAX) {
		fd = passed_fds_take(fds, 0);
		client.sockets[client.socket_count++] = fd;
	}
	passed_fds_close(fds);
}

/* Read answers, and keep what they bring. */
static void answers_read(void)
{
	struct attach_message message;
	struct iovec piece = {&message, sizeof(message)};
	struct passed_fds fds;
	int flags;

	while (fd_pass_receive(client.control, &piece, 1, ATTACH_DESCRIPTORS_MAX, &fds, &flags,
		       MSG_DONTWAIT) > 0)
		fds_keep(&fds, message.type);
}

static void last_messages_write(int fd, const uint8_t *step)
{
	static const uint32_t attributes[] = {CM_REJ, CM_DREQ, CM_DREP, CM_REQ};
	struct cm_last_message messages[MESSAGES];

	memset(messages, step[3], sizeof(messages));
	for (unsigned i = 0; i < MESSAGES; i++) {
		messages[i].attribute = attributes[step[2] % 4];
		messages[i].local_comm_id = (1u + i % 3) << ATTACH_LEASE_COMM_ID_SHIFT | step[3];
		messages[i].remote_comm_id = i % 5 ? (uint32_t)step[2] << 24 : 0;
		messages[i].reason = step[2];
		messages[i].ib.port = (uint8_t)(i % 4);
		messages[i].ib.dlid = (uint16_t)(i % 8);
	}
	if (pwrite(fd, messages, sizeof(messages), step[7]) != sizeof(messages))
		abort();
}

/* A memfd with or without seals, or a pipe, in place of a long MAD or of last messages. */
static int descriptor_make(const uint8_t *step)
{
	int fds[2];

	if (step[5] & 1) {
		if (pipe(fds) == 0)
			close(fds[1]);
		return fds[0];
	}
	fds[0] = memfd_create("fuzz", MFD_ALLOW_SEALING);
	last_messages_write(fds[0], step);
	if (ftruncate(fds[0], step[6] * 2000) == 0 && step[5] & 2)
		fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	return fds[0];
}

static void request_send(const uint8_t *step)
{
	static const char *const texts[] = {"a", "b", "s", "", "dump", "link \"a\"[1] \"b\"[1]",
		"error a[1] 5 0x15", "route 1 2", "unlink s", "relink s[1]", "clients", "\"\"[",
		"0x1", "unlink \"a\"[9999999999]", "explain", "explain a b"};
	struct attach_message message;
	uint32_t bytes = step[1] == 255 ? step[2] : (uint32_t)sizeof(message);
	struct iovec piece = {&message, bytes};
	int fd = -1;

	memset(&message, step[3] < 128 ? 0 : step[3], sizeof(message));
	message.version = ATTACH_VERSION + (step[1] == 254);
	message.type = step[1] % (ATTACH_HOST_TAKE + 2);
	snprintf(message.text, sizeof(message.text), "%s",
		texts[step[2] % (sizeof(texts) / sizeof(texts[0]))]);
	if (message.type == ATTACH_AGENT_ADD || message.type == ATTACH_AGENT_REMOVE) {
		message.agent.opening = 1 + step[4] % 3;
		message.agent.agent.id = step[5];
		message.agent.agent.management_class = step[5] & 1 ? 3 : step[5];
		message.agent.agent.class_version = step[6] & 3;
		message.agent.agent.rmpp_version = step[6] >> 7;
		message.agent.agent.qpn = 1;
		message.agent.agent.method_mask[0] = step[7];
	} else if (message.type >= ATTACH_FRAMES_CLOSE && message.type <= ATTACH_SERVICE_RELEASE) {
		message.frames.lease = 1 + step[4] % 3;
		message.frames.port = step[5] % 3;
		message.frames.mlid = (uint16_t)(0xc000 + step[6] % 4);
		message.frames.service_id = step[6];
		message.frames.service_mask = step[7];
	} else if (message.type == ATTACH_PORT || message.type == ATTACH_MADS_OPEN ||
		message.type == ATTACH_ISSM_PATH) {
		message.port.number = step[4] % 3;
	}
	if (message.type == ATTACH_FLOW_READY) {
		message.flow.lease = 1 + step[4] % 3;
		message.flow.slot = step[5];
		message.flow.serial = step[6];
	}
	if (message.type == ATTACH_GROUP_HOLD || message.type == ATTACH_GROUP_RELEASE) {
		message.frames.port = step[4] % 3;
		message.frames.mgid.raw[0] = 0xff;
		message.frames.mgid.raw[15] = step[5] & 1;
		message.frames.join_state = step[6];
	}
	if (message.type == ATTACH_LAST_MESSAGES) {
		message.frames.lease = 1 + step[4] % 3;
		message.frames.offset = step[7];
	}
	if (message.type == ATTACH_LAST_MESSAGES || step[1] & 128)
		fd = descriptor_make(step);
	/* The process expects one descriptor at most. */
	fd_pass_send(client.control, &piece, 1, (const int[]){fd, fd},
		fd < 0 ? 0 : 1 + (step[1] >> 6 & 1), MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
}

static void mad_send(const uint8_t *step)
{
	static uint8_t bytes[512];
	struct attach_mad mad = {.agent = step[2] % 40,
		.timeout_ms = step[3],
		.retries = step[3] & 3,
		.mad_bytes = step[4] == 255 ? UINT32_MAX : step[4] * 2u,
		.qpn = step[5] & 1,
		.lid = step[5] & 2 ? 0xffff : step[6] % 5,
		.pkey_index = step[6],
		.has_grh = step[7] & 1,
		.is_in_memfd = step[7] & 2};
	struct iovec pieces[] = {{&mad, sizeof(mad)}, {bytes, step[4] * 2u}};
	int fd = mad.is_in_memfd ? descriptor_make(step) : -1;

	memset(bytes, step[7], sizeof(bytes));
	bytes[0] = bytes[2] = 1;
	bytes[1] = step[5] & 4 ? 0x81 : 3;
	bytes[3] = step[6] & 1 ? 1 : 0x12;
	if (client.socket_count > 0)
		fd_pass_send(client.sockets[step[1] % client.socket_count], pieces, 2, &fd, fd >= 0,
			MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
}

static void frame_send(const uint8_t *step)
{
	static uint8_t frame[RECORD_BYTES_MAX];
	struct attach_frames *channel;
	uint32_t port = step[2] % 3, bytes = step[3] * 20u;
	const struct record_piece pieces[] = {{&port, sizeof(port)}, {frame, bytes}};

	if (client.channel_count == 0)
		return;
	channel = client.channels[step[1] % client.channel_count];
	memset(frame, step[4], sizeof(frame));
	frame[1] = step[5];
	frame[3] = step[6] % 6;
	frame[4] = (uint8_t)(bytes / 4 >> 8);
	frame[5] = (uint8_t)(bytes / 4);
	frame[13] = step[7];
	record_ring_put(&channel->to_fabric, pieces, 2);
	if (step[7] == 255)
		channel->to_fabric.written += step[6];
	if (step[7] == 254)
		channel->to_client.read += step[6];
}

/* A client that has a node, MADs with an agent, and frames, as most inputs need. */
static void client_open_all(void)
{
	static const uint8_t steps[][STEP_BYTES] = {
		{0, ATTACH_HELLO, 0, 0, 0, 0, 0, 0},
		{0, ATTACH_MADS_OPEN, 0, 0, 1, 0, 0, 0},
		{0, ATTACH_AGENT_ADD, 0, 0, 0, 1, 0x82, 0xff},
		{0, ATTACH_FRAMES_OPEN, 0, 0, 0, 0, 0, 0},
		{0, ATTACH_LAST_MESSAGES, 1, 0, 0, 2, 255, 0},
		{0, ATTACH_GROUP_HOLD, 0, 0, 1, 0, 1, 0},
	};

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		request_send(steps[i]);
		server_run();
		answers_read();
	}
	if (client.socket_count != 1 || client.channel_count != 1)
		abort();
}

static void client_begin(void)
{
	char path[PLACE_PATH_BYTES];

	memset(&client, 0, sizeof(client));
	client.control =
		place_connect_as(PLACE_FABRIC, fabric_name_number(name), PLACE_OWN, 1000, path);
	if (client.control < 0)
		abort();
}

static void client_end(void)
{
	close(client.control);
	for (uint32_t i = 0; i < client.socket_count; i++)
		close(client.sockets[i]);
	for (uint32_t i = 0; i < client.channel_count; i++)
		munmap(client.channels[i], sizeof(struct attach_frames));
	server_run();
}

static unsigned descriptors_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned before;

	if (!server)
		server_begin();
	before = descriptors_open();
	client_begin();
	if (size > 0 && data[0] & 7)
		client_open_all();
	for (size_t at = 0; at + STEP_BYTES <= size && at < STEPS_MAX * STEP_BYTES;
		at += STEP_BYTES) {
		const uint8_t *step = data + at;

		if (step[0] % 4 < 2)
			request_send(step);
		else if (step[0] % 4 == 2)
			mad_send(step);
		else
			frame_send(step);
		server_run();
		answers_read();
	}
	client_end();
	/* The process keeps no descriptor of a client that has gone. */
	if (descriptors_open() != before)
		abort();
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "nvmf/host/nbd/nbd.h"
#include "nvmf/host/nbd/nbd_server.h"
#include "nvmf/host/nbd/nbd_wire.h"

enum {
	DEVICE_BYTES = 1 << 20,
	BLOCK_BYTES = 512,
	TRACE_BYTES = 1 << 20,
};

struct world {
	struct block_device *device;
	struct nbd_export export;
	struct nbd_session *session;
	uint32_t ready_count;
	size_t got_bytes; /* what the session has sent, and the test has not looked at */
	uint8_t got[TRACE_BYTES];
};

static struct world world;

static void count_ready(struct nbd_session *session, void *context)
{
	(void)session;
	((struct world *)context)->ready_count++;
}

static int set_up(void **state)
{
	*state = &world;
	memset(&world, 0, sizeof(world));
	world.device = block_memory_create(DEVICE_BYTES, BLOCK_BYTES);
	world.export = (struct nbd_export){"disk", "a disk", world.device};
	world.session = nbd_session_create(&world.export, count_ready, &world);
	return world.device && world.session ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	nbd_session_destroy(world.session);
	block_memory_pause(world.device, false);
	block_device_destroy(world.device);
	return 0;
}

/* Take the session's output, a few bytes at a time. */
static void collect(void)
{
	struct iovec parts[NBD_OUTPUT_PARTS_MAX];

	while (nbd_session_output(world.session, parts, NBD_OUTPUT_PARTS_MAX) > 0) {
		size_t bytes = parts[0].iov_len < 1000 ? parts[0].iov_len : 1000;

		assert_true(world.got_bytes + bytes <= TRACE_BYTES);
		memcpy(world.got + world.got_bytes, parts[0].iov_base, bytes);
		world.got_bytes += bytes;
		nbd_session_sent(world.session, bytes);
	}
}

/* Send `size` bytes in pieces of at most `piece`. Returns how many the session had room for. */
static size_t send_pieces(const void *bytes, size_t size, size_t piece)
{
	size_t sent = 0;

	while (sent < size) {
		struct iovec room = nbd_session_room(world.session);
		size_t now = size - sent < piece ? size - sent : piece;

		if (now > room.iov_len)
			now = room.iov_len;
		if (!now)
			break;
		memcpy(room.iov_base, (const uint8_t *)bytes + sent, now);
		nbd_session_received(world.session, now);
		sent += now;
	}
	return sent;
}

static void send_all(const void *bytes, size_t size)
{
	assert_int_equal(send_pieces(bytes, size, SIZE_MAX), size);
}

/* The next bytes that the session sent. */
static const uint8_t *take(size_t bytes)
{
	static uint8_t taken[TRACE_BYTES];

	collect();
	assert_true(bytes <= world.got_bytes);
	memcpy(taken, world.got, bytes);
	world.got_bytes -= bytes;
	memmove(world.got, world.got + bytes, world.got_bytes);
	return taken;
}

static void nothing_is_left(void)
{
	collect();
	assert_int_equal(world.got_bytes, 0);
}

static void flags_send(uint32_t flags)
{
	uint8_t bytes[4];
	const uint8_t *greeting = take(18);

	assert_true(nbd_get64(greeting) == NBD_MAGIC);
	assert_true(nbd_get64(greeting + 8) == NBD_OPTION_MAGIC);
	nbd_put32(bytes, flags);
	send_all(bytes, sizeof(bytes));
}

static void option_send(uint32_t option, const void *data, uint32_t data_bytes)
{
	uint8_t bytes[NBD_OPTION_HEAD_BYTES];

	nbd_put32(nbd_put32(nbd_put64(bytes, NBD_OPTION_MAGIC), option), data_bytes);
	send_all(bytes, sizeof(bytes));
	send_all(data, data_bytes);
}

/* A reply to an option; returns its data. */
static const uint8_t *reply_is(uint32_t option, uint32_t type, uint32_t bytes)
{
	const uint8_t *head = take(NBD_OPTION_REPLY_BYTES);

	assert_true(nbd_get64(head) == NBD_REPLY_MAGIC);
	assert_int_equal(nbd_get32(head + 8), option);
	assert_int_equal(nbd_get32(head + 12), type);
	assert_int_equal(nbd_get32(head + 16), bytes);
	return take(bytes);
}

/* Negotiate: structured replies, if asked for, and GO on the default export. */
static void go(bool is_structured)
{
	static const uint8_t context[] = "\0\0\0\4disk\0\0\0\1\0\0\0\17base:allocation";
	uint8_t name[6] = {0};

	flags_send(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES);
	if (is_structured) {
		option_send(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
		reply_is(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, 0);
		option_send(NBD_OPT_SET_META_CONTEXT, context, sizeof(context) - 1);
		reply_is(NBD_OPT_SET_META_CONTEXT, NBD_REP_META_CONTEXT, 19);
		reply_is(NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK, 0);
	}
	option_send(NBD_OPT_GO, name, sizeof(name));
	reply_is(NBD_OPT_GO, NBD_REP_INFO, 12);
	reply_is(NBD_OPT_GO, NBD_REP_INFO, 14);
	reply_is(NBD_OPT_GO, NBD_REP_ACK, 0);
	assert_true(nbd_session_is_transmitting(world.session));
}

static void request_send(
	uint16_t flags, uint16_t type, uint64_t cookie, uint64_t offset, uint32_t length)
{
	uint8_t bytes[NBD_REQUEST_BYTES];
	uint8_t *end = nbd_put32(bytes, NBD_REQUEST_MAGIC);

	end = nbd_put16(end, flags);
	end = nbd_put16(end, type);
	end = nbd_put64(end, cookie);
	end = nbd_put64(end, offset);
	nbd_put32(end, length);
	send_all(bytes, sizeof(bytes));
}

static void simple_is(uint64_t cookie, uint32_t error)
{
	const uint8_t *head = take(NBD_SIMPLE_BYTES);

	assert_int_equal(nbd_get32(head), NBD_SIMPLE_MAGIC);
	assert_int_equal(nbd_get32(head + 4), error);
	assert_true(nbd_get64(head + 8) == cookie);
}

static const uint8_t *chunk_is(uint64_t cookie, uint16_t type, uint32_t bytes)
{
	const uint8_t *head = take(NBD_STRUCTURED_BYTES);

	assert_int_equal(nbd_get32(head), NBD_STRUCTURED_MAGIC);
	assert_int_equal(nbd_get16(head + 4), NBD_CHUNK_DONE);
	assert_int_equal(nbd_get16(head + 6), type);
	assert_true(nbd_get64(head + 8) == cookie);
	assert_int_equal(nbd_get32(head + 16), bytes);
	return take(bytes);
}

static void refused(enum nbd_end end)
{
	assert_int_equal(nbd_session_end(world.session), end);
	assert_int_equal(nbd_session_room(world.session).iov_len, 0);
}

static void pattern_fill(uint8_t *bytes, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static void written_data_is_read_back_whatever_the_pieces(void **state)
{
	static uint8_t data[100 * 1024];
	uint8_t header[NBD_REQUEST_BYTES];

	(void)state;
	go(false);
	pattern_fill(data, sizeof(data), 3);
	for (size_t piece = 1; piece < 200000; piece = piece * 5 + 3) {
		data[0] = (uint8_t)piece;
		nbd_put32(nbd_put64(nbd_put64(nbd_put32(nbd_put32(header, NBD_REQUEST_MAGIC),
						      NBD_CMD_WRITE),
					    77),
				  BLOCK_BYTES),
			sizeof(data));
		assert_int_equal(send_pieces(header, sizeof(header), piece), sizeof(header));
		assert_int_equal(send_pieces(data, sizeof(data), piece), sizeof(data));
		simple_is(77, 0);
		request_send(0, NBD_CMD_READ, 78, BLOCK_BYTES, sizeof(data));
		simple_is(78, 0);
		assert_memory_equal(take(sizeof(data)), data, sizeof(data));
		nothing_is_left();
	}
}

static void structured_read_says_its_offset(void **state)
{
	const uint8_t *chunk;

	(void)state;
	go(true);
	request_send(NBD_FLAG_DF, NBD_CMD_READ, 5, 4096, 1024);
	chunk = chunk_is(5, NBD_CHUNK_OFFSET_DATA, 8 + 1024);
	assert_int_equal(nbd_get64(chunk), 4096);
	nothing_is_left();
}

static void zeroes_and_trims_and_flushes_are_done(void **state)
{
	uint8_t data[BLOCK_BYTES], zeroes[BLOCK_BYTES] = {0};

	(void)state;
	go(false);
	memset(data, 0xee, sizeof(data));
	request_send(NBD_FLAG_FUA, NBD_CMD_WRITE, 1, 0, sizeof(data));
	send_all(data, sizeof(data));
	simple_is(1, 0);
	request_send(NBD_FLAG_NO_HOLE | NBD_FLAG_FUA, NBD_CMD_WRITE_ZEROES, 2, 0, BLOCK_BYTES);
	simple_is(2, 0);
	request_send(0, NBD_CMD_READ, 3, 0, BLOCK_BYTES);
	simple_is(3, 0);
	assert_memory_equal(take(BLOCK_BYTES), zeroes, BLOCK_BYTES);
	request_send(0, NBD_CMD_TRIM, 4, 0, DEVICE_BYTES);
	simple_is(4, 0);
	request_send(0, NBD_CMD_FLUSH, 5, 0, 0);
	simple_is(5, 0);
}

static void block_status_is_one_extent_of_data(void **state)
{
	const uint8_t *chunk;

	(void)state;
	go(true);
	request_send(0, NBD_CMD_BLOCK_STATUS, 9, 512, 8192);
	chunk = chunk_is(9, NBD_CHUNK_BLOCK_STATUS, 12);
	assert_int_equal(nbd_get32(chunk), 1);
	assert_int_equal(nbd_get32(chunk + 4), 8192);
	assert_int_equal(nbd_get32(chunk + 8), 0);
	request_send(0, NBD_CMD_BLOCK_STATUS, 10, DEVICE_BYTES, 512);
	chunk = chunk_is(10, NBD_CHUNK_ERROR, 6);
	assert_int_equal(nbd_get32(chunk), NBD_EINVAL);
}

static void bad_requests_are_answered_with_errors(void **state)
{
	static const struct {
		uint16_t flags, type;
		uint64_t offset;
		uint32_t length, error;
	} rows[] = {
		{0, NBD_CMD_READ, DEVICE_BYTES, 512, NBD_EINVAL},
		{0, NBD_CMD_READ, UINT64_MAX - 511, 512, NBD_EINVAL},
		{0, NBD_CMD_READ, UINT64_MAX - 511, 1024, NBD_EINVAL},
		{0, NBD_CMD_READ, 1, 512, NBD_EINVAL},
		{0, NBD_CMD_READ, 0, 511, NBD_EINVAL},
		{0, NBD_CMD_READ, 0, 0, NBD_EINVAL},
		{0, NBD_CMD_READ, 0, NBD_PAYLOAD_BYTES_MAX + 512, NBD_EINVAL},
		{NBD_FLAG_DF, NBD_CMD_READ, 0, 512, NBD_EINVAL},
		{0, NBD_CMD_TRIM, DEVICE_BYTES - 512, 1024, NBD_ENOSPC},
		{NBD_FLAG_NO_HOLE, NBD_CMD_TRIM, 0, 512, NBD_EINVAL},
		{0, NBD_CMD_WRITE_ZEROES, 0, UINT32_MAX, NBD_EINVAL},
		{0x8000, NBD_CMD_WRITE_ZEROES, 0, 512, NBD_EINVAL},
		{0, NBD_CMD_FLUSH, 0, 512, NBD_EINVAL},
		{0, NBD_CMD_BLOCK_STATUS, 0, 512, NBD_EINVAL},
		{0, 5, 0, 512, NBD_EINVAL},
		{0, 0xffff, 0, 512, NBD_EINVAL},
	};

	(void)state;
	go(false);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		request_send(rows[i].flags, rows[i].type, i, rows[i].offset, rows[i].length);
		simple_is(i, rows[i].error);
	}
	nothing_is_left();
	assert_int_equal(nbd_session_end(world.session), NBD_GOES_ON);
}

static void refused_write_is_followed_by_its_payload(void **state)
{
	uint8_t data[1024] = {1};

	(void)state;
	go(false);
	request_send(0, NBD_CMD_WRITE, 1, DEVICE_BYTES - 512, sizeof(data));
	send_all(data, sizeof(data));
	simple_is(1, NBD_ENOSPC);
	request_send(NBD_FLAG_REQ_ONE, NBD_CMD_WRITE, 2, 0, sizeof(data));
	send_all(data, sizeof(data));
	simple_is(2, NBD_EINVAL);
	request_send(0, NBD_CMD_WRITE, 3, 0, 0);
	simple_is(3, NBD_EINVAL);
	world.device->is_read_only = true;
	request_send(0, NBD_CMD_WRITE, 4, 0, sizeof(data));
	send_all(data, sizeof(data));
	simple_is(4, NBD_EPERM);
	world.device->is_read_only = false;
	request_send(0, NBD_CMD_READ, 5, 0, 512);
	simple_is(5, 0);
	assert_int_equal(take(512)[0], 0);
}

static void error_of_the_device_reaches_the_client(void **state)
{
	(void)state;
	go(false);
	block_memory_fail(world.device, -EIO);
	request_send(0, NBD_CMD_READ, 1, 0, 512);
	simple_is(1, NBD_EIO);
	block_memory_fail(world.device, -ENOTCONN);
	request_send(0, NBD_CMD_READ, 2, 0, 512);
	simple_is(2, NBD_ESHUTDOWN);
	nothing_is_left();
}

static void client_that_never_reads_is_not_read_from(void **state)
{
	uint8_t request[NBD_REQUEST_BYTES];
	uint32_t sent = 0;

	(void)state;
	go(false);
	nbd_put32(
		nbd_put64(nbd_put64(nbd_put32(nbd_put32(request, NBD_REQUEST_MAGIC), NBD_CMD_READ),
				  1),
			0),
		512);
	while (sent < 100000 && send_pieces(request, sizeof(request), SIZE_MAX) == sizeof(request))
		sent++;
	assert_in_range(sent, NBD_REQUESTS_MAX, NBD_REQUESTS_MAX + NBD_INPUT_BYTES / 28);
	collect();
	assert_true(nbd_session_room(world.session).iov_len > 0);
	assert_int_equal(world.got_bytes, sent * (NBD_SIMPLE_BYTES + 512));
}

static void requests_done_later_are_reported(void **state)
{
	(void)state;
	go(false);
	block_memory_pause(world.device, true);
	request_send(0, NBD_CMD_READ, 1, 0, 512);
	request_send(0, NBD_CMD_READ, 2, 0, 512);
	nothing_is_left();
	block_memory_pause(world.device, false);
	assert_int_equal(world.ready_count, 2);
	simple_is(2, 0);
	take(512);
	simple_is(1, 0);
	take(512);
}

static void session_that_ends_leaves_its_requests_to_the_device(void **state)
{
	uint8_t data[512] = {1};

	(void)state;
	go(false);
	block_memory_pause(world.device, true);
	request_send(0, NBD_CMD_READ, 1, 0, 512);
	request_send(0, NBD_CMD_WRITE, 2, 0, 512);
	send_all(data, sizeof(data));
	request_send(0, NBD_CMD_WRITE, 3, 0, 512);
	nbd_session_destroy(world.session);
	world.session = NULL;
	block_memory_pause(world.device, false);
	assert_int_equal(world.ready_count, 0);
}

static void disconnect_waits_for_what_is_pending(void **state)
{
	(void)state;
	go(false);
	block_memory_pause(world.device, true);
	request_send(0, NBD_CMD_FLUSH, 1, 0, 0);
	request_send(0, NBD_CMD_DISC, 0, 0, 0);
	assert_int_equal(nbd_session_end(world.session), NBD_GOES_ON);
	assert_int_equal(nbd_session_room(world.session).iov_len, 0);
	block_memory_pause(world.device, false);
	assert_int_equal(nbd_session_end(world.session), NBD_GOES_ON);
	simple_is(1, 0);
	assert_int_equal(nbd_session_end(world.session), NBD_DISCONNECTED);
}

static void old_option_gives_size_and_zeroes(void **state)
{
	const uint8_t *reply;

	(void)state;
	flags_send(NBD_FIXED_NEWSTYLE);
	option_send(NBD_OPT_EXPORT_NAME, "disk", 4);
	reply = take(10 + NBD_EXPORT_NAME_ZEROES);
	assert_int_equal(nbd_get64(reply), DEVICE_BYTES);
	assert_true(nbd_get16(reply + 8) & NBD_SEND_FUA);
	nothing_is_left();
	assert_true(nbd_session_is_transmitting(world.session));
}

static void old_option_with_another_name_ends_the_session(void **state)
{
	(void)state;
	flags_send(NBD_FIXED_NEWSTYLE);
	option_send(NBD_OPT_EXPORT_NAME, "disc", 4);
	refused(NBD_NO_SUCH_EXPORT);
}

static void options_that_are_wrong_are_answered_with_errors(void **state)
{
	static const struct {
		uint32_t option, type;
		const char *data;
		uint32_t data_bytes;
	} rows[] = {
		{NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, "\0\0\0\1x\0\0", 7},
		{NBD_OPT_INFO, NBD_REP_ERR_UNKNOWN, "\0\0\0\1x\0\0", 7},
		{NBD_OPT_GO, NBD_REP_ERR_INVALID, "\0\0\0\4x\0\0", 7},
		{NBD_OPT_GO, NBD_REP_ERR_INVALID, "\377\377\377\377x\0\0", 7},
		{NBD_OPT_GO, NBD_REP_ERR_INVALID, "\0\0\0\0\0\1", 6},
		{NBD_OPT_GO, NBD_REP_ERR_INVALID, "\0\0\0\0", 4},
		{NBD_OPT_GO, NBD_REP_ERR_INVALID, "", 0},
		{NBD_OPT_LIST, NBD_REP_ERR_INVALID, "x", 1},
		{NBD_OPT_STRUCTURED_REPLY, NBD_REP_ERR_INVALID, "x", 1},
		{NBD_OPT_SET_META_CONTEXT, NBD_REP_ERR_INVALID, "\0\0\0\0\0\0\0\0", 8},
		{NBD_OPT_LIST_META_CONTEXT, NBD_REP_ERR_INVALID, "\0\0\0\0", 4},
		{5, NBD_REP_ERR_UNSUP, "", 0},
		{11, NBD_REP_ERR_UNSUP, "abc", 3},
	};

	(void)state;
	flags_send(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		option_send(rows[i].option, rows[i].data, rows[i].data_bytes);
		reply_is(rows[i].option, rows[i].type, 0);
	}
	option_send(NBD_OPT_LIST, NULL, 0);
	assert_memory_equal(reply_is(NBD_OPT_LIST, NBD_REP_SERVER, 8) + 4, "disk", 4);
	reply_is(NBD_OPT_LIST, NBD_REP_ACK, 0);
	option_send(NBD_OPT_ABORT, NULL, 0);
	reply_is(NBD_OPT_ABORT, NBD_REP_ACK, 0);
	refused(NBD_ABORTED);
}

static void info_has_the_facts_asked_for(void **state)
{
	(void)state;
	flags_send(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES);
	option_send(NBD_OPT_INFO, "\0\0\0\4disk\0\3\0\1\0\2\0\1", 16);
	reply_is(NBD_OPT_INFO, NBD_REP_INFO, 12);
	reply_is(NBD_OPT_INFO, NBD_REP_INFO, 14);
	assert_memory_equal(reply_is(NBD_OPT_INFO, NBD_REP_INFO, 6) + 2, "disk", 4);
	assert_memory_equal(reply_is(NBD_OPT_INFO, NBD_REP_INFO, 8) + 2, "a disk", 6);
	reply_is(NBD_OPT_INFO, NBD_REP_ACK, 0);
	nothing_is_left();
	assert_false(nbd_session_is_transmitting(world.session));
}

static void unknown_client_flags_end_the_session(void **state)
{
	(void)state;
	flags_send(NBD_FIXED_NEWSTYLE | 4);
	refused(NBD_BAD_FLAGS);
}

static void client_of_the_oldest_protocol_is_refused(void **state)
{
	(void)state;
	flags_send(0);
	refused(NBD_BAD_FLAGS);
}

static void option_too_long_ends_the_session(void **state)
{
	uint8_t bytes[NBD_OPTION_HEAD_BYTES];

	(void)state;
	flags_send(NBD_FIXED_NEWSTYLE);
	nbd_put32(nbd_put32(nbd_put64(bytes, NBD_OPTION_MAGIC), NBD_OPT_GO), UINT32_MAX);
	send_all(bytes, sizeof(bytes));
	refused(NBD_BAD_OPTION);
}

static void option_without_magic_number_ends_the_session(void **state)
{
	uint8_t bytes[NBD_OPTION_HEAD_BYTES] = {0};

	(void)state;
	flags_send(NBD_FIXED_NEWSTYLE);
	send_all(bytes, sizeof(bytes));
	refused(NBD_BAD_OPTION);
}

static void request_without_magic_number_ends_the_session(void **state)
{
	uint8_t bytes[NBD_REQUEST_BYTES] = {0};

	(void)state;
	go(false);
	send_all(bytes, sizeof(bytes));
	refused(NBD_BAD_REQUEST);
}

static void write_too_long_ends_the_session(void **state)
{
	(void)state;
	go(false);
	request_send(0, NBD_CMD_WRITE, 1, 0, NBD_PAYLOAD_BYTES_MAX + 512);
	refused(NBD_PAYLOAD_TOO_LONG);
}

static void path_of_a_server_with_a_full_queue_is_in_use_at_once(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/tmp/nbd-test-XXXXXX"};
	char text[256], *directory = mkdtemp(name.sun_path);
	int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), clients[8];
	unsigned count = 0;
	bool is_connected;

	(void)state;
	assert_non_null(directory);
	memcpy(name.sun_path + strlen(directory), "/socket", sizeof("/socket"));
	assert_int_equal(bind(other, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(other, 0), 0);
	do {
		assert_true(count < 8);
		clients[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		is_connected =
			!connect(clients[count++], (const struct sockaddr *)&name, sizeof(name));
	} while (is_connected);
	alarm(20); /* ends the test */
	assert_int_equal(nbd_listen(name.sun_path, text, sizeof(text)), -EADDRINUSE);
	alarm(0);
	while (count > 0)
		close(clients[--count]);
	close(other);
	assert_int_equal(unlink(name.sun_path), 0);
	*strrchr(name.sun_path, '/') = '\0';
	assert_int_equal(rmdir(name.sun_path), 0);
}

/* Let this process have no descriptor beyond those that it has, or as many as before. */
static void descriptors_limit(bool is_limited)
{
	static rlim_t before;
	struct rlimit limit;
	int lowest = dup(STDERR_FILENO);

	if (lowest >= 0)
		close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (is_limited) {
		before = limit.rlim_cur;
		limit.rlim_cur = (rlim_t)lowest;
	} else {
		limit.rlim_cur = before;
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int client_connect(const struct sockaddr_un *name)
{
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(client >= 0);
	assert_int_equal(connect(client, (const struct sockaddr *)name, sizeof(*name)), 0);
	return client;
}

/* How often the loop wakes up in half a second. */
static unsigned steps_count(struct loop *loop)
{
	uint64_t end_ns = loop_now_ns(loop) + 500000000;
	unsigned steps = 0;

	for (; loop_now_ns(loop) < end_ns; steps++)
		loop_step(loop, 100000000);
	return steps;
}

static void server_without_descriptors_sleeps_and_accepts_later(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/tmp/nbd-test-XXXXXX"};
	char text[256], greeting[18], *directory = mkdtemp(name.sun_path);
	struct nbd_server *server;
	struct loop *loop;
	int fd, client;

	(void)state;
	assert_non_null(directory);
	memcpy(name.sun_path + strlen(directory), "/socket", sizeof("/socket"));
	assert_int_equal(loop_create(&loop), 0);
	fd = nbd_listen(name.sun_path, text, sizeof(text));
	assert_true(fd >= 0);
	assert_int_equal(nbd_server_create(loop, &world.export, fd, NULL, NULL, &server), 0);
	client = client_connect(&name);
	descriptors_limit(true);
	assert_in_range(steps_count(loop), 1, 30);
	descriptors_limit(false);
	for (uint64_t end_ns = loop_now_ns(loop) + 60000000000u;
		recv(client, greeting, sizeof(greeting), 0) != sizeof(greeting);) {
		assert_true(loop_now_ns(loop) < end_ns);
		loop_step(loop, 10000000);
	}
	/* A server that waits for descriptors ends. */
	close(client_connect(&name));
	descriptors_limit(true);
	loop_step(loop, 0);
	nbd_server_destroy(server);
	descriptors_limit(false);
	steps_count(loop);
	loop_destroy(loop);
	close(client);
	assert_int_equal(unlink(name.sun_path), 0);
	*strrchr(name.sun_path, '/') = '\0';
	assert_int_equal(rmdir(name.sun_path), 0);
}

#define row(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		row(written_data_is_read_back_whatever_the_pieces),
		row(structured_read_says_its_offset),
		row(zeroes_and_trims_and_flushes_are_done),
		row(block_status_is_one_extent_of_data),
		row(bad_requests_are_answered_with_errors),
		row(refused_write_is_followed_by_its_payload),
		row(error_of_the_device_reaches_the_client),
		row(client_that_never_reads_is_not_read_from),
		row(requests_done_later_are_reported),
		row(session_that_ends_leaves_its_requests_to_the_device),
		row(disconnect_waits_for_what_is_pending),
		row(old_option_gives_size_and_zeroes),
		row(old_option_with_another_name_ends_the_session),
		row(options_that_are_wrong_are_answered_with_errors),
		row(info_has_the_facts_asked_for),
		row(unknown_client_flags_end_the_session),
		row(client_of_the_oldest_protocol_is_refused),
		row(option_too_long_ends_the_session),
		row(option_without_magic_number_ends_the_session),
		row(request_without_magic_number_ends_the_session),
		row(write_too_long_ends_the_session),
		row(path_of_a_server_with_a_full_queue_is_in_use_at_once),
		row(server_without_descriptors_sleeps_and_accepts_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

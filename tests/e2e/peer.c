/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void peer_fail(const char *file, int line, const char *condition, const char *format, ...)
{
	const char *name = strrchr(file, '/');
	va_list arguments;

	printf("failed: %s:%d: ", name ? name + 1 : file, line);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf(" (%s)\n", condition);
	exit(EXIT_FAILURE);
}

uint64_t peer_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void peer_sleep_ms(unsigned ms)
{
	const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

/* --- options ------------------------------------------------------------------------------ */

static uint32_t number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	CHECK(*text && !*end && value <= UINT32_MAX, "'%s' is not a number", text);
	return (uint32_t)value;
}

void peer_parse(struct peer_options *options, int argc, char **argv)
{
	int option;

	*options = (struct peer_options){
		.port = PEER_PORT, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	while ((option = getopt(argc, argv, "d:x:m:p:t:r:R:n:w:")) != -1) {
		switch (option) {
		case 'd':
			options->device = optarg;
			break;
		case 'x':
			options->gid_index = (uint8_t)number(optarg);
			break;
		case 'm':
			options->mtu_bytes = number(optarg);
			break;
		case 'p':
			options->port = (int)number(optarg);
			break;
		case 't':
			options->timeout = (uint8_t)number(optarg);
			break;
		case 'r':
			options->retry_cnt = (uint8_t)number(optarg);
			break;
		case 'R':
			options->rnr_retry = (uint8_t)number(optarg);
			break;
		case 'n':
			options->count = number(optarg);
			break;
		case 'w':
			options->what = optarg;
			break;
		default:
			exit(2);
		}
	}
	options->server = argv[optind];
}

/* --- the device --------------------------------------------------------------------------- */

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	CHECK(devices, "no list of devices: %s", strerror(errno));
	for (int i = 0; devices[i] && !context; i++)
		if (!name || !strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	ibv_free_device_list(devices);
	CHECK(context, "device %s does not open", name ? name : "");
	return context;
}

void peer_open(struct peer *peer, const struct peer_options *options)
{
	*peer = (struct peer){.options = *options, .socket = -1};
	alarm(6 * PEER_TIMEOUT_S);
	peer->context = device_open(options->device);
	CHECK(!ibv_query_port(peer->context, 1, &peer->port), "no port");
	CHECK(!ibv_query_gid(peer->context, 1, options->gid_index, &peer->gid), "no GID %u",
		options->gid_index);
	peer->pd = ibv_alloc_pd(peer->context);
	CHECK(peer->pd, "no protection domain: %s", strerror(errno));
}

void peer_close(struct peer *peer)
{
	if (peer->socket >= 0)
		close(peer->socket);
	CHECK(!peer->srq || !ibv_destroy_srq(peer->srq), "something still uses the shared queue");
	CHECK(!ibv_dealloc_pd(peer->pd), "something still uses the protection domain");
	CHECK(!ibv_close_device(peer->context), "the device does not close");
}

/* --- the TCP connection -------------------------------------------------------------------- */

static int listen_and_accept(int port)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)) && !listen(listener, 1),
		"TCP port %d: %s", port, strerror(errno));
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	return connection;
}

static int connect_to(const char *server, int port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	uint64_t until_ms = peer_now_ms() + (uint64_t)PEER_TIMEOUT_S * 1000;
	struct addrinfo *address;
	char service[16];

	snprintf(service, sizeof(service), "%d", port);
	CHECK(!getaddrinfo(server, service, &hints, &address), "no address %s", server);
	for (;;) {
		int connection = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (!connect(connection, address->ai_addr, address->ai_addrlen)) {
			freeaddrinfo(address);
			return connection;
		}
		close(connection);
		CHECK(peer_now_ms() < until_ms, "no server at %s: %s", server, strerror(errno));
		peer_sleep_ms(20);
	}
}

void peer_meet(struct peer *peer)
{
	const struct timeval timeout = {.tv_sec = PEER_TIMEOUT_S};
	int on = 1;

	peer->socket = peer_is_server(peer) ? listen_and_accept(peer->options.port)
					    : connect_to(peer->options.server, peer->options.port);
	setsockopt(peer->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(peer->socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

void peer_tell(struct peer *peer, const void *ours, size_t bytes)
{
	CHECK(send(peer->socket, ours, bytes, MSG_NOSIGNAL) == (ssize_t)bytes,
		"the other process is gone");
}

void peer_hear(struct peer *peer, void *theirs, size_t bytes)
{
	CHECK(recv(peer->socket, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes,
		"the other process is gone, or does not answer");
}

bool peer_has_told(struct peer *peer)
{
	char byte;

	return recv(peer->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) >= 0;
}

void peer_exchange(struct peer *peer, const void *ours, void *theirs, size_t bytes)
{
	peer_tell(peer, ours, bytes);
	peer_hear(peer, theirs, bytes);
}

void peer_barrier(struct peer *peer)
{
	char byte = 0;

	peer_exchange(peer, &byte, &byte, sizeof(byte));
}

/* --- patterns -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

uint64_t peer_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix(*state);
}

static uint64_t word(uint64_t seed, uint64_t index)
{
	return mix(seed * 0x9e3779b97f4a7c15ull + index);
}

uint8_t peer_pattern(uint64_t seed, uint64_t index)
{
	return (uint8_t)(word(seed, index / 8) >> index % 8 * 8);
}

void peer_pattern_fill(uint8_t *bytes, size_t count, uint64_t seed)
{
	size_t i;

	for (i = 0; i + 8 <= count; i += 8) {
		uint64_t value = word(seed, i / 8);

		memcpy(bytes + i, &value, sizeof(value));
	}
	for (; i < count; i++)
		bytes[i] = peer_pattern(seed, i);
}

void peer_pattern_check(const uint8_t *bytes, size_t count, uint64_t seed, const char *what)
{
	size_t i;

	for (i = 0; i + 8 <= count; i += 8) {
		uint64_t value;

		memcpy(&value, bytes + i, sizeof(value));
		if (value != word(seed, i / 8))
			break;
	}
	for (; i < count; i++)
		CHECK(bytes[i] == peer_pattern(seed, i),
			"%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, count, bytes[i],
			peer_pattern(seed, i));
}

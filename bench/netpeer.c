/* SPDX-License-Identifier: BSD-2-Clause */
#include "netpeer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT_DEFAULT "18600"

enum { CONNECT_TRIES = 100, CONNECT_PAUSE_NS = 50000000 };

static const struct {
	const char *name;
	const char *summary;
	mode_function *serve;
	mode_function *run;
} modes[MODE_COUNT] = {
#define MODE(identifier, name, summary) \
	[MODE_##identifier] = {name, summary, identifier##_serve, identifier##_run},
#include "modes.def"
#undef MODE
};

noreturn void give_up(const char *what)
{
	fprintf(stderr, "netpeer: %s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void send_all(int fd, const void *bytes, size_t size)
{
	const char *next = bytes;

	while (size > 0) {
		ssize_t sent = send(fd, next, size, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			give_up("send");
		if (sent > 0) {
			next += sent;
			size -= (size_t)sent;
		}
	}
}

void receive_all(int fd, void *bytes, size_t size)
{
	char *next = bytes;

	while (size > 0) {
		ssize_t received = recv(fd, next, size, 0);

		if (received < 0 && errno != EAGAIN && errno != EINTR)
			give_up("receive");
		if (received == 0) {
			errno = ECONNRESET;
			give_up("receive");
		}
		if (received > 0) {
			next += received;
			size -= (size_t)received;
		}
	}
}

void *make_buffer(size_t size)
{
	void *buffer = malloc(size);

	if (!buffer)
		give_up("memory");
	/*
	 * Write to all pages: pages that were never written share the kernel's zero page, which is
	 * faster to copy than others.
	 */
	memset(buffer, 0x55, size);
	return buffer;
}

static int compare_durations(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

void print_latency(uint64_t *durations_ns, size_t count, unsigned divisor)
{
	double scale = 1000.0 * divisor;
	size_t median = count / 2, percentile_99 = count * 99 / 100;
	uint64_t sum_ns = 0;
	size_t percentile_999 = (size_t)((uint64_t)count * 999 / 1000);

	qsort(durations_ns, count, sizeof(*durations_ns), compare_durations);
	for (size_t i = 0; i < count; i++)
		sum_ns += durations_ns[i];
	printf("mean_usec %.2f\n", (double)sum_ns / (double)count / scale);
	printf("min_usec %.2f\nmedian_usec %.2f\np99_usec %.2f\np999_usec %.2f\n",
		(double)durations_ns[0] / scale, (double)durations_ns[median] / scale,
		(double)durations_ns[percentile_99] / scale,
		(double)durations_ns[percentile_999] / scale);
}

void print_bandwidth(struct tally tally)
{
	double seconds = (double)tally.duration_ns / 1e9;

	printf("MiBps %.2f\n", seconds > 0 ? (double)tally.bytes / 1048576.0 / seconds : 0.0);
}

static void set_no_delay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		give_up("TCP_NODELAY");
}

static struct addrinfo *resolve(const char *address, const char *port, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found;
	int result = getaddrinfo(address, port, &hints, &found);

	if (result != 0) {
		fprintf(stderr, "netpeer: %s: %s\n", address ? address : "*", gai_strerror(result));
		exit(1);
	}
	return found;
}

static int accept_one(const char *address, const char *port)
{
	struct addrinfo *local = resolve(address, port, AI_PASSIVE);
	int listener = socket(local->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1, fd;

	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		bind(listener, local->ai_addr, local->ai_addrlen) < 0 || listen(listener, 1) < 0)
		give_up("listen");
	freeaddrinfo(local);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		give_up("accept");
	close(listener);
	return fd;
}

/* The server may have been started at the same time: try for some seconds. */
static int connect_patiently(const char *address, const char *port)
{
	const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_NS};
	struct addrinfo *remote = resolve(address, port, 0);

	for (int tries = 0; tries < CONNECT_TRIES; tries++) {
		int fd = socket(remote->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			give_up("socket");
		if (connect(fd, remote->ai_addr, remote->ai_addrlen) == 0) {
			freeaddrinfo(remote);
			return fd;
		}
		close(fd);
		nanosleep(&pause, NULL);
	}
	give_up(address);
}

static bool job_is_valid(const struct job *job)
{
	return job->mode < MODE_COUNT && job->message_bytes >= 1 &&
		job->message_bytes <= MESSAGE_BYTES_MAX && job->packet_bytes >= PACKET_BYTES_MIN &&
		job->packet_bytes <= PACKET_BYTES_MAX && job->rounds >= 1 &&
		job->rounds <= ROUNDS_MAX && job->depth >= 1 && job->depth <= DEPTH_MAX &&
		job->duration_ms >= 1 && job->duration_ms <= DURATION_MS_MAX && job->sleeps <= 1;
}

static void print_usage(FILE *stream)
{
	fputs("usage: netpeer [-p PORT] server [ADDRESS]\n"
	      "       netpeer [-p PORT] [OPTIONS] MODE ADDRESS\n"
	      "\n"
	      "Plain sockets as a measure for urnic. A server serves one client and ends.\n"
	      "\n",
		stream);
	for (int mode = 0; mode < MODE_COUNT; mode++)
		fprintf(stream, "  %-14s%s\n", modes[mode].name, modes[mode].summary);
	fputs("\n"
	      "  -b          sleep until a message arrives (block) instead of polling, pingpong\n"
	      "  -s BYTES    of a message (8)\n"
	      "  -P BYTES    of UDP payload per packet, UDP streams (4112: RoCEv2 at a path MTU of 4096)\n"
	      "  -n COUNT    of rounds, pingpong and request (10000)\n"
	      "  -d DEPTH    requests under way at once, tcp-request (1)\n"
	      "  -t MS       how long a stream lasts (2000)\n"
	      "  -w BYTES    sent but not yet received, UDP streams (1048576; 0: no limit, with loss)\n"
	      "  -p PORT     of the TCP connection on which the two meet (" PORT_DEFAULT ")\n",
		stream);
}

static uint32_t parse_number(const char *text)
{
	char *end;
	unsigned long number = strtoul(text, &end, 0);

	if (end == text || *end || number > UINT32_MAX) {
		fprintf(stderr, "netpeer: '%s' is no number\n", text);
		exit(2);
	}
	return (uint32_t)number;
}

static void serve(const char *address, const char *port)
{
	struct job job;
	int fd = accept_one(address, port);

	set_no_delay(fd);
	receive_all(fd, &job, sizeof(job));
	if (!job_is_valid(&job)) {
		fputs("netpeer: the client asks for nonsense\n", stderr);
		exit(1);
	}
	modes[job.mode].serve(&job, fd);
	close(fd);
}

static void run(struct job job, const char *mode_name, const char *address, const char *port)
{
	int fd;

	while (job.mode < MODE_COUNT && strcmp(modes[job.mode].name, mode_name) != 0)
		job.mode++;
	if (!job_is_valid(&job)) {
		print_usage(stderr);
		exit(2);
	}
	fd = connect_patiently(address, port);
	set_no_delay(fd);
	send_all(fd, &job, sizeof(job));
	modes[job.mode].run(&job, fd);
	close(fd);
}

int main(int argc, char **argv)
{
	struct job job = {
		.message_bytes = 8,
		.packet_bytes = 4112,
		.rounds = 10000,
		.depth = 1,
		.duration_ms = 2000,
		.window_bytes = 1 << 20,
	};
	const char *port = PORT_DEFAULT;
	int letter;

	while ((letter = getopt(argc, argv, "+bhs:P:n:d:t:w:p:")) != -1) {
		/* clang-format off */
		switch (letter) {
		case 'b': job.sleeps = 1; break;
		case 's': job.message_bytes = parse_number(optarg); break;
		case 'P': job.packet_bytes = parse_number(optarg); break;
		case 'n': job.rounds = parse_number(optarg); break;
		case 'd': job.depth = parse_number(optarg); break;
		case 't': job.duration_ms = parse_number(optarg); break;
		case 'w': job.window_bytes = parse_number(optarg); break;
		case 'p': port = optarg; break;
		case 'h': print_usage(stdout); return 0;
		default: print_usage(stderr); return 2;
		}
		/* clang-format on */
	}
	argc -= optind;
	argv += optind;
	if (argc >= 1 && argc <= 2 && strcmp(argv[0], "server") == 0)
		serve(argv[1], port);
	else if (argc == 2)
		run(job, argv[0], argv[1], port);
	else {
		print_usage(stderr);
		return 2;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * netpeer: latencies and rates of plain sockets, for comparison with urnic.
 *
 * A server serves one client and ends, as perftest's programs do. Both meet on a TCP connection, by
 * which the client says what to measure. The TCP modes use that connection; for the UDP modes each
 * side also opens a socket. Each mode has two functions, one per side. Errors end the process.
 */
#ifndef BENCH_NETPEER_H
#define BENCH_NETPEER_H

#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

enum mode {
#define MODE(identifier, name, summary) MODE_##identifier,
#include "modes.def"
#undef MODE
	MODE_COUNT,
};

enum {
	MESSAGE_BYTES_MAX = 1 << 24,
	PACKET_BYTES_MIN = 32,
	PACKET_BYTES_MAX = 65000,
	ROUNDS_MAX = 1 << 24,
	DEPTH_MAX = 1024,
	DURATION_MS_MAX = 600000,
	REQUEST_BYTES = 16, /* the size of a RETH: address, key, length */
	WARM_UP_ROUNDS = 200,
};

/*
 * What to measure. The client sends this struct as it is, because both ends run the same program.
 */
struct job {
	uint32_t mode;
	uint32_t message_bytes; /* 1 to MESSAGE_BYTES_MAX */
	uint32_t packet_bytes; /* UDP streams: UDP payload of each packet */
	uint32_t rounds; /* pingpong, request: how many rounds */
	uint32_t depth; /* request: how many are outstanding at once */
	uint32_t duration_ms; /* streams: how long */
	uint32_t window_bytes; /* UDP streams: most bytes sent and not yet reported; 0: no limit */
	uint32_t sleeps; /* pingpong: 1: sleep until a message arrives; 0: poll */
};

/* What the receiver of a stream has counted. */
struct tally {
	uint64_t bytes;
	uint64_t duration_ns; /* from the first arrival to the last */
};

typedef void mode_function(const struct job *job, int control_fd);

#define MODE(identifier, name, summary) mode_function identifier##_serve, identifier##_run;
#include "modes.def"
#undef MODE

noreturn void give_up(const char *what);

uint64_t now_ns(void);

/*
 * Send or receive exactly `size` bytes. They poll if the descriptor is nonblocking. If the peer
 * closes the connection early, the process ends.
 */
void send_all(int fd, const void *bytes, size_t size);
void receive_all(int fd, void *bytes, size_t size);

/* Allocate a buffer and write to each of its pages, so that they exist. It is never freed. */
void *make_buffer(size_t size);

/*
 * Print mean, minimum, median, 99th and 99.9th percentile of `count` durations in microseconds,
 * each divided by `divisor`. Sorts `durations_ns`.
 */
void print_latency(uint64_t *durations_ns, size_t count, unsigned divisor);

void print_bandwidth(struct tally tally);

#endif

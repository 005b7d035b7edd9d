/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TCP_H
#define URNIC_NVMF_TARGET_TCP_H

/*
 * The target's TCP transport (NVMe/TCP transport 1.0).
 *
 * A listener accepts connections to one port, on the target's loop and thread. Each connection is a
 * queue. Its memory is the kernel's socket buffers, the queue with its commands, and the data of
 * pending commands.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "nvmf/target/command/dispatch.h"

struct target_tcp;

struct target_tcp_settings {
	struct target *target;
	struct target_port *port;
	/* With port number 0 the kernel chooses one, which target_tcp_port_number() returns. */
	struct sockaddr_storage address;
	uint32_t in_capsule_bytes; /* for I/O commands: a multiple of 16, at most 65,536; 0: none */
	uint32_t h2c_bytes_max; /* MAXH2CDATA: a multiple of 4, at least 4,096; 0: 131,072 */
	uint32_t r2t_bytes_max; /* the most data that one R2T requests; 0: 262,144 */
	/* The most data of all queues together, but each queue always gets 2 MiB. 0: 512 MiB. */
	uint64_t data_bytes_max;
	uint64_t icreq_timeout_ns; /* from accept() to ICReq; 0: 10 seconds */
	uint64_t r2t_timeout_ns; /* from an R2T to the last byte of its data; 0: 60 seconds */
	bool refuses_digests;
};

struct target_tcp_counters {
	uint64_t accepted;
	uint64_t refused_pdus; /* connections that the target ended by a TermReq */
	uint64_t terminated; /* connections that the host ended by a TermReq */
	uint64_t icreq_timeouts;
	uint64_t r2t_timeouts;
	uint64_t data_digest_errors;
	uint64_t received_bytes, sent_bytes;
};

enum { TARGET_TCP_SENTENCE_BYTES = 256 };

/* Listen. Returns 0, or -errno with a sentence that says what is wrong, and what to do. */
int target_tcp_create(
	const struct target_tcp_settings *settings, struct target_tcp **ret_tcp, char *sentence);

/* Accept no more connections. The present connections stay. */
void target_tcp_stop(struct target_tcp *tcp);

/* Free a listener whose target_tcp_connection_count() is 0. `tcp` may be NULL. */
void target_tcp_destroy(struct target_tcp *tcp);

uint32_t target_tcp_connection_count(const struct target_tcp *tcp);
/* How many bytes the data of commands takes at present, without in-capsule data. */
uint64_t target_tcp_data_bytes(const struct target_tcp *tcp);
uint16_t target_tcp_port_number(const struct target_tcp *tcp);
const struct target_tcp_counters *target_tcp_counters(const struct target_tcp *tcp);

/*
 * Serve a connected stream socket, which the transport owns from now on. Listeners call this for
 * each accepted socket. Returns 0; -EUSERS if the host has its share of connections; or another
 * -errno. On failure the socket is closed.
 */
int target_tcp_attach(struct target_tcp *tcp, int fd, const char *peer);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TCP_H
#define URNIC_NVMF_TARGET_TCP_H

/*
 * The target's TCP transport (NVMe/TCP transport 1.0).
 *
 * A listener accepts connections to one port, on the target's loop and thread. Each connection is a
 * queue, in the kernel's socket buffers and the following memory: tcp_queue_bytes() for the queue
 * and its commands, and, while a command is under way, its data.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "nvmf/target/core/transport.h"

struct target_tcp;

struct target_tcp_settings {
	struct target *target;
	struct target_port *port;
	struct sockaddr_storage address; /* port number 0: any, see target_tcp_port_number() */
	uint32_t in_capsule_bytes; /* of I/O commands: a multiple of 16, at most 65,536; 0: none */
	uint32_t h2c_bytes_max; /* MAXH2CDATA: a multiple of 4 from 4,096; 0: 131,072 */
	uint32_t r2t_bytes_max; /* data that one R2T asks for; 0: 262,144 */
	uint64_t data_bytes_max; /* of all queues, beside 2 MiB for each; 0: 512 MiB */
	uint64_t icreq_timeout_ns; /* from accept() to ICReq; 0: 10 seconds */
	bool refuses_digests;
};

struct target_tcp_counters {
	uint64_t accepted;
	uint64_t refused_pdus; /* connections that ended by a TermReq of ours */
	uint64_t terminated; /* connections that ended by a TermReq of the host */
	uint64_t icreq_timeouts;
	uint64_t data_digest_errors;
	uint64_t received_bytes, sent_bytes;
};

enum { TARGET_TCP_SENTENCE_BYTES = 256 };

/* Listen. 0, or -errno with a sentence that says what is wrong, and what to do. */
int target_tcp_create(
	const struct target_tcp_settings *settings, struct target_tcp **ret_tcp, char *sentence);

/* Accept no more. Connections stay. */
void target_tcp_stop(struct target_tcp *tcp);

/* Each connection has ended: target_tcp_connection_count() is 0. NULL is fine. */
void target_tcp_destroy(struct target_tcp *tcp);

uint32_t target_tcp_connection_count(const struct target_tcp *tcp);
/* Memory for the data of commands, without that of capsules. */
uint64_t target_tcp_data_bytes(const struct target_tcp *tcp);
uint16_t target_tcp_port_number(const struct target_tcp *tcp);
const struct target_tcp_counters *target_tcp_counters(const struct target_tcp *tcp);

/*
 * Serve a connected stream socket, which belongs to the transport from now on. Listeners call it
 * for what they accept. 0 or -errno, -EUSERS if the host has its share of connections; on failure
 * the socket is closed.
 */
int target_tcp_attach(struct target_tcp *tcp, int fd, const char *peer);

#endif

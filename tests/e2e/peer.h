/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_PEER_H
#define URNIC_TESTS_E2E_PEER_H

/*
 * What the test programs of this folder share: two processes, a device each, and reliable
 * connections between them.
 *
 * The programs are ordinary ones: they link the system's libibverbs, and `urnic run` starts them.
 * Of a pair, the server waits for the client on a TCP port. That connection carries what queue
 * pairs need to know of each other and keeps both in step; it is not part of what is tested.
 *
 * No function here returns an error: a failure is printed and ends the program with status 1. Each
 * wait ends after PEER_TIMEOUT_S. One thread per `struct peer`.
 */

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	PEER_TIMEOUT_S = 120, /* a machine may be busy with much else */
	PEER_PORT = 18600,
};

/* Say why, and end. */
#define CHECK(condition, ...)                                                   \
	do {                                                                    \
		if (!(condition))                                               \
			peer_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)

__attribute__((format(printf, 4, 5), noreturn)) void peer_fail(
	const char *file, int line, const char *condition, const char *format, ...);

struct peer_options {
	const char *server; /* its address, at the client; NULL at the server */
	const char *device; /* NULL: the first */
	int port;
	uint8_t gid_index;
	uint32_t mtu_bytes; /* 0: the port's active MTU */
	uint8_t timeout; /* local ACK timeout code; 14: 67 ms */
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint32_t count; /* how much to do; each program has its own unit. 0: its default */
	bool is_shared; /* queue pairs receive from one shared receive queue */
	const char *what; /* which part of the program, where it has parts */
};

struct peer {
	struct peer_options options;
	struct ibv_context *context;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* NULL: there is none */
	int socket;
	uint32_t connections; /* of queue pairs, so far */
};

/* A remote buffer, as it goes over the TCP connection. */
struct peer_buffer {
	uint64_t address;
	uint32_t rkey;
	uint32_t bytes;
};

/* What a queue pair can do: everything, `rd_atomic` 16, unless a test says otherwise. */
struct peer_link {
	int access;
	uint8_t rd_atomic;
	uint8_t dest_rd_atomic;
};
extern const struct peer_link peer_link_full;

/*
 * Read the options that all programs have:
 * [-d DEVICE] [-x GID] [-m MTU] [-p PORT] [-t TIMEOUT] [-r RETRIES] [-R RNR-RETRIES] [-n COUNT]
 * [-w WHAT] [SERVER].
 */
void peer_parse(struct peer_options *options, int argc, char **argv);

/* Open the device and make a protection domain. */
void peer_open(struct peer *peer, const struct peer_options *options);
/* Meet the other process. */
void peer_meet(struct peer *peer);
void peer_close(struct peer *peer);

static inline bool peer_is_server(const struct peer *peer)
{
	return peer->options.server == NULL;
}

/* Over TCP: send `bytes`; receive as many of the other's; is there something to receive? */
void peer_tell(struct peer *peer, const void *ours, size_t bytes);
void peer_hear(struct peer *peer, void *theirs, size_t bytes);
bool peer_has_told(struct peer *peer);
/* Both. */
void peer_exchange(struct peer *peer, const void *ours, void *theirs, size_t bytes);
/* Go on when the other is here, too. */
void peer_barrier(struct peer *peer);

/* An RC queue pair in RESET, all of its limits `depth`, `sge_count` and `inline_bytes`. */
struct ibv_qp *peer_qp_create(struct peer *peer, struct ibv_cq *cq, uint32_t depth,
	uint32_t sge_count, uint32_t inline_bytes);
/* Bring it to RTS, connected with the queue pair for which the other makes the same call. */
void peer_qp_connect(struct peer *peer, struct ibv_qp *qp, const struct peer_link *link);
/* Connect `count` of them, each with the other's at the same place; few messages over TCP. */
void peer_qps_connect(
	struct peer *peer, struct ibv_qp **qps, uint32_t count, const struct peer_link *link);
/* The same in two parts: to RTR, which returns the PSN for the second, and on to RTS. */
uint32_t peer_qp_to_rtr(struct peer *peer, struct ibv_qp *qp, const struct peer_link *link);
void peer_qp_to_rts(
	struct peer *peer, struct ibv_qp *qp, uint32_t psn, const struct peer_link *link);
/* Connect two of this process's own. */
void peer_qp_join(struct peer *peer, struct ibv_qp *one, struct ibv_qp *other);
enum ibv_qp_state peer_qp_state(struct ibv_qp *qp);

struct ibv_cq *peer_cq_create(struct peer *peer, int entries, struct ibv_comp_channel *channel);

/* Allocate `bytes` and register them with every right. */
struct ibv_mr *peer_memory(struct peer *peer, size_t bytes);
void peer_memory_free(struct ibv_mr *mr);
struct peer_buffer peer_buffer_of(const struct ibv_mr *mr);

/* Post one send request and expect that it is taken. */
void peer_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
/* Post a receive request of a range of `mr`. */
void peer_post_recv(
	struct ibv_qp *qp, uint64_t wr_id, struct ibv_mr *mr, size_t offset, size_t bytes);
struct ibv_sge peer_sge(const struct ibv_mr *mr, size_t offset, size_t bytes);

/* Poll for the next completion; false when there is none in `ms` milliseconds. */
bool peer_completion_within(struct ibv_cq *cq, unsigned ms, struct ibv_wc *ret_wc);
/* Poll for the next completion. */
struct ibv_wc peer_completion(struct ibv_cq *cq);
/* The same, and it must be a success. */
struct ibv_wc peer_success(struct ibv_cq *cq);
/* There is none now, nor in the next `ms` milliseconds. */
void peer_no_completion(struct ibv_cq *cq, unsigned ms);

uint64_t peer_now_ms(void);
void peer_sleep_ms(unsigned ms);

/*
 * A pattern: byte `index` of the stream `seed`. Two streams differ nearly everywhere.
 */
uint8_t peer_pattern(uint64_t seed, uint64_t index);
void peer_pattern_fill(uint8_t *bytes, size_t count, uint64_t seed);
/* Expect the pattern; `what` says of what. */
void peer_pattern_check(const uint8_t *bytes, size_t count, uint64_t seed, const char *what);

/* A small generator; the same seed gives the same numbers. */
uint64_t peer_random(uint64_t *state);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the simulated network of byte streams shares between its streams and its faults. */
#ifndef URNIC_TESTS_SIM_NVMF_NETWORK_INTERNAL_H
#define URNIC_TESTS_SIM_NVMF_NETWORK_INTERNAL_H

#include "nvmf_network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/list.h"

enum {
	ENDS_MAX = 512,
	PIPE_BYTES = 64 << 10,
};

/* One direction of a stream. Counts of bytes since its beginning. */
struct pipe {
	struct stream *stream;
	unsigned from; /* the end that sends */
	uint64_t written, arrived, read;
	uint32_t capacity;
	bool is_ended; /* the sender has closed it */
	bool is_end_arrived;
	bool is_reset; /* a reset is behind the bytes */
	bool is_dead; /* what is sent from now on is lost */
	unsigned bits_to_invert;
	uint64_t stalled_until_ns;
	struct loop_timer timer; /* the next piece, end or reset arrives */
	uint8_t bytes[PIPE_BYTES];
};

enum end_state {
	END_CONNECTING,
	END_OPEN,
	END_BACKLOG, /* not accepted yet */
	END_GONE,
	END_LISTENING,
};

struct end {
	struct nvmf_network *network;
	unsigned machine;
	enum end_state state;
	int fd; /* -1: none */
	int error; /* to be told once: a positive errno */
	struct stream *stream; /* NULL: a listener */
	unsigned number; /* of the stream: 0 the client */
	struct loop_watch *watch;
	struct list backlog; /* of a listener, or in it */
};

struct stream {
	struct list node;
	struct nvmf_network *network;
	struct end end[2];
	struct pipe pipe[2]; /* by the end that sends */
	struct loop_timer connect; /* the client's request, or its answer, arrives */
	bool has_answer;
};

struct machine {
	struct network network; /* first */
	struct nvmf_network *owner;
	unsigned number;
	bool is_down;
};

struct nvmf_network {
	struct nvmf_world *world;
	uint64_t latency_ns;
	struct machine machine[NVMF_MACHINES];
	uint64_t cut_until_ns[NVMF_HOSTS];
	struct end *end[ENDS_MAX]; /* by descriptor */
	unsigned end_limit; /* no descriptor from here on was ever used */
	struct end listener;
	struct list streams;
	unsigned starved;
	struct nvmf_network_counts counts;
};

/* Returns the machine of the stream's host. */
unsigned stream_host(const struct stream *stream);

/* Set when the next piece, end or reset of the pipe arrives, unless that is set. */
void pipe_schedule(struct pipe *pipe);

/* The sender of the pipe ends the stream in this direction. */
void pipe_end(struct pipe *pipe);

/*
 * The sender of the pipe resets the stream. Some of what is on its way gets through, unless the
 * network is cut: then all of it is lost, and the reset too.
 */
void pipe_reset(struct pipe *pipe);

/* The other end resets the stream: what was read from it so far stays. */
void end_reset_arrived(struct end *end);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A copy of the public state in a process's NIC memory.
 *
 * The process changes the memory during the copy, and may have another version of urnic or be
 * hostile. Root reads the memory of every user. So this code does not map the memory: the owner
 * could truncate it, and the next access would cause SIGBUS. This code copies piece by piece with
 * pread(), checks every offset and index, and limits every walk. When a walk meets a queue pair
 * that has just gone, the walk begins again, up to WALKS_MAX times.
 *
 * Each counter is exact, but the counters are read one after the other.
 */
#ifndef TOOLS_STAT_MEMORY_H
#define TOOLS_STAT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "segment/nic_public.h"

struct stat_queue {
	bool is_known; /* false: the queue has gone meanwhile */
	uint32_t depth; /* how many requests the queue has room for */
	uint32_t waiting; /* requests posted and not yet completed (send) or taken (receive) */
};

struct stat_qp {
	uint32_t qpn;
	enum qp_type type;
	enum qp_state state;
	uint32_t dest_qpn;
	uint32_t ifindex; /* its device's interface */
	struct gid local; /* zero until the queue pair has a path */
	struct gid remote;
	struct stat_queue send_queue;
	struct stat_queue recv_queue;
	uint64_t counters[COUNTER_COUNT];
};

struct stat_lane {
	uint32_t index;
	uint32_t slot;
	/* False if each attempt found the list of queue pairs broken. */
	bool is_complete;
	uint64_t drops[DROP_COUNT];
	struct port_udp_counters port;
	uint32_t qp_count;
	struct stat_qp *qps; /* oldest first */
};

struct stat_srq {
	uint32_t number;
	struct stat_queue recv_queue;
};

struct stat_memory {
	uint32_t mr_count;
	uint32_t srq_count;
	struct stat_srq *srqs; /* newest first */
	struct cc_params cc;
	bool has_cc; /* `cc` is known */
	struct cm_counters cm;
	uint32_t lane_count;
	struct stat_lane lanes[NIC_LANES_MAX];
};

/*
 * Copy the state.
 *
 * `fd`          The memfd of the owner's side.
 * `pid`         The process. Its descriptor of the peers' side is duplicated; if that fails, the
 *               counters lack what peers have counted.
 * `ret_memory`  On success the caller passes it to stat_memory_done().
 *
 * Returns 0, -EPROTO if `fd` is no NIC memory of this version, -ENOMEM, or the -errno of reading.
 */
int stat_memory_read(int fd, pid_t pid, struct stat_memory *ret_memory);

void stat_memory_done(struct stat_memory *memory);

#endif

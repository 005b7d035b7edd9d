/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A copy of the public state in a process's NIC memory.
 *
 * The process changes the memory during the copy, and may be of another version or hostile; root
 * reads the memory of every user. The memory is not mapped, because its owner could truncate it,
 * which would cause SIGBUS. pread() copies it piece by piece and bounds each offset. Every index is
 * checked, every walk is bounded. A walk that meets a queue pair that has just gone begins again,
 * up to WALKS_MAX times.
 *
 * Each counter is exact; the set as a whole is not a snapshot.
 */
#ifndef TOOLS_STAT_MEMORY_H
#define TOOLS_STAT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "segment/nic_public.h"

struct stat_queue {
	bool is_known; /* false: the queue has gone meanwhile */
	uint32_t depth; /* requests that it has room for */
	uint32_t waiting; /* requests posted and not yet completed (send) or taken (receive) */
};

struct stat_qp {
	uint32_t qpn;
	enum qp_type type;
	enum qp_state state;
	uint32_t dest_qpn;
	uint32_t ifindex; /* of its device */
	struct gid local; /* zero until the queue pair has a path */
	struct gid remote;
	struct stat_queue send_queue;
	struct stat_queue recv_queue;
	uint64_t counters[COUNTER_COUNT];
};

struct stat_lane {
	uint32_t index;
	uint32_t slot;
	/* False if the list of queue pairs was broken in each attempt */
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
	struct cm_counters cm;
	uint32_t lane_count;
	struct stat_lane lanes[NIC_LANES_MAX];
};

/*
 * Copy the state.
 *
 * `fd`          The memfd: the owner's side.
 * `pid`         The process, which has the peers' side. Without that side, the counts of peers are
 *               missing.
 * `ret_memory`  For stat_memory_done() on success.
 *
 * Returns 0, -EPROTO if it is no NIC memory of this version, -ENOMEM, or the -errno of reading.
 */
int stat_memory_read(int fd, pid_t pid, struct stat_memory *ret_memory);

void stat_memory_done(struct stat_memory *memory);

#endif

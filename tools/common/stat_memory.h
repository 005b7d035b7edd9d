/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process's NIC memory says, copied out of it.
 *
 * The memory belongs to somebody else, who changes it while we read, may be of another version, or
 * may mean harm: root looks at everybody's. So it is not mapped (its owner could truncate it under
 * our feet, which is a SIGBUS) but copied piece by piece with pread(), which bounds each offset;
 * every number that is used as an index is checked, and every walk is bounded. A walk that meets a
 * queue pair which just went away begins again, a few times.
 *
 * Each counter is exact; the set as a whole is not a snapshot.
 */
#ifndef TOOLS_STAT_MEMORY_H
#define TOOLS_STAT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "segment/nic_public.h"

/* How full a work queue is. */
struct stat_queue {
	bool is_known; /* false if the queue went away meanwhile */
	uint32_t depth; /* requests that it has room for */
	uint32_t waiting; /* requests posted and not yet done (send) or taken (receive) */
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
	/* False if the list of queue pairs was broken each time that it was read */
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
 * Read all there is.
 *
 * `fd`          The memfd: the owner's side.
 * `pid`         The process that it belongs to, which has the peers' side. Without that, what peers
 *               have counted is missing.
 * `ret_memory`  To be given to stat_memory_done() on success.
 *
 * Returns 0, -EPROTO if it is no NIC memory of this version, -ENOMEM, or the -errno of reading.
 */
int stat_memory_read(int fd, pid_t pid, struct stat_memory *ret_memory);

void stat_memory_done(struct stat_memory *memory);

#endif

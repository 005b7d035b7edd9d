/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/stat_memory.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/arith.h"
#include "local/channel/channel.h"
#include "segment/nic_memory.h"

enum {
	WALKS_MAX = 4, /* attempts at a list that changes meanwhile */
	QUEUE_DEPTH_MAX = 1 << 20, /* as in queue/sq.h and queue/rq.h */
};

/* Descriptors of NIC memory (segment/nic_public.h). */
struct sides {
	int owners;
	int peers; /* -1: not available */
};

/*
 * Copy `bytes` bytes at `offset`. Returns -EPROTO if they are not all within the memory, or if no
 * block can begin there: offsets come from the memory itself.
 */
static int copy_at(int fd, uint64_t offset, void *out, size_t bytes)
{
	ssize_t copied;

	if (offset % ARENA_BLOCK_BYTES_MIN != 0 || offset > INT64_MAX)
		return -EPROTO;
	copied = pread(fd, out, bytes, (off_t)offset);
	if (copied < 0)
		return errno == EINVAL ? -EPROTO : -errno;
	return (size_t)copied == bytes ? 0 : -EPROTO;
}

static void read_send_queue(int fd, uint64_t offset, struct stat_queue *ret_queue)
{
	struct send_queue sq;

	if (offset == 0 || copy_at(fd, offset, &sq, sizeof(sq)) < 0)
		return;
	ret_queue->depth = sq.depth;
	ret_queue->waiting = sq.posted - sq.completed;
	ret_queue->is_known = sq.depth <= QUEUE_DEPTH_MAX && ret_queue->waiting <= sq.depth;
}

/*
 * The peers' side has the number of taken requests. Without that side, use the number that the
 * owner knows.
 */
static void read_recv_queue(
	const struct sides *sides, uint64_t offset, struct stat_queue *ret_queue)
{
	struct recv_queue_takers takers;
	struct recv_queue rq;

	if (offset == 0 || copy_at(sides->owners, offset, &rq, sizeof(rq)) < 0)
		return;
	if (sides->peers < 0 || copy_at(sides->peers, offset, &takers, sizeof(takers)) < 0)
		takers.taken = rq.known;
	ret_queue->depth = rq.depth;
	ret_queue->waiting = rq.posted - (uint32_t)takers.taken;
	ret_queue->is_known = rq.depth <= QUEUE_DEPTH_MAX && ret_queue->waiting <= rq.depth;
}

/* Add the counts of a request channel: of the requests that its peer has executed here. */
static void read_channel(
	const struct sides *sides, uint64_t offset, uint64_t counters[COUNTER_COUNT])
{
	struct request_channel channel;

	if (offset == 0 || sides->peers < 0 ||
		copy_at(sides->peers, offset, &channel, sizeof(channel)) < 0)
		return;
	counters[COUNTER_rdma_writes] += channel.writes;
	counters[COUNTER_rdma_reads] += channel.reads;
	counters[COUNTER_rdma_atomics] += channel.atomics;
	counters[COUNTER_rdma_atomic_writes] += channel.atomic_writes;
	counters[COUNTER_rdma_flushes] += channel.flushes;
	counters[COUNTER_rcvd_bytes] += channel.bytes;
	counters[COUNTER_local_bytes] += channel.bytes;
}

/*
 * Read one queue pair of the list. Returns -EPROTO if the block is no queue pair of this slot: the
 * queue pair has gone, and its block may be reused.
 */
static int read_qp(const struct sides *sides, uint64_t offset, uint32_t slot,
	struct stat_qp *ret_qp, uint64_t *ret_next)
{
	struct qp_public public;
	struct counters counters;
	int result = copy_at(sides->owners, offset, &public, sizeof(public));

	if (result < 0)
		return result;
	if (public.qpn >> 16 != slot || public.type >= QP_TYPE_COUNT ||
		public.state >= QP_STATE_COUNT)
		return -EPROTO;
	result = copy_at(sides->owners, public.counters_offset, &counters, sizeof(counters));
	if (result < 0)
		return result;
	*ret_qp = (struct stat_qp){
		.qpn = public.qpn,
		.type = (enum qp_type) public.type,
		.state = (enum qp_state) public.state,
		.dest_qpn = public.dest_qpn,
		.ifindex = public.owner,
		.local = public.local,
		.remote = public.remote,
	};
	for (int i = 0; i < COUNTER_COUNT; i++)
		ret_qp->counters[i] = counter_read(&counters, (enum counter)i);
	read_channel(sides, public.channel_offset, ret_qp->counters);
	read_send_queue(sides->owners, public.sq_offset, &ret_qp->send_queue);
	read_recv_queue(sides, public.rq_offset, &ret_qp->recv_queue);
	*ret_next = public.next_offset;
	return 0;
}

/* Append a queue pair to lane->qps, whose capacity doubles. Returns NULL when out of memory. */
static struct stat_qp *append_qp(struct stat_lane *lane, uint32_t *capacity)
{
	if (lane->qp_count == *capacity) {
		uint32_t longer = max_u32(16, 2 * *capacity);
		struct stat_qp *qps = realloc(lane->qps, longer * sizeof(*qps));

		if (!qps)
			return NULL;
		lane->qps = qps;
		*capacity = longer;
	}
	return &lane->qps[lane->qp_count++];
}

/* Walk along the list of queue pairs once. Returns -EPROTO if the list is broken. */
static int walk_qps(
	const struct sides *sides, uint64_t offset, struct stat_lane *lane, uint32_t *capacity)
{
	uint64_t landmark = 0; /* detects a circular list (Brent's algorithm) */

	lane->qp_count = 0;
	while (offset != 0) {
		struct stat_qp *qp;
		int result;

		if (lane->qp_count == LANE_QP_COUNT_MAX || offset == landmark)
			return -EPROTO;
		if ((lane->qp_count & (lane->qp_count + 1)) == 0)
			landmark = offset;
		qp = append_qp(lane, capacity);
		if (!qp)
			return -ENOMEM;
		result = read_qp(sides, offset, lane->slot, qp, &offset);
		if (result < 0) {
			lane->qp_count--;
			return result;
		}
	}
	lane->is_complete = true;
	return 0;
}

/* The list in NIC memory has the newest queue pair first, stat_lane the oldest. */
static void reverse_qps(struct stat_lane *lane)
{
	for (uint32_t i = 0; i < lane->qp_count / 2; i++) {
		struct stat_qp *other = &lane->qps[lane->qp_count - 1 - i];
		struct stat_qp kept = lane->qps[i];

		lane->qps[i] = *other;
		*other = kept;
	}
}

static int read_lane(const struct sides *sides, uint64_t offset, struct stat_lane *lane)
{
	uint32_t capacity = 0;
	int result = -EPROTO;

	for (int walk = 0; walk < WALKS_MAX && result == -EPROTO; walk++) {
		struct lane_public public;

		result = copy_at(sides->owners, offset, &public, sizeof(public));
		if (result < 0)
			return result;
		lane->slot = public.slot;
		for (int i = 0; i < DROP_COUNT; i++)
			lane->drops[i] = public.drops[i];
		result = walk_qps(sides, public.first_qp_offset, lane, &capacity);
	}
	reverse_qps(lane);
	return result == -EPROTO ? 0 : result;
}

static int read_lanes(
	const struct sides *sides, const struct nic_public *directory, struct stat_memory *memory)
{
	int result = 0;

	for (uint32_t i = 0; i < NIC_LANES_MAX && result == 0; i++) {
		struct stat_lane *lane = &memory->lanes[memory->lane_count];

		if (directory->lanes[i].lane_offset == 0)
			continue;
		memory->lane_count++;
		lane->index = i;
		lane->port = directory->lanes[i].port;
		result = read_lane(sides, directory->lanes[i].lane_offset, lane);
	}
	return result;
}

/* Read the shared receive queues, as many as possible, because the list may change meanwhile. */
static int read_srqs(
	const struct sides *sides, const struct nic_public *directory, struct stat_memory *memory)
{
	uint32_t count_max = min_u32(directory->srq_count, SRQ_TABLE_SIZE);
	uint64_t offset = directory->first_srq_offset;

	if (count_max == 0)
		return 0;
	memory->srqs = calloc(count_max, sizeof(*memory->srqs));
	if (!memory->srqs)
		return -ENOMEM;
	while (offset != 0 && memory->srq_count < count_max) {
		struct stat_srq *srq = &memory->srqs[memory->srq_count];
		struct srq_public public;

		if (copy_at(sides->owners, offset, &public, sizeof(public)) < 0)
			break;
		memory->srq_count++;
		srq->number = public.number;
		read_recv_queue(sides, public.rq_offset, &srq->recv_queue);
		offset = public.next_offset;
	}
	return 0;
}

/* Duplicate the process's descriptor of the peers' side. Returns -1 if it is not available. */
static int peers_side_open(int owners, const struct nic_public *directory, pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct stat status;
	int fd;

	if (pidfd < 0)
		return -1;
	fd = fstat(owners, &status)
		? -1
		: nic_memory_get_shared(pidfd, directory->shared, (uint64_t)status.st_size);
	close(pidfd);
	return fd < 0 ? -1 : fd;
}

int stat_memory_read(int fd, pid_t pid, struct stat_memory *ret_memory)
{
	struct stat_memory memory = {0};
	struct sides sides = {.owners = fd};
	struct nic_public directory;
	int result = copy_at(fd, NIC_PUBLIC_OFFSET, &directory, sizeof(directory));

	if (result < 0)
		return result;
	if (!nic_public_is_current(&directory))
		return -EPROTO;
	memory.mr_count = directory.mr_count;
	memory.cm = directory.cm;
	memory.cc = directory.cc;
	memory.has_cc = (unsigned)directory.cc.algorithm < CC_ALGORITHM_COUNT &&
		(unsigned)directory.cc.preset < CC_PRESET_COUNT;
	sides.peers = peers_side_open(fd, &directory, pid);
	result = read_lanes(&sides, &directory, &memory);
	if (result == 0)
		result = read_srqs(&sides, &directory, &memory);
	if (sides.peers >= 0)
		close(sides.peers);
	if (result < 0) {
		stat_memory_done(&memory);
		return result;
	}
	*ret_memory = memory;
	return 0;
}

void stat_memory_done(struct stat_memory *memory)
{
	for (uint32_t i = 0; i < memory->lane_count; i++)
		free(memory->lanes[i].qps);
	free(memory->srqs);
	memory->srqs = NULL;
	memory->srq_count = 0;
	memory->lane_count = 0;
}

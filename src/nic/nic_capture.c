/* SPDX-License-Identifier: BSD-2-Clause */
/* The NIC's side of a capture (lane/capture.h). The capturing process may come and go. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/capture_socket.h"
#include "base/arith.h"
#include "nic/nic_internal.h"
#include "os/cancel.h"
#include "os/clock.h"

/*
 * Free the pages that lie entirely within the ring. A lane that writes to them meanwhile loses its
 * record.
 */
static void ring_discard(uint64_t offset)
{
	const struct record_ring *ring = arena_peers_side(arena_at(&nic.arena, offset));
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = align_up_u64((uint64_t)(uintptr_t)ring->bytes, page_bytes);
	uint64_t end = ((uint64_t)(uintptr_t)ring->bytes + sizeof(ring->bytes)) & ~(page_bytes - 1);

	madvise((void *)(uintptr_t)start, end - start, MADV_REMOVE);
}

static bool is_watched(void)
{
	struct flock lock = {.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)NIC_CAPTURE_LOCK_OFFSET,
		.l_len = 1};

	return fcntl(nic.memory, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

/*
 * The function for capture_owner.look: turn the capture off if the capturing process has ended. A
 * worker is locked.
 */
static void capture_look(void)
{
	int cancel = cancel_forbid();

	if (!is_watched()) {
		atomic_store(&nic_public_capture(nic.public)->session, 0);
		for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
			uint64_t offset = atomic_load(&nic.public->lanes[i].capture_offset);

			if (offset)
				ring_discard(offset);
		}
	}
	cancel_allow(cancel);
}

static const struct capture_owner owner = {
	.now_ns = clock_now_ns, .ticks = clock_ticks, .look = capture_look};

void nic_capture_start(void)
{
	struct capture_public *capture = nic_public_capture(nic.public);

	atomic_store(&capture->snap_bytes, CAPTURED_BYTES_MAX);
	/*
	 * Set `session` before the offer, because the capturing process may clear it after the
	 * offer.
	 */
	atomic_store(&capture->session, 1);
	if (!capture_socket_offer(nic.memory, nic.shared))
		atomic_store(&capture->session, 0);
}

int nic_capture_lane_start(struct worker *worker, struct nic_public_lane *public)
{
	uint64_t offset = arena_alloc(&nic.arena, sizeof(struct record_ring));

	if (!offset)
		return -ENOMEM;
	worker->capture = (struct capture){
		.public = nic_public_capture(nic.public),
		.ring = arena_peers_side(arena_at(&nic.arena, offset)),
		.owner = &owner,
	};
	worker->lane.capture = &worker->capture;
	worker->lane.capture_public = nic_public_capture(nic.public);
	atomic_store_explicit(&public->capture_offset, offset, memory_order_release);
	return 0;
}

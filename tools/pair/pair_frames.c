/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair/pair_frames.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	BLOCKS_MAX = 512, /* 64 MiB; enough for 10 s if each block has few frames */
	BLOCKS_MIN = 16,
	/* The kernel demands a frame length that divides a block, and does not use it. */
	FRAME_BYTES = 1 << 11,
	GSO_UDP_L4 = 5, /* VIRTIO_NET_HDR_GSO_UDP_L4 of Linux 6.2 */
};

/* --- blocks --- */

/* The block that is `index` blocks behind the one that is being read. */
static struct tpacket_block_desc *block_behind(const struct pair_frames *frames, uint32_t index)
{
	uint32_t block = (frames->block + index) % frames->block_count;

	return (void *)(frames->blocks + (size_t)block * PAIR_FRAMES_BLOCK_BYTES);
}

static struct tpacket_block_desc *block_at(const struct pair_frames *frames)
{
	return block_behind(frames, 0);
}

static bool is_handed_over(const struct tpacket_block_desc *block)
{
	return __atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

/* If the kernel has handed over the next block, begin to read it. */
static bool block_take(struct pair_frames *frames)
{
	const struct tpacket_block_desc *block = block_at(frames);

	if (!is_handed_over(block))
		return false;
	frames->has_block = true;
	frames->left = block->hdr.bh1.num_pkts;
	frames->at = (const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
	return true;
}

/*
 * Give the block back to the kernel. The kernel may begin to fill it only when a frame comes, so
 * this function clears the count for pair_frames_is_empty().
 */
static void block_release(struct pair_frames *frames)
{
	struct tpacket_block_desc *block = block_at(frames);

	block->hdr.bh1.num_pkts = 0;
	__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	frames->has_block = false;
	frames->block = (frames->block + 1) % frames->block_count;
}

bool pair_frames_is_empty(const struct pair_frames *frames)
{
	const struct tpacket_block_desc *block = block_at(frames);

	return !frames->has_block && !is_handed_over(block) &&
		!__atomic_load_n(&block->hdr.bh1.num_pkts, __ATOMIC_RELAXED);
}

bool pair_frames_is_half_full(const struct pair_frames *frames)
{
	return is_handed_over(block_behind(frames, frames->block_count / 2));
}

/* --- frames --- */

/* The length of the segments, if the frame is a super-packet of UDP. */
static uint32_t segment_bytes_of(const uint8_t *frame)
{
	struct virtio_net_hdr segments;

	memcpy(&segments, frame - sizeof(segments), sizeof(segments));
	return segments.gso_type == GSO_UDP_L4 ? segments.gso_size : 0;
}

bool pair_frames_next(struct pair_frames *frames, struct pair_frame *ret_frame)
{
	const struct tpacket3_hdr *head;
	const struct sockaddr_ll *from;

	while (!frames->left) {
		if (frames->has_block)
			block_release(frames);
		if (!block_take(frames))
			return false;
	}
	head = (const void *)frames->at;
	from = (const void *)(frames->at + TPACKET_ALIGN(sizeof(*head)));
	*ret_frame = (struct pair_frame){
		.time_ns = (uint64_t)head->tp_sec * 1000000000u + head->tp_nsec,
		.bytes = frames->at + head->tp_mac,
		.count = head->tp_snaplen,
		.whole = head->tp_len,
		.is_outbound = from->sll_pkttype == PACKET_OUTGOING,
	};
	if (frames->knows_segments)
		ret_frame->segment_bytes = segment_bytes_of(ret_frame->bytes);
	frames->at += head->tp_next_offset;
	frames->left--;
	return true;
}

/* --- the socket --- */

/* Give the socket its ring, as long as the kernel has memory for one. Returns 0 or -errno. */
static int ring_make(struct pair_frames *frames)
{
	int version = TPACKET_V3, error = 0;
	void *blocks;

	if (setsockopt(frames->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)))
		return -errno;
	for (uint32_t count = BLOCKS_MAX; count >= BLOCKS_MIN; count /= 2) {
		const struct tpacket_req3 request = {
			.tp_block_size = PAIR_FRAMES_BLOCK_BYTES,
			.tp_block_nr = count,
			.tp_frame_size = FRAME_BYTES,
			.tp_frame_nr = count * (PAIR_FRAMES_BLOCK_BYTES / FRAME_BYTES),
			.tp_retire_blk_tov = PAIR_FRAMES_WAIT_MS,
		};

		frames->block_count = count;
		error = setsockopt(
				frames->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request))
			? -errno
			: 0;
		if (error != -ENOMEM)
			break;
	}
	if (error)
		return error;
	blocks = mmap(NULL, (size_t)frames->block_count * PAIR_FRAMES_BLOCK_BYTES,
		PROT_READ | PROT_WRITE, MAP_SHARED, frames->fd, 0);
	if (blocks == MAP_FAILED)
		return -errno;
	frames->blocks = blocks;
	return 0;
}

int pair_frames_open(struct pair_frames *frames, unsigned ifindex, bool knows_segments)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)ifindex,
	};
	int on = 1, error = 0;

	/* Without a protocol, the socket gets no frames before bind(). */
	*frames = (struct pair_frames){.fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0),
		.knows_segments = knows_segments};
	if (frames->fd < 0)
		return -errno;
	if (knows_segments && setsockopt(frames->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)))
		error = -errno;
	if (!error)
		error = ring_make(frames);
	if (!error && bind(frames->fd, (const struct sockaddr *)&address, sizeof(address)))
		error = -errno;
	if (error)
		pair_frames_close(frames);
	return error;
}

void pair_frames_close(struct pair_frames *frames)
{
	if (frames->blocks)
		munmap(frames->blocks, (size_t)frames->block_count * PAIR_FRAMES_BLOCK_BYTES);
	close(frames->fd);
}

uint32_t pair_frames_dropped(const struct pair_frames *frames)
{
	struct tpacket_stats_v3 stats = {0};
	socklen_t bytes = sizeof(stats);

	getsockopt(frames->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes);
	return stats.tp_drops;
}

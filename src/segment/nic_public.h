/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_NIC_PUBLIC_H
#define URNIC_SEGMENT_NIC_PUBLIC_H

/*
 * The directory of a process's NIC memory, from which a reader in another process starts.
 *
 * NIC memory is two memfds of the same length (base/arena.h). The owner's side, which urnicd hands
 * out, is sealed, so only its owner writes there. Peers duplicate the descriptor of the peers' side
 * (`shared`) from the owner's process. A block of the peers' side is the twin of the block at the
 * same offset of the owner's side.
 *
 * The directory is the first block of the arena, at NIC_PUBLIC_OFFSET. A reader copies with
 * pread(), checks magic and version, and follows offsets: directory -> lanes -> queue pairs,
 * directory -> shared receive queues, directory -> last messages of connections. The owner may
 * change all of this during a walk. So a reader checks every offset against the size of the memory,
 * and limits the number of steps of every walk.
 */

#include <stdint.h>

#include "cm/cm.h"
#include "congestion/cc_params.h"
#include "engine/engine.h"
#include "lane/capture.h"
#include "port/udp/udp.h"

#define NIC_PUBLIC_MAGIC  0x75726e6963ull /* "urnic" */
#define NIC_PUBLIC_OFFSET ARENA_FIRST_OFFSET

/*
 * The version of the layout. A process of another build sees that the version differs, and does not
 * use the memory. The version is a hash of NIC_PUBLIC_REVISION and of the sizes of all structs of
 * segment/nic_layout.def. A change that keeps all sizes, or a change of struct nic_export, needs a
 * new NIC_PUBLIC_REVISION.
 */
#define NIC_PUBLIC_REVISION 26u
#define NIC_PUBLIC_VERSION  nic_public_version()
uint32_t nic_public_version(void);

/*
 * `urnic capture` locks this byte of the memfd, so that only one process reads the capture at a
 * time. The owner of the NIC memory stops recording when the byte is no longer locked.
 */
#define NIC_CAPTURE_LOCK_OFFSET (1ull << 41)

enum {
	NIC_LANES_MAX = 16,
	NIC_PUBLIC_XRCDS_MAX = 256, /* further XRC domains are invisible to other processes */
};

struct nic_public_lane {
	_Atomic uint64_t lane_offset; /* struct lane_public; 0 while there is no such lane */
	_Atomic uint64_t channels_offset; /* struct channel_table; 0: none */
	_Atomic uint64_t doorbell_offset; /* struct doorbell, on the peers' side */
	/*
	 * A struct record_ring on the peers' side. A `struct captured` or a `struct
	 * captured_repeat` begins each record.
	 */
	_Atomic uint64_t capture_offset;
	_Atomic uint64_t endpoints_offset; /* struct ud_endpoint_table; 0: none */
	int32_t kick; /* the owner's descriptor of an eventfd that wakes the lane's thread */
	uint32_t reserved;
	struct port_udp_counters port;
};

/* An XRC domain that the owner's program has opened by a file. */
struct nic_public_xrcd {
	_Atomic uint32_t ifindex; /* the interface of the domain's device; 0: there is no domain */
	uint32_t reserved;
	struct xrc_file file;
};

struct nic_public {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;
	uint32_t mr_count;
	uint32_t srq_count;
	_Atomic uint64_t first_srq_offset; /* struct srq_public, linked by next_offset */
	uint64_t segments_offset; /* struct segment_public[SEGMENT_COUNT_MAX]; 0: none */
	struct nic_public_lane lanes[NIC_LANES_MAX];
	struct mr_public mrs;
	int32_t life; /* the owner's descriptor of a pipe's read end; EOF when the NIC ends */
	int32_t shared; /* the owner's descriptor of the peers' side of NIC memory */
	uint64_t base; /* address of NIC memory in its owner's address space */
	uint64_t identity; /* random and unique */
	uint64_t netns; /* the owner's network namespace: see agent/namespace_lookup.h */
	uint64_t borrowers_offset; /* struct borrower_table, on the peers' side */
	uint64_t waiters_offset; /* struct waiter_table; 0: none */
	struct nic_public_xrcd xrcds[NIC_PUBLIC_XRCDS_MAX];
	uint64_t exports_offset; /* struct nic_export[], one per handle (nic_import.h); 0: none */
	/* struct cm_last_message[CM_LAST_MESSAGES_MAX]; 0 while there is no connection manager. */
	_Atomic uint64_t last_messages_offset;
	struct cc_params cc; /* the congestion control of all queue pairs */
	struct cm_counters cm; /* the connection manager's counters; zero while there is none */
	struct capture_public capture; /* on the peers' side: the capturing process writes it */
};

/* The directory of NIC memory that is mapped at `base`. */
static inline const struct nic_public *nic_public_at(const uint8_t *base)
{
	return (const struct nic_public *)(const void *)(base + NIC_PUBLIC_OFFSET);
}

/* Does the NIC memory have the layout of this build? */
static inline bool nic_public_is_current(const struct nic_public *public)
{
	return public->magic == NIC_PUBLIC_MAGIC && public->version == NIC_PUBLIC_VERSION;
}

static inline struct capture_public *nic_public_capture(const struct nic_public *public)
{
	return (struct capture_public *)arena_peers_side(&public->capture);
}

#endif

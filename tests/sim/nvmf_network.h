/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated network of byte streams (nvmf/common/network.h) between three machines.
 *
 * A stream cuts what is sent at random places, and delays the pieces. Its buffers are finite. The
 * network between two machines can be cut for a while: then bytes wait, and resets get lost. A
 * stream can be reset, at both ends or at one end without a message to the other. It can also stop,
 * end in one direction, and invert bits.
 *
 * close() works as for sockets. At a client it drops bytes that have not arrived, and resets the
 * stream. At a server it ends the stream, or resets it if bytes were not read. Bytes that arrive at
 * a closed stream cause a reset.
 */
#ifndef URNIC_TESTS_SIM_NVMF_NETWORK_H
#define URNIC_TESTS_SIM_NVMF_NETWORK_H

#include "nvmf/common/network.h"
#include "nvmf_world.h"

struct nvmf_network;

struct nvmf_network_counts {
	uint64_t streams, pieces, bytes;
	uint64_t resets, inverted;
};

/* `latency_ns`  The usual delay of a piece. */
struct nvmf_network *nvmf_network_create(struct nvmf_world *world, uint64_t latency_ns);
void nvmf_network_destroy(struct nvmf_network *network);
const struct nvmf_network_counts *nvmf_network_counts(const struct nvmf_network *network);

/* The network as this machine sees it: for its loop. */
struct network *nvmf_network_of(struct nvmf_network *network, unsigned machine);

/* Tell the machine's loop what is ready; returns whether anything is. */
bool nvmf_network_report(struct nvmf_network *network, unsigned machine);

/* The address of the target for `machine`, which says where a stream begins. */
void nvmf_network_address(struct sockaddr_storage *ret_address);

/* Faults. Each acts on a stream that the seed chooses; false if there is none. */
bool nvmf_network_reset(struct nvmf_network *network);
/* One end hears of a reset; the other one when it sends. */
bool nvmf_network_reset_half(struct nvmf_network *network);
/* The stream ends in one direction only. */
bool nvmf_network_end_half(struct nvmf_network *network);
bool nvmf_network_stall(struct nvmf_network *network, uint64_t stall_ns);
/* Invert up to three bits of what is sent next. Not in the first PDU, which has no digests. */
bool nvmf_network_invert(struct nvmf_network *network, unsigned host);
/* Cut the network between a host and the target for so long from now on. */
void nvmf_network_cut(struct nvmf_network *network, unsigned host, uint64_t cut_ns);
/* accept() of the target fails for lack of descriptors, so many times. */
void nvmf_network_starve(struct nvmf_network *network, unsigned count);

/*
 * The machine's programs end at once: no byte and no end of its streams reaches a peer any more.
 * The peers get a reset at once, or, without `has_reset`, when they send.
 */
void nvmf_network_crash(struct nvmf_network *network, unsigned machine, bool has_reset);
/* While it is down, nothing answers. */
void nvmf_network_set_down(struct nvmf_network *network, unsigned machine, bool is_down);

/* Nothing gets from the host to the target now, nor back. */
bool nvmf_network_is_silent(const struct nvmf_network *network, unsigned host);

/* All cuts and stalls end. */
void nvmf_network_heal(struct nvmf_network *network);

/* Descriptors that are open at this machine. */
unsigned nvmf_network_open_count(const struct nvmf_network *network, unsigned machine);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_AGENT_PROTOCOL_H
#define URNIC_AGENT_AGENT_PROTOCOL_H

/*
 * The messages between a process and urnicd.
 *
 * The connection is a unix SOCK_SEQPACKET socket, whose path agent/place.h finds. A process has one
 * connection, and urnicd reads end of file when the process dies. A message is one whole struct
 * agent_message in host order, whatever its type; the packet of a FORWARD follows it. The process
 * numbers its requests; an answer repeats type and sequence. Descriptors travel beside the message
 * (SCM_RIGHTS).
 *
 * Neither end trusts the other. A message that agent_message_receive() returns has a legal version,
 * type, length and count of descriptors, slot numbers in range and terminated strings.
 */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/gid.h"
#include "os/fd_pass.h"
#include "os/process.h"

enum {
	AGENT_VERSION = 8,
	AGENT_SLOTS = 256, /* the values of the top byte of a QPN; slot 0 is urnicd's */
	AGENT_DESCRIPTORS_MAX = 2, /* beside one message */
	AGENT_WHY_BYTES = 256, /* room for a sentence and its final 0 */
	AGENT_PACKET_BYTES_MAX = 4352, /* MTU 4096, the longest headers, rounded up */
	AGENT_CLAIMS_MAX = 8192, /* service IDs claimed by all processes together */
	/* Seconds without a client after which urnicd exits; see URNICD_IDLE_S. */
	AGENT_IDLE_S = 10,
	AGENT_IDLE_S_MAX = 1000000,
	AGENT_FILES_MIN = 64, /* open files that urnicd needs to serve one program */
};

/* The exit status of the program urnicd, which continues in the background once it listens. */
enum agent_exit {
	AGENT_EXIT_LISTENING = 0,
	AGENT_EXIT_FAILED = 1,
	AGENT_EXIT_USAGE = 2,
	AGENT_EXIT_RUNNING = 3, /* another urnicd listens already */
	AGENT_EXIT_FILES = 4, /* urnicd may not open AGENT_FILES_MIN files */
	AGENT_EXIT_PLACE = 5, /* there is no directory for urnicd's socket (agent/place.h) */
};

enum agent_message_type {
#define AGENT_MESSAGE(NAME, name, number, descriptors, sentence) AGENT_##NAME = (number),
#include "agent/agent_messages.def"
#undef AGENT_MESSAGE
};

struct agent_counters {
#define COUNTER(name, sentence) uint64_t name;
#include "agent/agent_counters.def"
#undef COUNTER
};

/* A local address. `scope_ifindex` is 0 unless the GID is link-local. */
struct agent_address {
	struct gid gid;
	uint32_t scope_ifindex;
};

/* The agent_address of `gid`, with the interface `ifindex` only if `gid` is link-local. */
static inline struct agent_address agent_address_of(const struct gid *gid, uint32_t ifindex)
{
	return (struct agent_address){
		.gid = *gid, .scope_ifindex = gid_is_link_local(gid) ? ifindex : 0};
}

static inline bool agent_address_is_equal(
	const struct agent_address *a, const struct agent_address *b)
{
	return gid_is_equal(&a->gid, &b->gid) && a->scope_ifindex == b->scope_ifindex;
}

/* A set of slots: bit (slot % 8) of byte (slot / 8). */
struct agent_slots {
	uint8_t bits[AGENT_SLOTS / 8];
};

/* Values of claim.flags in struct agent_message. */
enum agent_claim_flags {
	AGENT_CLAIM_LISTENS = 1 << 0, /* urnicd passes connection requests to this process */
	/* Other processes may claim the ID, too, as long as at most one of them listens. */
	AGENT_CLAIM_SHARES = 1 << 1,
	AGENT_CLAIM_IPV6_ONLY = 1 << 2, /* the zero address does not include IPv4 */
	AGENT_CLAIM_FLAGS = 7,
};

/* A packet that reached the wrong slot, and what the right slot's port would report about it. */
struct agent_forward {
	struct gid sgid;
	struct gid dgid;
	/* Length of the packet behind the message, up to AGENT_PACKET_BYTES_MAX. */
	uint32_t data_bytes;
	uint16_t source_port;
	uint8_t tos;
	uint8_t slot; /* the slot that the packet is for */
	/*
	 * Interface of the local address, if that address is link-local and the packet is for QP1;
	 * else 0.
	 */
	uint32_t ifindex;
};

struct agent_message {
	/*
	 * These four members have the same place in every version, so that a peer of another
	 * version can be refused.
	 */
	uint32_t version; /* AGENT_VERSION */
	uint32_t type; /* enum agent_message_type */
	uint32_t sequence; /* set by the requester, repeated in the answer; 0 in FORWARD */
	int32_t status; /* in an answer: 0, or an errno, and then `why` is set; in a request: 0 */
	union {
		struct {
			uint32_t pid; /* answer: process number of urnicd */
			uint32_t is_system; /* answer: 1 when urnicd serves every user */
		} hello;
		struct {
			uint32_t slot; /* answer */
		} attach;
		struct {
			uint32_t slot; /* request */
		} detach;
		struct {
			struct agent_address address; /* request */
			uint32_t slot; /* request */
		} open;
		struct {
			/* Request: the slots that the process leases; answer: those confirmed */
			struct agent_slots slots;
			/* Request: 1: the first descriptor is the old fd store */
			uint32_t has_fd_store;
			/* Request: 1: the next descriptor is the memfd of NIC memory */
			uint32_t has_memory;
		} resume;
		struct agent_forward forward;
		struct {
			/* Request: clients to skip; answer: index of the next request */
			uint32_t index;
			uint32_t pid; /* in the answer, as all members below */
			uint32_t uid;
			/* 1 when the message carries the memfd of the process's NIC memory */
			uint32_t has_memory;
			char comm[PROCESS_NAME_BYTES];
			struct agent_slots slots;
		} list;
		struct agent_counters stat; /* answer */
		struct {
			/* Request: the slot in the communication IDs of this process. */
			uint32_t slot;
		} gsi_open;
		struct {
			struct agent_address address; /* request */
		} gsi_address;
		struct {
			/* Request: the ID; port 0: any free port. Answer: the ID that is claimed */
			uint64_t service_id;
			struct agent_address address; /* request: a local address; zero: any */
			/* Request: the process chooses it; an id in use changes that claim */
			uint32_t id;
			uint32_t flags; /* request: enum agent_claim_flags */
		} claim;
		struct {
			uint32_t id; /* request */
		} unclaim;
		struct {
			/* Request: an address of urnicd's network namespace, or zero for any */
			struct gid gid;
			/*
			 * Request from another network namespace: the host identity of the
			 * requesting process.
			 */
			uint64_t host;
			uint32_t slot; /* request */
			uint32_t pid; /* in the answer, as all members below */
			uint32_t uid;
			/* 1 when the message carries the memfd of the process's NIC memory */
			uint32_t has_memory;
		} find;
		char why[AGENT_WHY_BYTES]; /* failed answer: a sentence for the user */
	};
};

/*
 * Programs of all versions agree on the layout of the head. Only programs of one version agree on
 * the rest.
 */
enum { AGENT_HEAD_BYTES = offsetof(struct agent_message, why) };
static_assert(AGENT_HEAD_BYTES == 16, "of every version");
static_assert(
	sizeof(struct agent_message) == AGENT_HEAD_BYTES + AGENT_WHY_BYTES, "no hidden padding");

static inline bool agent_slots_has(const struct agent_slots *slots, uint8_t slot)
{
	return slots->bits[slot / 8] >> slot % 8 & 1;
}

static inline void agent_slots_add(struct agent_slots *slots, uint8_t slot)
{
	slots->bits[slot / 8] |= (uint8_t)(1u << slot % 8);
}

static inline void agent_slots_remove(struct agent_slots *slots, uint8_t slot)
{
	slots->bits[slot / 8] &= (uint8_t) ~(1u << slot % 8);
}

/*
 * Send a message.
 *
 * `packet`  The packet of a FORWARD, `message->forward.data_bytes` long; NULL for other types.
 * `fds`     `fd_count` descriptors to pass; stay the caller's.
 * `flags`   MSG_DONTWAIT or 0.
 *
 * Returns 0 or -errno: -EAGAIN when the queue of the other end is full, -EPIPE when it is closed.
 */
int agent_message_send(int socket, const struct agent_message *message, const uint8_t *packet,
	const int *fds, uint32_t fd_count, int flags);

/*
 * Receive and check one message.
 *
 * `is_request`       True in urnicd: requests and answers may carry different descriptors.
 * `packet`           AGENT_PACKET_BYTES_MAX bytes, for the packet of a FORWARD; NULL: a FORWARD is
 *                    an illegal message.
 * `ret_descriptors`  Filled and owned by the caller on success; nothing is open after a failure.
 *
 * Returns 0, -EAGAIN, -ECONNRESET at the end of the connection, -EPROTONOSUPPORT and the head of a
 * message of another version, -EPROTO for an illegal message, -EMFILE when our limit on open files
 * leaves no room for its descriptors, or another -errno of recvmsg().
 */
int agent_message_receive(int socket, bool is_request, struct agent_message *ret_message,
	uint8_t *packet, struct passed_fds *ret_descriptors, int flags);

#endif

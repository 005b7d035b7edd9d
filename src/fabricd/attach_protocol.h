/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_ATTACH_PROTOCOL_H
#define URNIC_FABRICD_ATTACH_PROTOCOL_H

/*
 * The messages between a process and the fabric's process, `urnic fabric up`.
 *
 * The control connection is a unix SOCK_SEQPACKET socket, which agent/place.h finds. On it the
 * client asks and the fabric answers, one at a time. A message is one whole struct attach_message
 * in host order; an answer repeats the type. MADs travel on a socket for each opening of a port,
 * frames in shared memory, events on a socket of their own. The fabric makes these and passes the
 * descriptors in its answer. The end of the control connection ends them all.
 *
 * A flow carries the frames of one route past the fabric: the sending channel writes into a ring,
 * and the receiving channel reads it. The fabric finds the route and opens the flow after it has
 * passed a first frame along the route. It closes the flow as soon as the route changes. The
 * receiver checks that each frame is one of the flow's route, so a sender cannot use a flow for
 * what the subnet would not let pass. The fabric adds what the sender has counted to the counters
 * of the ports on the route.
 *
 * Neither end trusts the other. The fabric never waits for a client: what a client does not take is
 * dropped and counted.
 */

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"
#include "base/record_ring.h"
#include "wire/bth.h"
#include "wire/infiniband/crc.h"
#include "wire/infiniband/lrh.h"

enum {
	ATTACH_VERSION = 2,
	ATTACH_TEXT_BYTES = 192, /* names, paths and sentences, terminated */
	ATTACH_NAME_BYTES = 64, /* the NodeDescription of a node, terminated */
	ATTACH_PKEYS_MAX = 128,
	ATTACH_GUIDS_MAX = 8,
	ATTACH_DESCRIPTORS_MAX = 4, /* beside one message */
	ATTACH_CHANNEL_DESCRIPTORS = 4,
	ATTACH_FRAME_BYTES_MIN = LRH_BYTES + BTH_BYTES + IB_ICRC_BYTES,
	/*
	 * A frame: LRH, GRH, BTH, the longest extended headers, 4,096 bytes of payload, ICRC,
	 * rounded up.
	 */
	ATTACH_FRAME_BYTES_MAX = 4352,
	/* The longest MAD after reassembly. A longer one is refused. */
	ATTACH_MAD_BYTES_MAX = 1 << 26,
	/* A longer MAD travels in a memfd beside its message. */
	ATTACH_MAD_BYTES_INLINE = 1 << 14,
	/*
	 * A lease is the top byte of the QPNs of one channel of frames, and of the communication
	 * IDs that its connection manager makes. Lease 0 is the fabric's.
	 */
	ATTACH_LEASES = 256,
	ATTACH_LEASE_QPN_SHIFT = 16,
	ATTACH_LEASE_COMM_ID_SHIFT = 24,
	ATTACH_FLOWS_MAX = 64, /* of a channel, in each direction */
	ATTACH_FLOW_RING_BYTES = 1 << 20,
};

enum attach_message_type {
	/* The first request. `text` names the client's node; "": a console, which has no node. */
	ATTACH_HELLO = 1,
	ATTACH_PORT, /* the present state of a port */
	ATTACH_MADS_OPEN, /* answer: a socket of struct attach_mad */
	ATTACH_AGENT_ADD,
	ATTACH_AGENT_REMOVE,
	ATTACH_ISSM_PATH, /* a file: while a process has it open, the port has IsSM */
	/*
	 * Answer: the memfd of a struct attach_frames, a socket that is readable when the client
	 * is woken, the eventfd that wakes the fabric, the socket that wakes the client.
	 */
	ATTACH_FRAMES_OPEN,
	ATTACH_FRAMES_CLOSE,
	ATTACH_MULTICAST_JOIN, /* frames to a multicast LID reach the lease's channel */
	ATTACH_MULTICAST_LEAVE,
	ATTACH_SERVICE_CLAIM, /* REQs and SIDR_REQs for a service ID reach the lease's channel */
	ATTACH_SERVICE_RELEASE,
	ATTACH_EVENTS_OPEN, /* answer: a socket of struct attach_event */
	ATTACH_CONSOLE, /* a command of a console; answer: a memfd with the command's output */
	ATTACH_FLOW_READY, /* the client reads an incoming flow from now on */
	ATTACH_COUNTERS, /* the present counters of a port */
	/*
	 * With the request comes a memfd. When the client has ended, the fabric sends the messages
	 * in the memfd: struct cm_last_message[CM_LAST_MESSAGES_MAX] (cm/cm.h).
	 */
	ATTACH_LAST_MESSAGES,
	/*
	 * The client needs the port's membership of a multicast group, or no longer needs it. The
	 * client joins the group itself. When no client needs the membership, the fabric's process
	 * leaves the group for the port.
	 */
	ATTACH_GROUP_HOLD,
	ATTACH_GROUP_RELEASE,
	/*
	 * As FRAMES_OPEN, for a host whose programs run on another machine: the channel gets each
	 * frame that arrives at the host's ports. The channel's lease only names it in requests.
	 * While the channel exists, no other client may use the host. When the channel ends, the
	 * fabric cuts the host's cables; it joins them when the next client takes the host.
	 */
	ATTACH_HOST_TAKE,
};

struct attach_node {
	char name[ATTACH_NAME_BYTES]; /* its NodeDescription */
	uint64_t node_guid;
	uint64_t system_image_guid;
	uint32_t index; /* in the topology */
	uint32_t port_count;
	uint32_t vendor_id;
	uint32_t device_id;
	uint32_t revision;
	int32_t fabric_pid;
};

/* A port as it is now. */
struct attach_port {
	uint64_t gid_prefix;
	uint64_t guid; /* equals guids[0] */
	uint32_t capability_mask;
	uint16_t lid; /* 0 until a subnet manager sets it */
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t sm_sl;
	uint8_t state; /* IBTA 14.2.5.6: 1 down, 2 init, 3 armed, 4 active */
	uint8_t phys_state; /* 2 polling, 5 link up */
	uint8_t mtu; /* NeighborMTU, which limits packets: 1 to 5 for 256 to 4,096 bytes */
	uint8_t mtu_max;
	uint8_t link_width; /* active, encoded as in PortInfo: 1, 2, 4, 8 for 1x, 4x, 8x, 12x */
	uint8_t link_speed; /* active: 1 SDR, 2 DDR, 4 QDR; the extended one is `link_speed_ext` */
	uint8_t link_speed_ext; /* active: 1 FDR, 2 EDR, 4 HDR, 8 NDR; 0: `link_speed` counts */
	uint8_t subnet_timeout;
	uint8_t vl_cap; /* encoded as in PortInfo: 1, 2, 3, 4, 5 for 1, 2, 4, 8, 15 data lanes */
	uint8_t init_type_reply;
	uint16_t bad_pkeys;
	uint16_t qkey_violations;
	uint16_t pkey_count;
	uint16_t guid_count;
	uint16_t pkeys[ATTACH_PKEYS_MAX];
	uint64_t guids[ATTACH_GUIDS_MAX];
};

/* The counters of a port (subnet/counter.def). */
struct attach_counters {
#define SUBNET_COUNTER(name, is_of_drops, sentence) uint64_t name;
#include "subnet/counter.def"
#undef SUBNET_COUNTER
};

/* A flow, as one of its two channels sees it. */
struct attach_flow {
	uint32_t lease; /* of the channel */
	uint32_t slot; /* its place among the channel's incoming, or outgoing, flows */
	uint32_t serial; /* of the flow, not 0 */
	uint32_t port; /* the port of the channel's node that sends or receives the frames */
	uint32_t peer_lease; /* outgoing: the top byte of the QPNs that the flow leads to */
	uint32_t frame_bytes_max;
	uint16_t dlid;
	uint16_t pkey;
	uint8_t sl;
	uint8_t vl; /* the lane on which the last switch sends the frames */
	uint64_t lifetime_ns; /* outgoing: how long a full ring blocks the sender */
};

/* Which requests an agent takes; all 0: it only sends. */
struct attach_agent {
	uint32_t port;
	uint32_t id; /* answer to AGENT_ADD; request of AGENT_REMOVE */
	uint8_t management_class;
	uint8_t class_version;
	uint8_t rmpp_version; /* 1: the fabric does RMPP for the agent */
	uint8_t qpn; /* 0 or 1 */
	uint8_t oui[4]; /* for vendor classes with OUI; the last byte is 0 */
	uint64_t method_mask[2]; /* bit N: method N */
};

struct attach_message {
	uint32_t version; /* ATTACH_VERSION */
	uint32_t type;
	/* In an answer: 0, or an errno, with a sentence in `text`. In a request: 0. */
	int32_t status;
	/*
	 * The client's node (HELLO) or command (CONSOLE); the path (answer to ISSM_PATH); why a
	 * request is refused.
	 */
	char text[ATTACH_TEXT_BYTES];
	union {
		struct attach_node node; /* answer to HELLO */
		struct {
			uint32_t number; /* PORT, MADS_OPEN, ISSM_PATH */
			/* Answer to MADS_OPEN: names the opening in AGENT_ADD and AGENT_REMOVE. */
			uint32_t opening;
			struct attach_port info; /* answer to PORT */
		} port;
		struct {
			uint32_t port;
			struct attach_counters values; /* answer */
		} counters; /* COUNTERS */
		struct {
			uint32_t opening;
			struct attach_agent agent;
		} agent;
		struct {
			uint32_t lease; /* answer to FRAMES_OPEN; request of all others */
			uint32_t port; /* MULTICAST_*: the port that receives; GROUP_* */
			uint16_t mlid; /* MULTICAST_* */
			uint8_t join_state; /* GROUP_*: bits of enum sa_join */
			struct gid mgid; /* MULTICAST_*, GROUP_* */
			uint64_t service_id; /* SERVICE_* */
			uint64_t service_mask; /* SERVICE_*: the bits that have to be equal */
			uint64_t offset; /* LAST_MESSAGES: where they begin in the memfd */
		} frames;
		struct attach_flow flow; /* FLOW_READY: lease, slot and serial */
	};
};

/* A MAD on its way between a client and the fabric. Its bytes follow, or are in a memfd. */
struct attach_mad {
	uint32_t agent; /* the agent that sends or receives the MAD */
	uint32_t status; /* to the client: 0; ETIMEDOUT: this is its own request, unanswered */
	uint32_t timeout_ms; /* to the fabric; 0: do not wait for an answer */
	uint32_t retries; /* to the fabric */
	uint32_t mad_bytes;
	uint32_t qpn; /* the remote one */
	uint32_t qkey; /* to the fabric */
	uint16_t lid; /* the remote one */
	uint16_t pkey_index;
	uint8_t sl;
	uint8_t path_bits;
	uint8_t has_grh;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t is_in_memfd; /* a descriptor comes along, with `mad_bytes` bytes */
	uint8_t reserved;
	uint32_t flow_label;
	struct gid gid; /* the remote one */
};

/* What a channel and the fabric share of an outgoing flow. */
struct attach_flow_out {
	/* The flow's serial while it is open. The fabric alone writes it. */
	alignas(64) _Atomic uint32_t serial;
	/*
	 * The client alone writes the members from here on. `released` is the serial of the last
	 * flow that the client has given up.
	 */
	alignas(64) _Atomic uint32_t released;
	_Atomic uint64_t packets; /* the four counts are sums of all flows of this slot so far */
	_Atomic uint64_t words; /* sent, in units of four bytes */
	_Atomic uint64_t discards; /* the frame's lifetime has ended before the ring had room */
	_Atomic uint64_t wait_us; /* how long the ring had no room */
};

/* What a channel and the fabric share of an incoming flow. The fabric alone writes it. */
struct attach_flow_in {
	/* The serial of the present flow. The receiver ends a flow with another serial at once. */
	_Atomic uint32_t serial;
	/*
	 * The flow ends when the receiver has taken this many bytes from its ring. UINT64_MAX while
	 * the flow is open.
	 */
	_Atomic uint64_t limit;
};

enum {
	ATTACH_RECORD_BAD_PKEY = 1 << 8,
	ATTACH_RECORD_BAD_QKEY = 1 << 9,
	ATTACH_RECORD_VIOLATIONS = ATTACH_RECORD_BAD_PKEY | ATTACH_RECORD_BAD_QKEY,
};

/*
 * Frames between a client and the fabric. A record is the number of the port, as a uint32_t, and a
 * frame from its LRH to its ICRC, which its sender fills in. There is no VCRC. With one of the bits
 * ATTACH_RECORD_* in the number, the record is a frame that a queue pair of the client has refused.
 *
 * A reader that is about to sleep sets its `is_..._waiting`, looks at the ring once more, and then
 * polls its descriptor. A writer that finds the word set clears it, and writes to the fabric's
 * eventfd or to the client's socket. The senders of flows have the client's socket, too, and may
 * change its file status flags. So a writer passes MSG_DONTWAIT and MSG_NOSIGNAL with each write.
 */
struct attach_frames {
	alignas(64) _Atomic uint32_t is_fabric_waiting;
	alignas(64) _Atomic uint32_t is_client_waiting;
	/* The value of to_fabric.written up to which the fabric has passed on all frames. */
	alignas(64) _Atomic uint64_t forwarded;
	struct attach_flow_out out[ATTACH_FLOWS_MAX];
	alignas(64) struct attach_flow_in in[ATTACH_FLOWS_MAX];
	struct record_ring to_fabric;
	struct record_ring to_client;
};

/*
 * The memory of a flow, of which attach_flow_memory() bytes exist. A record is a frame, LRH to
 * ICRC. The sender and the receiver map it.
 */
struct attach_flow_ring {
	alignas(64) _Atomic uint32_t is_receiver_waiting;
	struct record_ring ring; /* of ATTACH_FLOW_RING_BYTES */
};

static inline size_t attach_flow_memory(void)
{
	return offsetof(struct attach_flow_ring, ring) +
		record_ring_memory(ATTACH_FLOW_RING_BYTES);
}

/* What has changed at a port. The client then asks for ATTACH_PORT. */
enum attach_event_type {
	ATTACH_EVENT_PORT_ACTIVE = 1,
	ATTACH_EVENT_PORT_ERROR,
	ATTACH_EVENT_LID_CHANGE,
	ATTACH_EVENT_PKEY_CHANGE,
	ATTACH_EVENT_SM_CHANGE,
	ATTACH_EVENT_CLIENT_REREGISTER,
	ATTACH_EVENT_GID_CHANGE,
	/* With a flow's memfd. FLOW_OUT also has the socket that wakes the receiver. */
	ATTACH_EVENT_FLOW_IN,
	ATTACH_EVENT_FLOW_OUT,
};

struct attach_event {
	uint32_t type;
	uint32_t port;
	struct attach_flow flow; /* FLOW_* */
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_MAD_MAD_LAYER_H
#define URNIC_MAD_MAD_LAYER_H

/*
 * The MAD layer of a channel adapter, like that of Linux's kernel: agents that send and receive
 * management datagrams at a port's QP0 and QP1.
 *
 * The upper 32 bits of a transaction ID are the number of the agent that sent the request, so a
 * response finds its agent. A request goes to the agent that has registered its class, version,
 * method and, for vendor classes, OUI. The layer sends a request with a timeout again until its
 * response comes. When the retries are used up, the agent gets the request back with status
 * ETIMEDOUT. For an agent with RMPP, the layer segments and reassembles long messages in both
 * directions (IBTA 13.6).
 *
 * Sans I/O: the caller passes in received MADs and the time, and gets MADs to send by a callback.
 * A callback must not call back into the layer. Ports of one layer share its timers. The caller
 * serializes all calls.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"
#include "wire/infiniband/mad.h"

enum {
	MAD_METHODS = 128, /* without the response bit */
	MAD_CLASS_VERSION_MAX = 8,
	MAD_AGENTS_MAX = 1024, /* of a port */
	MAD_SENDS_MAX = 1 << 16, /* unanswered requests and unfinished messages of a port */
	MAD_RECEIVES_MAX = 256, /* messages of a port in reassembly */
	MAD_MESSAGE_BYTES_MAX = 1 << 26,
	/* A port's memory for the messages that it sends, and again for those in reassembly. */
	MAD_PORT_BYTES_MAX = 2 * MAD_MESSAGE_BYTES_MAX,
};

struct mad_layer;
struct mad_port;
struct mad_agent;

/* The other end of a MAD. */
struct mad_address {
	uint32_t qpn;
	uint32_t qkey;
	uint32_t flow_label;
	uint16_t lid;
	uint16_t pkey_index;
	uint8_t sl;
	uint8_t path_bits; /* of this port's LID */
	uint8_t gid_index; /* of this port's GID, if `has_grh` */
	uint8_t hop_limit;
	uint8_t traffic_class;
	bool has_grh;
	struct gid gid;
};

/* Which MADs an agent gets. */
struct mad_agent_spec {
	uint8_t management_class; /* 0: the agent only sends, in any class */
	uint8_t class_version;
	bool has_rmpp; /* the layer does RMPP for the agent */
	uint8_t qpn; /* 0 or 1 */
	uint8_t oui[3];
	uint64_t method_mask[MAD_METHODS / 64]; /* the requests that it gets */
};

struct mad_calls {
	/* Send a MAD from the port. `context` is the port's. */
	void (*transmit)(void *context, uint32_t own_qpn, const struct mad_address *to,
		const uint8_t mad[MAD_BYTES]);
	/*
	 * Hand a message to an agent. `status` 0: `bytes` is a received message. ETIMEDOUT: `bytes`
	 * is the header of the agent's request, and `peer` is where it went.
	 */
	void (*deliver)(void *agent_context, const struct mad_address *peer, int status,
		const uint8_t *bytes, uint32_t count);
};

struct mad_counters {
	uint64_t sent; /* MADs, segments and acknowledgements included */
	uint64_t received;
	uint64_t retried;
	uint64_t timed_out; /* requests and messages that were returned to their agents */
	uint64_t unmatched_responses; /* for which no agent waits */
	uint64_t unmatched_requests; /* for which no agent has registered */
	uint64_t malformed;
	uint64_t aborted; /* messages that either end has aborted */
};

/* `calls` is valid as long as the layer is. Returns 0 or -ENOMEM. */
int mad_layer_create(const struct mad_calls *calls, struct mad_layer **ret_layer);
/* The caller has destroyed all ports. */
void mad_layer_destroy(struct mad_layer *layer);

/* When mad_layer_advance() is to be called next; UINT64_MAX: no timer runs. */
uint64_t mad_layer_deadline_ns(const struct mad_layer *layer);
/* Let the timers that are due at `now_ns` expire. */
void mad_layer_advance(struct mad_layer *layer, uint64_t now_ns);

int mad_port_create(struct mad_layer *layer, void *context, struct mad_port **ret_port);
/* Removes the port's agents, too. */
void mad_port_destroy(struct mad_port *port);
const struct mad_counters *mad_port_counters(const struct mad_port *port);

/*
 * A MAD has arrived at the port.
 *
 * `own_qpn`  0 or 1: the QP to which the MAD was sent.
 * `from`     The sender. `path_bits`, `pkey_index` and `gid_index` are those of the port to which
 *            the sender has addressed the MAD.
 * `mad`      Hostile input. Borrowed for the call.
 *
 * A Get or Set at QP1 for which no agent has registered gets an answer that says so, as from Linux.
 */
void mad_port_receive(struct mad_port *port, uint32_t own_qpn, const struct mad_address *from,
	const uint8_t mad[MAD_BYTES], uint64_t now_ns);

/*
 * Add an agent. Returns 0; -EINVAL for a class, version or QP that does not exist; -EADDRINUSE when
 * another agent has one of its methods; -ENOMEM.
 */
int mad_agent_add(struct mad_port *port, const struct mad_agent_spec *spec, void *context,
	struct mad_agent **ret_agent);
/* Forget an agent, its requests and messages. */
void mad_agent_remove(struct mad_agent *agent);
/* The agent's number, for the upper half of transaction IDs; unique in the port. */
uint32_t mad_agent_number(const struct mad_agent *agent);

/*
 * Send a message.
 *
 * `bytes`       The message, at least MAD_HEADER_BYTES of it; the rest of a MAD is sent as zero.
 *               More than MAD_BYTES need an agent with RMPP and an active RMPP header.
 * `timeout_ms`  How long to wait for the response after each sending. 0: no response is expected.
 *               Ignored if the message is a response.
 * `retries`     How often to send again.
 *
 * Returns 0; -EINVAL for an illegal message, or for a request with the transaction ID of another
 * one that waits; -ENOMEM; -ENOBUFS when too many requests and messages wait, or too long ones.
 */
int mad_agent_send(struct mad_agent *agent, const struct mad_address *to, const uint8_t *bytes,
	uint32_t count, uint32_t timeout_ms, uint32_t retries, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for a tag-matching shared receive queue (queue/tags.h).
 *
 * A SEND begins with a tag header. Eager: the rest goes into the buffer with that tag. Rendezvous:
 * the NIC reads the payload from the sender into the buffer and tells it when it has. Both are
 * completed twice, when they are matched and when the data is there; at once if that is the same
 * moment. Everything else, headers included, goes into an ordinary request for the program.
 *
 * What the NIC sends for a rendezvous goes through the queue pair's send queue, which the program
 * does not have then. When it is full, the peer hears that no receive request is ready.
 */
#ifndef URNIC_IB_TAGGED_H
#define URNIC_IB_TAGGED_H

#include "ib/message.h"

/* message_send_execute() for such a queue pair. */
enum refusal tagged_send_execute(struct message *message, struct qp *qp,
	const struct packet *packet, enum fault *ret_fault, uint64_t now_ns);

#endif

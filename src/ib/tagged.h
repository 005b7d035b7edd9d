/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for a tag-matching shared receive queue (queue/tags.h).
 *
 * A SEND begins with a tag header. The rest of an eager message goes into the buffer with that tag.
 * For a rendezvous message, the NIC READs the payload from the sender into the buffer, and then
 * notifies the sender. Both kinds make two completions: one at the match, and one when the data is
 * placed. If the match and the placement happen in the same call, there is a single completion. Any
 * other message, headers included, goes into an ordinary receive request for the program.
 *
 * Rendezvous messages use the queue pair's send queue, so the program cannot post to that queue.
 * While the send queue is full, the peer gets an RNR NAK.
 */
#ifndef URNIC_IB_TAGGED_H
#define URNIC_IB_TAGGED_H

#include "ib/message.h"

/* message_send_execute() for a queue pair with a tag-matching queue. */
enum refusal tagged_send_execute(struct message *message, struct qp *qp,
	const struct packet *packet, enum fault *ret_fault, uint64_t now_ns);

#endif

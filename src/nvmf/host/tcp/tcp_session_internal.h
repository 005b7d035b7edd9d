/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two halves of a host's TCP session share: tcp_session.c sends, tcp_responses.c receives.
 */
#ifndef URNIC_NVMF_HOST_TCP_SESSION_INTERNAL_H
#define URNIC_NVMF_HOST_TCP_SESSION_INTERNAL_H

#include "nvmf/common/tcp/digest.h"
#include "nvmf/host/tcp/tcp_session.h"

/* A command and the PDU that it has on its way. */
struct tcp_slot {
	struct host_command *command; /* NULL: free */
	struct list node; /* in free_slots */
	struct list output_node; /* in output, while a PDU is to be sent */
	uint16_t generation; /* part of the command identifier: an old response finds nothing */

	bool has_response; /* the CQE has come; done() waits for `output_node` */
	bool is_damaged; /* a data digest was wrong */
	bool is_last; /* all C2HData has come */
	bool is_begun; /* a byte of the capsule has been sent */
	uint32_t received_bytes; /* from the controller, in order */
	uint32_t requested_bytes; /* by R2Ts, in order; all of it if it is in the capsule */
	uint32_t sent_bytes; /* of the data that was requested, put into PDUs */
	uint16_t ttag; /* of the R2T that is being served */

	/* The PDU. */
	uint8_t header[TCP_HEADER_BYTES_MAX];
	uint32_t header_bytes;
	const uint8_t *data;
	uint32_t data_bytes;
	uint8_t digest[DIGEST_BYTES];
	uint32_t digest_bytes;
	uint32_t pdu_sent; /* of the three together */
};

/* Put the next H2CData of the R2T into the output. */
void tcp_slot_send_data(struct tcp_session *session, struct tcp_slot *slot);

/* The command is over: free the slot, then call done(). */
void tcp_slot_finish(struct tcp_session *session, struct tcp_slot *slot, enum host_end end);

#endif

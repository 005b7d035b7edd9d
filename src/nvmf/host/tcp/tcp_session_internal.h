/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the host's TCP session share: tcp_session.c sends, tcp_responses.c receives.
 */
#ifndef URNIC_NVMF_HOST_TCP_SESSION_INTERNAL_H
#define URNIC_NVMF_HOST_TCP_SESSION_INTERNAL_H

#include "nvmf/common/tcp/digest.h"
#include "nvmf/host/tcp/tcp_session.h"

/* A pending command, and the PDU of the command that is to be sent. */
struct tcp_slot {
	struct host_command *command; /* NULL: the slot is free */
	struct list node; /* in free_slots */
	struct list output_node; /* in output, while a PDU is to be sent */
	uint16_t generation; /* upper bits of the cid, so that an old response is not accepted */

	bool has_response; /* the CQE has arrived; done() waits until `output_node` is unlinked */
	bool is_damaged; /* a data digest was wrong */
	bool is_last; /* the C2HData with LAST has arrived */
	bool is_begun; /* a byte of the capsule has been sent */
	uint32_t received_bytes; /* data from the controller, in order */
	uint32_t requested_bytes; /* data that R2Ts have requested; in-capsule data: all of it */
	uint32_t sent_bytes; /* how much of the requested data was put into PDUs */
	uint16_t ttag; /* the TTAG of the last R2T */

	/* The PDU to send. */
	uint8_t header[TCP_HEADER_BYTES_MAX];
	uint32_t header_bytes;
	const uint8_t *data;
	uint32_t data_bytes;
	uint8_t digest[DIGEST_BYTES];
	uint32_t digest_bytes;
	uint32_t pdu_sent; /* bytes sent of header, data and digest together */
};

/* Put the next H2CData of the slot's R2T into the output. */
void tcp_slot_send_data(struct tcp_session *session, struct tcp_slot *slot);

/* The command has ended: free the slot, then call done(). */
void tcp_slot_finish(struct tcp_session *session, struct tcp_slot *slot, enum host_end end);

#endif

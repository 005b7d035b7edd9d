/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of an NBD session share: nbd_session.c moves bytes, nbd_options.c negotiates,
 * nbd_requests.c serves requests. Each parser gets the staged input, and returns how many bytes of
 * it form a whole option or request, or 0 if that has not arrived.
 */
#ifndef NVMF_HOST_NBD_INTERNAL_H
#define NVMF_HOST_NBD_INTERNAL_H

#include "nvmf/host/nbd/nbd.h"
#include "nvmf/host/nbd/nbd_wire.h"

enum nbd_state {
	NBD_WAIT_CLIENT_FLAGS,
	NBD_WAIT_OPTION,
	NBD_WAIT_REQUEST,
	NBD_WAIT_PAYLOAD, /* of session->writing */
	NBD_DRAINING, /* the client disconnected; requests are pending */
	NBD_ENDED,
};

/* A request of the client and its reply, or a reply of the negotiation. */
struct nbd_request {
	struct block_request block;
	struct nbd_session *session;
	struct list link; /* in session->output, once there is a reply */
	uint64_t cookie;
	uint32_t data_bytes; /* of `data`, which a read's reply ends with */
	uint32_t head_bytes; /* of `head`; 0: no reply yet */
	uint8_t head[64];
	uint8_t data[];
};

struct nbd_session {
	const struct nbd_export *export;
	void (*ready)(struct nbd_session *session, void *context);
	void *context;

	enum nbd_state state;
	enum nbd_end end;
	bool is_destroyed; /* the caller is done with it; requests are pending */
	bool is_parsing; /* `ready` is not called: the caller looks by itself */
	bool has_no_zeroes; /* negotiated */
	bool is_structured; /* negotiated */
	bool has_block_status; /* negotiated */

	uint32_t request_count; /* all that exist */
	uint32_t pending_count; /* those that the device has */
	uint64_t memory_bytes; /* of all data that exist */
	struct list output;
	size_t output_sent_bytes; /* of the first request of `output` */

	struct nbd_request *writing; /* its payload is arriving */
	uint32_t writing_bytes; /* of it are there */

	size_t input_bytes; /* staged */
	uint8_t input[NBD_INPUT_BYTES];
};

/* A new request with so many bytes of data; NULL ends the session for lack of memory. */
struct nbd_request *nbd_request_create(struct nbd_session *session, size_t data_bytes);
void nbd_request_free(struct nbd_request *request);

/* Queue its head and data as output; it is freed when they are sent. */
void nbd_request_reply(struct nbd_request *request);

/* End the session for this reason. */
void nbd_session_finish(struct nbd_session *session, enum nbd_end end);

/* The transmission flags of the export for this session. */
uint16_t nbd_transmission_flags(const struct nbd_session *session);

size_t nbd_option_parse(struct nbd_session *session, const uint8_t *bytes, size_t size);
size_t nbd_request_parse(struct nbd_session *session, const uint8_t *bytes, size_t size);

/* The payload of session->writing is complete. */
void nbd_payload_arrived(struct nbd_session *session);

#endif

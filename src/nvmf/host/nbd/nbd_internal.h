/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of an NBD session share: nbd_session.c has the input and output buffers,
 * nbd_options.c negotiates, nbd_requests.c serves requests. Each parser gets the staged input, and
 * returns how many bytes of it form a whole option or request; 0 if some of them have not arrived.
 */
#ifndef NVMF_HOST_NBD_INTERNAL_H
#define NVMF_HOST_NBD_INTERNAL_H

#include "nvmf/host/nbd/nbd.h"
#include "nvmf/host/nbd/nbd_wire.h"

enum nbd_state {
	NBD_WAIT_CLIENT_FLAGS,
	NBD_WAIT_OPTION,
	NBD_WAIT_REQUEST,
	NBD_WAIT_PAYLOAD, /* waits for the payload of session->writing */
	NBD_DRAINING, /* the client disconnected; requests are pending */
	NBD_ENDED,
};

/* A request of the client with its reply, or a reply of the negotiation. */
struct nbd_request {
	struct block_request block;
	struct nbd_session *session;
	struct list link; /* in session->output, once there is a reply */
	uint64_t cookie;
	uint32_t data_bytes; /* length of `data`: a write's payload, or the reply after `head` */
	uint32_t head_bytes; /* the length of `head`, the beginning of the reply; 0: no reply yet */
	uint8_t head[64];
	uint8_t data[];
};

struct nbd_session {
	const struct nbd_export *export;
	void (*ready)(struct nbd_session *session, void *context);
	void *context;

	enum nbd_state state;
	enum nbd_end end;
	bool is_destroyed; /* nbd_session_destroy() was called while requests were pending */
	bool is_parsing; /* the session does not call `ready`: its caller asks for output anyway */
	bool has_no_zeroes; /* the client wants no NBD_EXPORT_NAME_ZEROES */
	bool is_structured; /* the client has asked for structured replies */
	bool has_block_status; /* the client has chosen the context of NBD_CMD_BLOCK_STATUS */

	uint32_t request_count; /* how many struct nbd_request exist */
	uint32_t pending_count; /* how many of these requests the device has */
	uint64_t memory_bytes; /* the sum of data_bytes of these requests */
	struct list output;
	size_t output_sent_bytes; /* how much of the first request of `output` is sent */

	struct nbd_request *writing; /* the write whose payload is arriving */
	uint32_t writing_bytes; /* how much of that payload has arrived */

	size_t input_bytes; /* how much of `input` has arrived and is not parsed */
	uint8_t input[NBD_INPUT_BYTES];
};

/*
 * Create a request with `data_bytes` bytes of data. If there is no memory, ends the session and
 * returns NULL.
 */
struct nbd_request *nbd_request_create(struct nbd_session *session, size_t data_bytes);
void nbd_request_free(struct nbd_request *request);

/* Append the head and data of `request` to the output. `request` is freed when they are sent. */
void nbd_request_reply(struct nbd_request *request);

/* End the session with the reason `end`. */
void nbd_session_finish(struct nbd_session *session, enum nbd_end end);

/* The transmission flags of the export for this session. */
uint16_t nbd_transmission_flags(const struct nbd_session *session);

size_t nbd_option_parse(struct nbd_session *session, const uint8_t *bytes, size_t size);
size_t nbd_request_parse(struct nbd_session *session, const uint8_t *bytes, size_t size);

/* The payload of session->writing is complete. */
void nbd_payload_arrived(struct nbd_session *session);

#endif

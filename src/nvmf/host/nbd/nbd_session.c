/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/nbd/nbd_internal.h"

struct nbd_request *nbd_request_create(struct nbd_session *session, size_t data_bytes)
{
	struct nbd_request *request = malloc(sizeof(*request) + data_bytes);

	if (!request) {
		nbd_session_finish(session, NBD_NO_MEMORY);
		return NULL;
	}
	memset(request, 0, sizeof(*request));
	request->session = session;
	request->data_bytes = (uint32_t)data_bytes;
	list_init(&request->link);
	session->request_count++;
	session->memory_bytes += data_bytes;
	return request;
}

void nbd_request_free(struct nbd_request *request)
{
	struct nbd_session *session = request->session;

	list_remove(&request->link);
	session->request_count--;
	session->memory_bytes -= request->data_bytes;
	free(request);
}

void nbd_request_reply(struct nbd_request *request)
{
	list_append(&request->session->output, &request->link);
}

void nbd_session_finish(struct nbd_session *session, enum nbd_end end)
{
	if (session->state == NBD_ENDED)
		return;
	session->state = end == NBD_DISCONNECTED ? NBD_DRAINING : NBD_ENDED;
	session->end = end;
}

enum nbd_end nbd_session_end(const struct nbd_session *session)
{
	if (session->state == NBD_DRAINING && session->request_count > 0)
		return NBD_GOES_ON;
	return session->end;
}

static void session_greet(struct nbd_session *session)
{
	struct nbd_request *request = nbd_request_create(session, 0);
	uint8_t *end;

	if (!request)
		return;
	end = nbd_put64(request->head, NBD_MAGIC);
	end = nbd_put64(end, NBD_OPTION_MAGIC);
	end = nbd_put16(end, NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES);
	request->head_bytes = (uint32_t)(end - request->head);
	nbd_request_reply(request);
}

struct nbd_session *nbd_session_create(const struct nbd_export *export,
	void (*ready)(struct nbd_session *session, void *context), void *context)
{
	struct nbd_session *session = malloc(sizeof(*session));

	if (!session)
		return NULL;
	memset(session, 0, offsetof(struct nbd_session, input));
	session->export = export;
	session->ready = ready;
	session->context = context;
	list_init(&session->output);
	session_greet(session);
	return session;
}

void nbd_session_destroy(struct nbd_session *session)
{
	if (!session)
		return;
	list_for_each_safe(request, &session->output, struct nbd_request, link)
		nbd_request_free(request);
	if (session->writing)
		nbd_request_free(session->writing);
	session->writing = NULL;
	if (session->pending_count == 0)
		free(session);
	else
		session->is_destroyed = true;
}

static size_t client_flags_parse(struct nbd_session *session, const uint8_t *bytes, size_t size)
{
	uint32_t flags;

	if (size < sizeof(flags))
		return 0;
	flags = nbd_get32(bytes);
	if (!(flags & NBD_FIXED_NEWSTYLE) || (flags & ~(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES))) {
		nbd_session_finish(session, NBD_BAD_FLAGS);
		return 0;
	}
	session->has_no_zeroes = flags & NBD_NO_ZEROES;
	session->state = NBD_WAIT_OPTION;
	return sizeof(flags);
}

static size_t payload_take(struct nbd_session *session, const uint8_t *bytes, size_t size)
{
	struct nbd_request *request = session->writing;
	size_t missing = request->data_bytes - session->writing_bytes;
	size_t taken = size < missing ? size : missing;

	memcpy(request->data + session->writing_bytes, bytes, taken);
	session->writing_bytes += (uint32_t)taken;
	if (taken == missing)
		nbd_payload_arrived(session);
	return taken;
}

/* Whether the session has as many requests or as much data as one client may use. */
static bool is_full(const struct nbd_session *session)
{
	return session->request_count >= NBD_REQUESTS_MAX ||
		session->memory_bytes >= NBD_MEMORY_BYTES_MAX;
}

static size_t parse_one(struct nbd_session *session, const uint8_t *bytes, size_t size)
{
	if (session->state == NBD_WAIT_PAYLOAD)
		return payload_take(session, bytes, size);
	if (is_full(session))
		return 0;
	switch (session->state) {
	case NBD_WAIT_CLIENT_FLAGS:
		return client_flags_parse(session, bytes, size);
	case NBD_WAIT_OPTION:
		return nbd_option_parse(session, bytes, size);
	case NBD_WAIT_REQUEST:
		return nbd_request_parse(session, bytes, size);
	case NBD_WAIT_PAYLOAD:
	case NBD_DRAINING:
	case NBD_ENDED:
		break;
	}
	return 0;
}

static void session_parse(struct nbd_session *session)
{
	size_t done = 0, taken;

	session->is_parsing = true;
	do {
		taken = parse_one(session, session->input + done, session->input_bytes - done);
		done += taken;
	} while (taken > 0 && done < session->input_bytes);
	session->is_parsing = false;
	session->input_bytes -= done;
	if (done > 0)
		memmove(session->input, session->input + done, session->input_bytes);
}

struct iovec nbd_session_room(struct nbd_session *session)
{
	struct iovec room = {0};

	if (session->state == NBD_ENDED || session->state == NBD_DRAINING)
		return room;
	if (session->state == NBD_WAIT_PAYLOAD && session->input_bytes == 0) {
		room.iov_base = session->writing->data + session->writing_bytes;
		room.iov_len = session->writing->data_bytes - session->writing_bytes;
		/* A smaller payload is read into `input`, together with the requests after it. */
		if (room.iov_len >= NBD_INPUT_BYTES)
			return room;
	}
	room.iov_base = session->input + session->input_bytes;
	room.iov_len = is_full(session) && session->state != NBD_WAIT_PAYLOAD
		? 0
		: NBD_INPUT_BYTES - session->input_bytes;
	return room;
}

void nbd_session_received(struct nbd_session *session, size_t bytes)
{
	struct iovec room = nbd_session_room(session);
	uint8_t *input_end = session->input + session->input_bytes;

	if (room.iov_base != input_end) {
		session->is_parsing = true;
		session->writing_bytes += (uint32_t)bytes;
		if (session->writing_bytes == session->writing->data_bytes)
			nbd_payload_arrived(session);
		session->is_parsing = false;
		return;
	}
	session->input_bytes += bytes;
	session_parse(session);
}

int nbd_session_output(struct nbd_session *session, struct iovec *parts, int count_max)
{
	size_t skip = session->output_sent_bytes;
	int count = 0;

	list_for_each(request, &session->output, struct nbd_request, link) {
		size_t head_skip = skip < request->head_bytes ? skip : request->head_bytes;
		size_t data_skip = skip - head_skip;

		if (count + 2 > count_max)
			break;
		if (head_skip < request->head_bytes)
			parts[count++] = (struct iovec){
				request->head + head_skip, request->head_bytes - head_skip};
		if (data_skip < request->data_bytes)
			parts[count++] = (struct iovec){
				request->data + data_skip, request->data_bytes - data_skip};
		skip = 0;
	}
	return count;
}

void nbd_session_sent(struct nbd_session *session, size_t bytes)
{
	bool was_full = is_full(session);

	session->output_sent_bytes += bytes;
	list_for_each_safe(request, &session->output, struct nbd_request, link) {
		size_t all = (size_t)request->head_bytes + request->data_bytes;

		if (session->output_sent_bytes < all)
			break;
		session->output_sent_bytes -= all;
		nbd_request_free(request);
	}
	if (was_full && session->input_bytes > 0)
		session_parse(session);
}

bool nbd_session_is_transmitting(const struct nbd_session *session)
{
	return session->state >= NBD_WAIT_REQUEST;
}

const char *nbd_end_text(enum nbd_end end)
{
	switch (end) {
	case NBD_GOES_ON:
		return "the session goes on";
	case NBD_DISCONNECTED:
		return "the client disconnected";
	case NBD_ABORTED:
		return "the client ended the negotiation";
	case NBD_BAD_FLAGS:
		return "the client does not speak fixed newstyle, or sent unknown flags";
	case NBD_BAD_OPTION:
		return "the client sent something that is no option of the protocol";
	case NBD_NO_SUCH_EXPORT:
		return "the client asked for an export that does not exist";
	case NBD_BAD_REQUEST:
		return "the client sent something that is no request of the protocol";
	case NBD_PAYLOAD_TOO_LONG:
		return "the client sent a write of more than 32 MiB";
	case NBD_NO_MEMORY:
		return "there is not enough memory";
	}
	return "";
}

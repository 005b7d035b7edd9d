/* SPDX-License-Identifier: BSD-2-Clause */
/* The negotiation: the server answers each option of the client with one or more replies. */
#include <string.h>

#include "nvmf/host/nbd/nbd_internal.h"

enum {
	/* A longer option ends the session. Room for an export's name and some context queries. */
	OPTION_BYTES_MAX = NBD_INPUT_BYTES - NBD_OPTION_HEAD_BYTES,
	BLOCK_STATUS_CONTEXT = 1, /* the context ID of "base:allocation"; the server chooses it */
	PREFERRED_BYTES = 4096,
};

static const char allocation_context[] = "base:allocation";

/* The rest of an option's data, which the parsers have not taken yet. */
struct cursor {
	const uint8_t *bytes;
	size_t size;
};

static bool option_take32(struct cursor *cursor, uint32_t *ret_value)
{
	if (cursor->size < sizeof(*ret_value))
		return false;
	*ret_value = nbd_get32(cursor->bytes);
	cursor->bytes += sizeof(*ret_value);
	cursor->size -= sizeof(*ret_value);
	return true;
}

/* Take a length of 32 bits, and that number of bytes. */
static bool take_string(struct cursor *cursor, struct cursor *ret_string)
{
	uint32_t size;

	if (!option_take32(cursor, &size) || size > cursor->size)
		return false;
	*ret_string = (struct cursor){cursor->bytes, size};
	cursor->bytes += size;
	cursor->size -= size;
	return true;
}

static bool is_text(const struct cursor *string, const char *text)
{
	return string->size == strlen(text) && memcmp(string->bytes, text, string->size) == 0;
}

static bool is_export(const struct nbd_session *session, const struct cursor *name)
{
	return name->size == 0 || is_text(name, session->export->name);
}

/*
 * Add a reply to `option`. Returns its `data_bytes` bytes of data, which the caller fills. If there
 * is no memory, ends the session and returns NULL.
 */
static uint8_t *reply_add(
	struct nbd_session *session, uint32_t option, uint32_t type, size_t data_bytes)
{
	struct nbd_request *reply = nbd_request_create(session, data_bytes);
	uint8_t *end;

	if (!reply)
		return NULL;
	end = nbd_put64(reply->head, NBD_REPLY_MAGIC);
	end = nbd_put32(end, option);
	end = nbd_put32(end, type);
	end = nbd_put32(end, (uint32_t)data_bytes);
	reply->head_bytes = (uint32_t)(end - reply->head);
	nbd_request_reply(reply);
	return reply->data;
}

uint16_t nbd_transmission_flags(const struct nbd_session *session)
{
	const struct block_device *device = session->export->device;
	uint16_t flags = NBD_HAS_FLAGS | NBD_SEND_FLUSH | NBD_CAN_MULTI_CONN;

	if (session->is_structured)
		flags |= NBD_SEND_DF;
	if (device->has_fua)
		flags |= NBD_SEND_FUA;
	if (device->is_read_only)
		return flags | NBD_READ_ONLY;
	if (device->has_trim)
		flags |= NBD_SEND_TRIM;
	if (device->has_write_zeroes)
		flags |= NBD_SEND_WRITE_ZEROES;
	return flags;
}

static void option_export_name(struct nbd_session *session, struct cursor data)
{
	size_t zeroes = session->has_no_zeroes ? 0 : NBD_EXPORT_NAME_ZEROES;
	struct nbd_request *reply;
	uint8_t *end;

	if (!is_export(session, &data)) {
		nbd_session_finish(session, NBD_NO_SUCH_EXPORT);
		return;
	}
	reply = nbd_request_create(session, zeroes);
	if (!reply)
		return;
	end = nbd_put64(reply->head, session->export->device->size_bytes);
	end = nbd_put16(end, nbd_transmission_flags(session));
	reply->head_bytes = (uint32_t)(end - reply->head);
	memset(reply->data, 0, zeroes);
	nbd_request_reply(reply);
	session->state = NBD_WAIT_REQUEST;
}

static void option_list(struct nbd_session *session, struct cursor data)
{
	const char *name = session->export->name;
	size_t name_bytes = strlen(name);
	uint8_t *reply;

	if (data.size > 0) {
		reply_add(session, NBD_OPT_LIST, NBD_REP_ERR_INVALID, 0);
		return;
	}
	reply = reply_add(session, NBD_OPT_LIST, NBD_REP_SERVER, 4 + name_bytes);
	if (!reply)
		return;
	memcpy(nbd_put32(reply, (uint32_t)name_bytes), name, name_bytes);
	reply_add(session, NBD_OPT_LIST, NBD_REP_ACK, 0);
}

static void info_text(
	struct nbd_session *session, uint32_t option, enum nbd_info type, const char *text)
{
	size_t bytes = strlen(text);
	uint8_t *reply = reply_add(session, option, NBD_REP_INFO, 2 + bytes);

	if (reply)
		memcpy(nbd_put16(reply, (uint16_t)type), text, bytes);
}

static void info_export(struct nbd_session *session, uint32_t option)
{
	uint8_t *reply = reply_add(session, option, NBD_REP_INFO, 12);

	if (!reply)
		return;
	reply = nbd_put16(reply, NBD_INFO_EXPORT);
	reply = nbd_put64(reply, session->export->device->size_bytes);
	nbd_put16(reply, nbd_transmission_flags(session));
}

static void info_block_size(struct nbd_session *session, uint32_t option)
{
	uint32_t block_bytes = session->export->device->block_bytes;
	uint8_t *reply = reply_add(session, option, NBD_REP_INFO, 14);

	if (!reply)
		return;
	reply = nbd_put16(reply, NBD_INFO_BLOCK_SIZE);
	reply = nbd_put32(reply, block_bytes);
	reply = nbd_put32(reply, block_bytes > PREFERRED_BYTES ? block_bytes : PREFERRED_BYTES);
	nbd_put32(reply, NBD_PAYLOAD_BYTES_MAX);
}

/* INFO and GO: their data is a name, and the types of the information that the client requests. */
static void option_go(struct nbd_session *session, uint32_t option, struct cursor data)
{
	struct cursor name;
	size_t count;

	if (!take_string(&data, &name) || data.size < 2 ||
		data.size - 2 != 2 * (size_t)nbd_get16(data.bytes)) {
		reply_add(session, option, NBD_REP_ERR_INVALID, 0);
		return;
	}
	if (!is_export(session, &name)) {
		reply_add(session, option, NBD_REP_ERR_UNKNOWN, 0);
		return;
	}
	count = nbd_get16(data.bytes);
	info_export(session, option);
	info_block_size(session, option);
	/* Send each type of information once, even if the client requests it several times. */
	for (enum nbd_info type = NBD_INFO_NAME; type <= NBD_INFO_DESCRIPTION; type++) {
		const char *text = type == NBD_INFO_NAME ? session->export->name
							 : session->export->description;
		bool is_asked = false;

		for (size_t i = 0; i < count; i++)
			is_asked |= nbd_get16(data.bytes + 2 + 2 * i) == type;
		if (is_asked && text)
			info_text(session, option, type, text);
	}
	if (reply_add(session, option, NBD_REP_ACK, 0) && option == NBD_OPT_GO)
		session->state = NBD_WAIT_REQUEST;
}

/* Whether `query` means base:allocation. In LIST_META_CONTEXT (`is_list`) "base:" does, too. */
static bool is_allocation_query(const struct cursor *query, bool is_list)
{
	return is_text(query, allocation_context) || (is_list && is_text(query, "base:"));
}

static void option_meta_context(struct nbd_session *session, uint32_t option, struct cursor data)
{
	bool is_list = option == NBD_OPT_LIST_META_CONTEXT, is_asked;
	struct cursor name, query;
	uint32_t count;
	uint8_t *reply;

	if (!is_list)
		session->has_block_status = false;
	if (!take_string(&data, &name) || !option_take32(&data, &count) ||
		!session->is_structured) {
		reply_add(session, option, NBD_REP_ERR_INVALID, 0);
		return;
	}
	is_asked = is_list && count == 0;
	for (uint32_t i = 0; i < count; i++) {
		if (!take_string(&data, &query)) {
			reply_add(session, option, NBD_REP_ERR_INVALID, 0);
			return;
		}
		is_asked |= is_allocation_query(&query, is_list);
	}
	if (data.size > 0 || !is_export(session, &name)) {
		reply_add(session, option,
			data.size > 0 ? NBD_REP_ERR_INVALID : NBD_REP_ERR_UNKNOWN, 0);
		return;
	}
	if (is_asked) {
		reply = reply_add(
			session, option, NBD_REP_META_CONTEXT, 4 + sizeof(allocation_context) - 1);
		if (!reply)
			return;
		reply = nbd_put32(reply, is_list ? 0 : BLOCK_STATUS_CONTEXT);
		memcpy(reply, allocation_context, sizeof(allocation_context) - 1);
		session->has_block_status |= !is_list;
	}
	reply_add(session, option, NBD_REP_ACK, 0);
}

static void option_structured(struct nbd_session *session, struct cursor data)
{
	if (data.size > 0) {
		reply_add(session, NBD_OPT_STRUCTURED_REPLY, NBD_REP_ERR_INVALID, 0);
		return;
	}
	session->is_structured = true;
	reply_add(session, NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, 0);
}

static void option_serve(struct nbd_session *session, uint32_t option, struct cursor data)
{
	switch (option) {
	case NBD_OPT_EXPORT_NAME:
		option_export_name(session, data);
		break;
	case NBD_OPT_ABORT:
		reply_add(session, option, NBD_REP_ACK, 0);
		nbd_session_finish(session, NBD_ABORTED);
		break;
	case NBD_OPT_LIST:
		option_list(session, data);
		break;
	case NBD_OPT_INFO:
	case NBD_OPT_GO:
		option_go(session, option, data);
		break;
	case NBD_OPT_STRUCTURED_REPLY:
		option_structured(session, data);
		break;
	case NBD_OPT_LIST_META_CONTEXT:
	case NBD_OPT_SET_META_CONTEXT:
		option_meta_context(session, option, data);
		break;
	default:
		reply_add(session, option, NBD_REP_ERR_UNSUP, 0);
		break;
	}
}

size_t nbd_option_parse(struct nbd_session *session, const uint8_t *bytes, size_t size)
{
	uint32_t data_bytes;

	if (size < NBD_OPTION_HEAD_BYTES)
		return 0;
	data_bytes = nbd_get32(bytes + 12);
	if (nbd_get64(bytes) != NBD_OPTION_MAGIC || data_bytes > OPTION_BYTES_MAX) {
		nbd_session_finish(session, NBD_BAD_OPTION);
		return 0;
	}
	if (size - NBD_OPTION_HEAD_BYTES < data_bytes)
		return 0;
	option_serve(session, nbd_get32(bytes + 8),
		(struct cursor){bytes + NBD_OPTION_HEAD_BYTES, data_bytes});
	return NBD_OPTION_HEAD_BYTES + data_bytes;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/remote_message.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "wire/infiniband/mad_frame.h"

/* --- integers and texts --- */

void remote_put(struct remote_writer *writer, uint64_t value, uint32_t bytes)
{
	assert(writer->bytes + bytes <= sizeof(writer->body));
	for (uint32_t i = 0; i < bytes; i++)
		writer->body[writer->bytes++] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

/* Put a text into a field of `bytes` bytes. At least one zero follows the text. */
void remote_put_text(struct remote_writer *writer, const char *text, uint32_t bytes)
{
	uint8_t *to = writer->body + writer->bytes;

	assert(writer->bytes + bytes <= sizeof(writer->body));
	memset(to, 0, bytes);
	memcpy(to, text, strnlen(text, bytes - 1));
	writer->bytes += bytes;
}

/* The next `bytes` bytes; NULL: there are fewer. */
static const uint8_t *bytes_take(struct remote_reader *reader, uint32_t bytes)
{
	const uint8_t *at = reader->at;

	if (bytes > reader->left) {
		reader->is_short = true;
		return NULL;
	}
	reader->at += bytes;
	reader->left -= bytes;
	return at;
}

uint64_t remote_get(struct remote_reader *reader, uint32_t bytes)
{
	const uint8_t *at = bytes_take(reader, bytes);
	uint64_t value = 0;

	for (uint32_t i = 0; at && i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

void remote_get_text(struct remote_reader *reader, char *ret_text, uint32_t bytes)
{
	const uint8_t *at = bytes_take(reader, bytes);

	memset(ret_text, 0, bytes);
	if (at)
		memcpy(ret_text, at, bytes - 1);
	text_make_printable(ret_text);
}

static void place_put(struct remote_writer *writer, const struct remote_place *place)
{
	remote_put(writer, place->host, 2);
	remote_put(writer, place->port, 1);
}

static void place_get(struct remote_reader *reader, struct remote_place *ret_place)
{
	ret_place->host = (uint16_t)remote_get(reader, 2);
	ret_place->port = (uint8_t)remote_get(reader, 1);
}

/* --- joining --- */

void remote_join_encode(struct remote_writer *writer, const struct remote_join *join)
{
	writer->bytes = 0;
	remote_put(writer, join->window, 2);
	remote_put(writer, join->udp_port, 2);
	remote_put(writer, join->host_count, 2);
	for (uint32_t i = 0; i < join->host_count; i++)
		remote_put_text(writer, join->hosts[i], ATTACH_NAME_BYTES);
}

bool remote_join_decode(const struct remote_message *message, struct remote_join *ret_join)
{
	struct remote_reader reader = remote_reader_of(message);

	ret_join->window = (uint16_t)remote_get(&reader, 2);
	ret_join->udp_port = (uint16_t)remote_get(&reader, 2);
	ret_join->host_count = (uint16_t)remote_get(&reader, 2);
	if (ret_join->host_count == 0 || ret_join->host_count > REMOTE_HOSTS_MAX)
		return false;
	for (uint32_t i = 0; i < ret_join->host_count; i++)
		remote_get_text(&reader, ret_join->hosts[i], ATTACH_NAME_BYTES);
	return remote_is_whole(&reader);
}

static void node_put(struct remote_writer *writer, const struct attach_node *node)
{
	remote_put_text(writer, node->name, ATTACH_NAME_BYTES);
	remote_put(writer, node->node_guid, 8);
	remote_put(writer, node->system_image_guid, 8);
	remote_put(writer, node->port_count, 1);
	remote_put(writer, node->vendor_id, 4);
	remote_put(writer, node->device_id, 4);
}

static bool node_get(struct remote_reader *reader, struct attach_node *ret_node)
{
	*ret_node = (struct attach_node){0};
	remote_get_text(reader, ret_node->name, ATTACH_NAME_BYTES);
	ret_node->node_guid = remote_get(reader, 8);
	ret_node->system_image_guid = remote_get(reader, 8);
	ret_node->port_count = (uint32_t)remote_get(reader, 1);
	ret_node->vendor_id = (uint32_t)remote_get(reader, 4);
	ret_node->device_id = (uint32_t)remote_get(reader, 4);
	return ret_node->port_count > 0 && ret_node->port_count <= REMOTE_PORTS_MAX;
}

void remote_welcome_encode(struct remote_writer *writer, const struct remote_welcome *welcome)
{
	writer->bytes = 0;
	remote_put(writer, welcome->window, 2);
	remote_put(writer, welcome->session, 4);
	remote_put(writer, welcome->host_count, 2);
	for (uint32_t i = 0; i < welcome->host_count; i++)
		node_put(writer, &welcome->hosts[i]);
}

bool remote_welcome_decode(const struct remote_message *message, struct remote_welcome *ret_welcome)
{
	struct remote_reader reader = remote_reader_of(message);
	bool is_legal = true;

	ret_welcome->window = (uint16_t)remote_get(&reader, 2);
	ret_welcome->session = (uint32_t)remote_get(&reader, 4);
	ret_welcome->host_count = (uint16_t)remote_get(&reader, 2);
	if (ret_welcome->host_count == 0 || ret_welcome->host_count > REMOTE_HOSTS_MAX)
		return false;
	for (uint32_t i = 0; i < ret_welcome->host_count; i++)
		is_legal &= node_get(&reader, &ret_welcome->hosts[i]);
	return is_legal && remote_is_whole(&reader);
}

void remote_refusal_encode(struct remote_writer *writer, int error, const char *text)
{
	writer->bytes = 0;
	remote_put(writer, (uint32_t)error, 4);
	remote_put_text(writer, text, ATTACH_TEXT_BYTES);
}

bool remote_refusal_decode(
	const struct remote_message *message, int *ret_error, char ret_text[ATTACH_TEXT_BYTES])
{
	struct remote_reader reader = remote_reader_of(message);

	*ret_error = (int)(remote_get(&reader, 4) & INT32_MAX);
	remote_get_text(&reader, ret_text, ATTACH_TEXT_BYTES);
	return remote_is_whole(&reader);
}

/* --- ports --- */

/* The integers of struct attach_port before its tables: bytes, name. */
#define PORT_FIELDS(FIELD)        \
	FIELD(8, gid_prefix)      \
	FIELD(8, guid)            \
	FIELD(4, capability_mask) \
	FIELD(2, lid)             \
	FIELD(2, sm_lid)          \
	FIELD(1, lmc)             \
	FIELD(1, sm_sl)           \
	FIELD(1, state)           \
	FIELD(1, phys_state)      \
	FIELD(1, mtu)             \
	FIELD(1, mtu_max)         \
	FIELD(1, link_width)      \
	FIELD(1, link_speed)      \
	FIELD(1, link_speed_ext)  \
	FIELD(1, subnet_timeout)  \
	FIELD(1, vl_cap)          \
	FIELD(1, init_type_reply) \
	FIELD(2, bad_pkeys)       \
	FIELD(2, qkey_violations) \
	FIELD(2, pkey_count)      \
	FIELD(2, guid_count)

void remote_port_encode(struct remote_writer *writer, const struct remote_place *place,
	const struct attach_port *info)
{
	writer->bytes = 0;
	place_put(writer, place);
#define FIELD(bytes, name) remote_put(writer, info->name, bytes);
	PORT_FIELDS(FIELD)
#undef FIELD
	for (uint32_t i = 0; i < ATTACH_PKEYS_MAX; i++)
		remote_put(writer, info->pkeys[i], 2);
	for (uint32_t i = 0; i < ATTACH_GUIDS_MAX; i++)
		remote_put(writer, info->guids[i], 8);
}

/* May the values become those of a port that programs see? */
static bool port_is_legal(const struct attach_port *info)
{
	return info->pkey_count <= ATTACH_PKEYS_MAX && info->guid_count > 0 &&
		info->guid_count <= ATTACH_GUIDS_MAX && info->lmc <= 7 && info->sm_sl <= 15 &&
		info->state >= 1 && info->state <= 4 && info->mtu >= 1 && info->mtu <= 5 &&
		info->mtu_max >= 1 && info->mtu_max <= 5;
}

bool remote_port_decode(const struct remote_message *message, struct remote_place *ret_place,
	struct attach_port *ret_info)
{
	struct remote_reader reader = remote_reader_of(message);

	place_get(&reader, ret_place);
#define FIELD(bytes, name) ret_info->name = (__typeof__(ret_info->name))remote_get(&reader, bytes);
	PORT_FIELDS(FIELD)
#undef FIELD
	for (uint32_t i = 0; i < ATTACH_PKEYS_MAX; i++)
		ret_info->pkeys[i] = (uint16_t)remote_get(&reader, 2);
	for (uint32_t i = 0; i < ATTACH_GUIDS_MAX; i++)
		ret_info->guids[i] = remote_get(&reader, 8);
	return remote_is_whole(&reader) && port_is_legal(ret_info);
}

void remote_counters_encode(struct remote_writer *writer, const struct remote_place *place,
	const struct attach_counters *values)
{
	writer->bytes = 0;
	place_put(writer, place);
#define SUBNET_COUNTER(name, is_of_drops, sentence) remote_put(writer, values->name, 8);
#include "subnet/counter.def"
#undef SUBNET_COUNTER
}

bool remote_counters_decode(const struct remote_message *message, struct remote_place *ret_place,
	struct attach_counters *ret_values)
{
	struct remote_reader reader = remote_reader_of(message);

	place_get(&reader, ret_place);
#define SUBNET_COUNTER(name, is_of_drops, sentence) ret_values->name = remote_get(&reader, 8);
#include "subnet/counter.def"
#undef SUBNET_COUNTER
	return remote_is_whole(&reader);
}

void remote_fact_encode(
	struct remote_writer *writer, const struct remote_place *place, uint8_t fact)
{
	writer->bytes = 0;
	place_put(writer, place);
	remote_put(writer, fact, 1);
}

bool remote_fact_decode(
	const struct remote_message *message, struct remote_place *ret_place, uint8_t *ret_fact)
{
	struct remote_reader reader = remote_reader_of(message);

	place_get(&reader, ret_place);
	*ret_fact = (uint8_t)remote_get(&reader, 1);
	return remote_is_whole(&reader);
}

/* --- frames --- */

void remote_frame_encode(struct remote_writer *writer, const struct remote_place *place,
	const uint8_t *frame, uint32_t bytes)
{
	writer->bytes = 0;
	place_put(writer, place);
	remote_put(writer, 0, 1);
	assert(bytes <= ATTACH_FRAME_BYTES_MAX);
	memcpy(writer->body + writer->bytes, frame, bytes);
	writer->bytes += bytes;
}

bool remote_frame_decode(const struct remote_message *message, struct remote_place *ret_place,
	const uint8_t **ret_frame, uint32_t *ret_bytes)
{
	struct remote_reader reader = remote_reader_of(message);

	place_get(&reader, ret_place);
	remote_get(&reader, 1);
	*ret_frame = reader.at;
	*ret_bytes = reader.left;
	return !reader.is_short && reader.left >= ATTACH_FRAME_BYTES_MIN &&
		reader.left <= ATTACH_FRAME_BYTES_MAX;
}

bool remote_frame_is_management(const uint8_t *frame, uint32_t bytes)
{
	struct ib_frame decoded;

	return ib_frame_decode(&decoded, frame, bytes) && decoded.has_bth &&
		decoded.bth.dest_qpn.value <= GSI_QPN;
}

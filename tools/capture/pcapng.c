/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/pcapng.h"

#include <string.h>

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
	BYTE_ORDER_MAGIC = 0x1a2b3c4d,
	BODY_BYTES_MAX = (1 << 17) + 1024, /* the largest super-packet, and options */
	TIME_NANOSECONDS = 9, /* if_tsresol: units of 10^-9 seconds */
	INBOUND = 1,
	OUTBOUND = 2,
};

enum {
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	SECTION_APPLICATION = 4,
	INTERFACE_NAME = 2,
	INTERFACE_DESCRIPTION = 3,
	INTERFACE_TIME_RESOLUTION = 9,
	PACKET_FLAGS = 2,
	PACKET_DROPPED = 4,
	STATISTICS_RECEIVED = 4,
	STATISTICS_DROPPED = 5,
};

/*
 * The body of a block under construction. It has room for any packet; body_put() leaves out an item
 * that does not fit.
 */
struct body {
	uint32_t count;
	uint8_t bytes[BODY_BYTES_MAX];
};

static void body_begin(struct body *body)
{
	body->count = 0;
}

/* Append an item, padded with zeroes to a multiple of four bytes. */
static void body_put(struct body *body, const void *bytes, size_t count)
{
	size_t padded = (count + 3) & ~(size_t)3;

	if (!count || padded > sizeof(body->bytes) - body->count)
		return;
	memset(body->bytes + body->count + padded - 4, 0, 4);
	memcpy(body->bytes + body->count, bytes, count);
	body->count += (uint32_t)padded;
}

static void put_u32(struct body *body, uint32_t value)
{
	body_put(body, &value, sizeof(value));
}

static void put_time(struct body *body, uint64_t time_ns)
{
	uint8_t bytes[sizeof(time_ns)];

	pcapng_time_put(bytes, time_ns);
	body_put(body, bytes, sizeof(bytes));
}

static void option_put(struct body *body, uint16_t code, const void *value, size_t bytes)
{
	uint16_t head[2] = {code, (uint16_t)bytes};

	body_put(body, head, sizeof(head));
	body_put(body, value, bytes);
}

static void option_text(struct body *body, uint16_t code, const char *text)
{
	if (text)
		option_put(body, code, text, strlen(text));
}

static void options_end(struct body *body)
{
	option_put(body, OPTION_END, NULL, 0);
}

static void block_write(FILE *file, uint32_t type, const struct body *body)
{
	uint32_t bytes = body->count + 3 * (uint32_t)sizeof(uint32_t);
	uint32_t head[2] = {type, bytes};

	/*
	 * Only this thread uses the stream, so it needs no lock. The parentheses call the functions
	 * in place of glibc's macros, which are for constant lengths.
	 */
	(fwrite_unlocked)(head, sizeof(head), 1, file);
	(fwrite_unlocked)(body->bytes, body->count, 1, file);
	(fwrite_unlocked)(&bytes, sizeof(bytes), 1, file);
}

void pcapng_begin(FILE *file, const char *application)
{
	struct body body;
	const uint16_t version[2] = {1, 0};
	const int64_t not_known = -1; /* length of the section */

	body_begin(&body);
	put_u32(&body, BYTE_ORDER_MAGIC);
	body_put(&body, version, sizeof(version));
	body_put(&body, &not_known, sizeof(not_known));
	option_text(&body, SECTION_APPLICATION, application);
	options_end(&body);
	block_write(file, BLOCK_SECTION, &body);
}

void pcapng_interface(FILE *file, enum pcapng_link link, const char *name, const char *description,
	uint32_t snap_bytes)
{
	struct body body;
	const uint16_t type[2] = {(uint16_t)link, 0};
	const uint8_t resolution = TIME_NANOSECONDS;

	body_begin(&body);
	body_put(&body, type, sizeof(type));
	put_u32(&body, snap_bytes);
	option_text(&body, INTERFACE_NAME, name);
	option_text(&body, INTERFACE_DESCRIPTION, description);
	option_put(&body, INTERFACE_TIME_RESOLUTION, &resolution, sizeof(resolution));
	options_end(&body);
	block_write(file, BLOCK_INTERFACE, &body);
}

static void packet_put(struct body *body, const struct pcapng_packet *packet)
{
	const uint32_t flags = packet->is_outbound ? OUTBOUND : INBOUND;

	body_begin(body);
	put_u32(body, packet->interface);
	put_time(body, packet->time_ns);
	put_u32(body, packet->count);
	put_u32(body, packet->whole);
	body_put(body, packet->bytes, packet->count);
	option_text(body, OPTION_COMMENT, packet->comment);
	option_put(body, PACKET_FLAGS, &flags, sizeof(flags));
	if (packet->dropped)
		option_put(body, PACKET_DROPPED, &packet->dropped, sizeof(packet->dropped));
	options_end(body);
}

void pcapng_packet(FILE *file, const struct pcapng_packet *packet)
{
	struct body body;

	packet_put(&body, packet);
	block_write(file, BLOCK_PACKET, &body);
}

uint32_t pcapng_packet_make(const struct pcapng_packet *packet, uint8_t *to, uint32_t room)
{
	struct body body;
	uint32_t head[2] = {BLOCK_PACKET}, bytes;

	packet_put(&body, packet);
	bytes = body.count + 3 * (uint32_t)sizeof(uint32_t);
	if (bytes > room)
		return 0;
	head[1] = bytes;
	memcpy(to, head, sizeof(head));
	memcpy(to + sizeof(head), body.bytes, body.count);
	memcpy(to + sizeof(head) + body.count, &bytes, sizeof(bytes));
	return bytes;
}

void pcapng_statistics(
	FILE *file, uint32_t interface, uint64_t time_ns, uint64_t received, uint64_t dropped)
{
	struct body body;

	body_begin(&body);
	put_u32(&body, interface);
	put_time(&body, time_ns);
	option_put(&body, STATISTICS_RECEIVED, &received, sizeof(received));
	option_put(&body, STATISTICS_DROPPED, &dropped, sizeof(dropped));
	options_end(&body);
	block_write(file, BLOCK_STATISTICS, &body);
}

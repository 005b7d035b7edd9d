/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/capture_file.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "wire/bytes.h"
#include "wire/ip.h"

enum {
	BLOCK_BYTES_MAX = 1 << 20,
	INTERFACES_MAX = 256,
	PCAP_HEAD_BYTES = 24,
	PCAP_FRAME_BYTES = 16,
	BLOCK_HEAD_BYTES = 8,
	PACKET_HEAD_BYTES = 20,
};

enum {
	PCAP_MAGIC_US = 0xa1b2c3d4,
	PCAP_MAGIC_NS = 0xa1b23c4d,
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	BYTE_ORDER_MAGIC = 0x1a2b3c4d,
	OPTION_COMMENT = 1,
	OPTION_NAME = 2,
	OPTION_TIME_RESOLUTION = 9,
};

enum link {
	LINK_ETHERNET = 1,
	LINK_RAW_BSD = 12,
	LINK_RAW = 101,
	LINK_COOKED = 113,
	LINK_USER0 = 147,
	LINK_IPV4 = 228,
	LINK_IPV6 = 229,
	LINK_COOKED_2 = 276,
};

struct capture_interface_read {
	uint32_t link;
	uint64_t units_per_second;
	char name[CAPTURE_NAME_BYTES];
};

struct capture_file {
	FILE *stream;
	bool is_swapped;
	bool is_pcapng;
	uint32_t number;
	uint32_t interface_count;
	struct capture_interface_read interfaces[INTERFACES_MAX];
	char comment[CAPTURE_COMMENT_BYTES];
	uint32_t count; /* of `bytes` */
	uint8_t bytes[BLOCK_BYTES_MAX];
};

static uint32_t number_at(const struct capture_file *file, uint32_t offset)
{
	uint32_t value;

	memcpy(&value, file->bytes + offset, sizeof(value));
	return file->is_swapped ? __builtin_bswap32(value) : value;
}

static uint16_t short_at(const struct capture_file *file, uint32_t offset)
{
	uint16_t value;

	memcpy(&value, file->bytes + offset, sizeof(value));
	return file->is_swapped ? __builtin_bswap16(value) : value;
}

static bool bytes_read(struct capture_file *file, uint32_t offset, uint32_t count)
{
	return fread(file->bytes + offset, 1, count, file->stream) == count;
}

/* --- the frame --- */

static uint32_t ethernet_offset(const uint8_t *bytes, uint32_t count)
{
	uint32_t offset = 12;

	while (offset + 2 <= count) {
		uint16_t type = get_be16(bytes + offset);

		if (type == ETHER_TYPE_IPV4 || type == ETHER_TYPE_IPV6)
			return offset + 2;
		if (type != 0x8100 && type != 0x88a8)
			return count;
		offset += 4;
	}
	return count;
}

static uint32_t ip_offset(uint32_t link, const uint8_t *bytes, uint32_t count)
{
	uint32_t offset = count;

	switch (link) {
	case LINK_ETHERNET:
		offset = ethernet_offset(bytes, count);
		break;
	case LINK_COOKED:
		offset = 16;
		break;
	case LINK_COOKED_2:
		offset = 20;
		break;
	case LINK_RAW:
	case LINK_RAW_BSD:
	case LINK_IPV4:
	case LINK_IPV6:
		offset = 0;
		break;
	default:
		break;
	}
	return offset < count ? offset : count;
}

static void frame_fill(struct capture_file *file, struct capture_file_frame *frame,
	const struct capture_interface_read *interface, uint32_t offset)
{
	frame->number = ++file->number;
	frame->bytes = file->bytes + offset;
	frame->ip_offset = ip_offset(interface->link, frame->bytes, frame->count);
	frame->is_event = interface->link == LINK_USER0;
	frame->interface = interface->name;
	frame->comment = file->comment;
}

/* --- pcap --- */

static bool pcap_next(struct capture_file *file, struct capture_file_frame *frame)
{
	uint64_t units = file->interfaces[0].units_per_second;

	if (!bytes_read(file, 0, PCAP_FRAME_BYTES))
		return false;
	frame->time_ns = number_at(file, 0) * (uint64_t)1000000000u +
		number_at(file, 4) * (1000000000u / units);
	frame->count = number_at(file, 8);
	frame->whole = number_at(file, 12);
	if (frame->count > BLOCK_BYTES_MAX || !bytes_read(file, 0, frame->count))
		return false;
	frame_fill(file, frame, &file->interfaces[0], 0);
	return true;
}

static bool pcap_begin(struct capture_file *file, uint32_t magic)
{
	if (!bytes_read(file, 4, PCAP_HEAD_BYTES - 4))
		return false;
	file->interface_count = 1;
	file->interfaces[0].link = number_at(file, 20) & 0xffff;
	file->interfaces[0].units_per_second = magic == PCAP_MAGIC_NS ? 1000000000u : 1000000u;
	return true;
}

/* --- pcapng --- */

static void text_copy(char *to, uint32_t room, const uint8_t *from, uint32_t count)
{
	if (count >= room)
		count = room - 1;
	memcpy(to, from, count);
	to[count] = '\0';
	text_make_printable(to);
}

/* Find an option of the block, which begins at `offset`. Returns its length; 0: it has none. */
static uint32_t option_find(
	const struct capture_file *file, uint32_t offset, uint16_t code, uint32_t *ret_offset)
{
	while (offset + 4 <= file->count) {
		uint16_t found = short_at(file, offset), bytes = short_at(file, offset + 2);

		offset += 4;
		if (found == 0 || bytes > file->count - offset)
			return 0;
		if (found == code) {
			*ret_offset = offset;
			return bytes;
		}
		offset += (bytes + 3u) & ~3u;
	}
	return 0;
}

static void option_text(
	const struct capture_file *file, uint32_t offset, uint16_t code, char *to, uint32_t room)
{
	uint32_t at = 0, bytes = option_find(file, offset, code, &at);

	text_copy(to, room, file->bytes + at, bytes);
}

static uint64_t resolution_of(uint8_t value)
{
	uint64_t units = 1;

	if (value & 0x80)
		return (value & 0x7f) < 63 ? (uint64_t)1 << (value & 0x7f) : 1000000;
	if (value > 18)
		return 1000000;
	while (value--)
		units *= 10;
	return units;
}

static void interface_take(struct capture_file *file)
{
	struct capture_interface_read *interface;
	uint32_t at;

	if (file->count < 8 || file->interface_count == INTERFACES_MAX)
		return;
	interface = &file->interfaces[file->interface_count++];
	interface->link = short_at(file, 0);
	interface->units_per_second = option_find(file, 8, OPTION_TIME_RESOLUTION, &at) == 1
		? resolution_of(file->bytes[at])
		: 1000000;
	option_text(file, 8, OPTION_NAME, interface->name, sizeof(interface->name));
}

static bool packet_take(struct capture_file *file, struct capture_file_frame *frame)
{
	const struct capture_interface_read *interface;
	uint64_t units;

	if (file->count < PACKET_HEAD_BYTES || number_at(file, 0) >= file->interface_count)
		return false;
	interface = &file->interfaces[number_at(file, 0)];
	units = (uint64_t)number_at(file, 4) << 32 | number_at(file, 8);
	frame->time_ns = units / interface->units_per_second * 1000000000u +
		(uint64_t)((double)(units % interface->units_per_second) * 1e9 /
			(double)interface->units_per_second);
	frame->count = number_at(file, 12);
	frame->whole = number_at(file, 16);
	if (frame->count > file->count - PACKET_HEAD_BYTES)
		return false;
	option_text(file, PACKET_HEAD_BYTES + ((frame->count + 3) & ~3u), OPTION_COMMENT,
		file->comment, sizeof(file->comment));
	frame_fill(file, frame, interface, PACKET_HEAD_BYTES);
	return true;
}

/* Read the body of a block, whose head is read. */
static bool body_read(struct capture_file *file, uint32_t block_bytes)
{
	if (block_bytes < 12 || block_bytes > BLOCK_BYTES_MAX || block_bytes % 4)
		return false;
	file->count = block_bytes - 12;
	/* Read the second length, too, which follows the body. */
	return bytes_read(file, 0, block_bytes - BLOCK_HEAD_BYTES);
}

/* Begin a section, whose type is read. Sets the byte order. */
static bool section_begin(struct capture_file *file)
{
	uint32_t bytes, magic;

	if (!bytes_read(file, 0, BLOCK_HEAD_BYTES))
		return false;
	memcpy(&magic, file->bytes + 4, sizeof(magic));
	file->is_swapped = magic == __builtin_bswap32(BYTE_ORDER_MAGIC);
	if (magic != BYTE_ORDER_MAGIC && !file->is_swapped)
		return false;
	bytes = number_at(file, 0);
	file->interface_count = 0;
	file->is_pcapng = true;
	return bytes >= 16 && bytes <= BLOCK_BYTES_MAX && bytes_read(file, 0, bytes - 12);
}

static bool pcapng_next(struct capture_file *file, struct capture_file_frame *frame)
{
	uint32_t type;

	while (bytes_read(file, 0, 4)) {
		type = number_at(file, 0);
		if (type == BLOCK_SECTION) {
			if (!section_begin(file))
				return false;
			continue;
		}
		if (!bytes_read(file, 0, 4) || !body_read(file, number_at(file, 0)))
			return false;
		if (type == BLOCK_INTERFACE)
			interface_take(file);
		if (type == BLOCK_PACKET)
			return packet_take(file, frame);
	}
	return false;
}

/* --- files --- */

static int file_begin(struct capture_file *file)
{
	uint32_t magic;

	if (!bytes_read(file, 0, sizeof(magic)))
		return -EBADMSG;
	memcpy(&magic, file->bytes, sizeof(magic));
	if (magic == BLOCK_SECTION)
		return section_begin(file) ? 0 : -EBADMSG;
	file->is_swapped = magic == __builtin_bswap32(PCAP_MAGIC_US) ||
		magic == __builtin_bswap32(PCAP_MAGIC_NS);
	magic = number_at(file, 0);
	if (magic != PCAP_MAGIC_US && magic != PCAP_MAGIC_NS)
		return -EBADMSG;
	return pcap_begin(file, magic) ? 0 : -EBADMSG;
}

int capture_file_open(const char *path, struct capture_file **ret_file)
{
	struct capture_file *file = calloc(1, sizeof(*file));
	int error;

	if (!file)
		return -ENOMEM;
	file->stream = strcmp(path, "-") ? fopen(path, "re") : stdin;
	error = file->stream ? file_begin(file) : -errno;
	if (error) {
		capture_file_close(file);
		return error;
	}
	*ret_file = file;
	return 0;
}

bool capture_file_next(struct capture_file *file, struct capture_file_frame *ret_frame)
{
	file->comment[0] = '\0';
	return file->is_pcapng ? pcapng_next(file, ret_frame) : pcap_next(file, ret_frame);
}

void capture_file_close(struct capture_file *file)
{
	if (file->stream && file->stream != stdin)
		fclose(file->stream);
	free(file);
}

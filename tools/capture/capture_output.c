/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/capture_output.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arith.h"
#include "base/text.h"
#include "base/version.h"
#include "os/clock.h"
#include "wire/bth.h"
#include "wire/opcode.h"

#define DEVICES_INTERVAL_NS 1000000000u

enum {
	PACKET_BLOCK_BYTES = 128, /* about how many bytes a block of the file adds to its packet */
	BLOCK_BYTES_MAX = CAPTURED_FRAME_BYTES_MAX + 2 * CAPTURE_NOTE_BYTES,
	EVENT_BYTES = 192,
};

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the buffer --- */

static void buffer_write(struct capture_output *output)
{
	if (output->buffered)
		(fwrite_unlocked)(output->buffer, output->buffered, 1, output->file);
	output->buffered = 0;
}

/* Return where the next `count` bytes go, at most BLOCK_BYTES_MAX. */
static uint8_t *buffer_reserve(struct capture_output *output, uint32_t count)
{
	if (sizeof(output->buffer) - output->buffered < count)
		buffer_write(output);
	return output->buffer + output->buffered;
}

static void buffer_put(struct capture_output *output, const struct pcapng_packet *packet)
{
	uint8_t *to = buffer_reserve(output, BLOCK_BYTES_MAX);

	output->buffered += pcapng_packet_make(packet, to, BLOCK_BYTES_MAX);
}

void capture_output_flush(struct capture_output *output)
{
	buffer_write(output);
	fflush(output->file);
}

/* --- devices --- */

static bool has_gid(const struct device_facts *device, const struct gid *gid)
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		if (gid_is_equal(&device->gids[i].gid, gid))
			return true;
	return false;
}

static const struct device_facts *device_of(
	const struct capture_output *output, const struct captured *head)
{
	const struct gid *own = head->is_sent ? &head->source : &head->destination;

	if (head->ifindex)
		return device_facts_find(output->devices, output->device_count, head->ifindex);
	for (uint32_t i = 0; i < output->device_count; i++)
		if (has_gid(&output->devices[i], own))
			return &output->devices[i];
	return NULL;
}

/*
 * Find the device of a packet. An unknown device may be new, so list the devices again, once a
 * second at most.
 */
static const struct device_facts *device_find(
	struct capture_output *output, const struct captured *head)
{
	const struct device_facts *device = device_of(output, head);
	struct device_facts *devices;
	uint32_t count;

	if (device || head->time_ns - output->devices_ns < DEVICES_INTERVAL_NS)
		return device;
	output->devices_ns = head->time_ns;
	if (device_facts_create(&devices, &count))
		return NULL;
	free(output->devices);
	output->devices = devices;
	output->device_count = count;
	return device_of(output, head);
}

/* --- interfaces --- */

static void interface_describe(
	struct capture_output *output, const struct capture_interface *interface)
{
	bool is_events = interface->ifindex == CAPTURE_EVENTS_IFINDEX;

	buffer_write(output);
	pcapng_interface(output->file, is_events ? PCAPNG_USER0 : PCAPNG_IP, interface->name,
		is_events ? "Posts, completions and state changes of queue pairs"
			  : "Requests executed within this host, as the packets they would have "
			    "been",
		is_events ? 0 : output->snap_bytes);
}

static struct capture_interface *interface_get(
	struct capture_output *output, const struct device_facts *device)
{
	uint32_t ifindex = device ? device->ifindex : 0;
	struct capture_interface *interface;

	for (uint32_t i = 0; i < output->interface_count; i++) {
		interface = &output->interfaces[i];
		if (interface->ifindex == ifindex)
			return interface;
	}
	if (output->interface_count == CAPTURE_INTERFACES_MAX)
		return &output->interfaces[CAPTURE_INTERFACES_MAX - 1];
	interface = &output->interfaces[output->interface_count++];
	*interface = (struct capture_interface){.ifindex = ifindex};
	snprintf(interface->name, sizeof(interface->name), "%s (local)",
		device ? device->name : "unknown device");
	text_make_printable(interface->name);
	if (!output->is_text)
		interface_describe(output, interface);
	return interface;
}

/* --- files --- */

FILE *capture_ring_open(const struct capture_ring *ring)
{
	char path[4096];

	if (!ring->bytes_max)
		return fopen(ring->path, "we");
	snprintf(path, sizeof(path), "%s.%u", ring->path, ring->index);
	return fopen(path, "we");
}

static void file_begin(struct capture_output *output)
{
	char application[64];

	snprintf(application, sizeof(application), "urnic %s", urnic_version());
	pcapng_begin(output->file, application);
	output->file_bytes = 0;
}

static void statistics_write(struct capture_output *output)
{
	buffer_write(output);
	for (uint32_t i = 0; i < output->interface_count; i++)
		pcapng_statistics(output->file, i, realtime_ns(), output->interfaces[i].packets,
			output->interfaces[i].dropped);
}

/* Continue in the next file if this one is full. If open() refuses the next one, this one grows. */
static void file_turn(struct capture_output *output)
{
	struct capture_ring next = output->ring;
	FILE *file;

	if (!next.bytes_max || output->file_bytes < next.bytes_max)
		return;
	next.index = (next.index + 1) % next.file_count;
	file = capture_ring_open(&next);
	if (!file)
		return;
	statistics_write(output);
	output->has_failed |= ferror(output->file) != 0;
	output->has_failed |= fclose(output->file) != 0;
	output->file = file;
	output->ring = next;
	file_begin(output);
	for (uint32_t i = 0; i < output->interface_count; i++)
		interface_describe(output, &output->interfaces[i]);
}

/* --- packets --- */

static bool is_wanted(const struct capture_filter *filter, const struct device_facts *device)
{
	if (!filter->device)
		return true;
	return device &&
		(strcmp(filter->device, device->name) == 0 ||
			strcmp(filter->device, device->interface) == 0);
}

/* Does the packet pass the filters of its headers? */
static bool is_selected(
	const struct capture_filter *filter, const struct captured *head, const uint8_t *bytes)
{
	const struct opcode_info *info;
	struct bth bth;

	if (!filter->qpn && !filter->opcode)
		return true;
	if (head->captured_bytes < BTH_BYTES)
		return false;
	bth_decode(&bth, bytes);
	info = opcode_info(bth.opcode);
	return (!filter->qpn || filter->qpn == head->qpn || filter->qpn == bth.dest_qpn.value) &&
		(!filter->opcode || (info && strcasestr(info->name, filter->opcode)));
}

bool capture_output_has_wanted(const struct capture_output *output)
{
	for (uint32_t i = 0; i < output->device_count; i++)
		if (is_wanted(&output->filter, &output->devices[i]))
			return true;
	return !output->filter.device;
}

/* Write the frame. If `block` is not NULL, keep the frame's block of the file there. */
static void frame_write(struct capture_output *output, uint32_t interface, uint64_t time_ns,
	const struct captured *head, const struct capture_origin *origin,
	struct capture_block *block)
{
	const struct captured_frame *frame = &output->frame;
	char *comment = output->comment;
	struct pcapng_packet packet = {
		.interface = interface,
		.time_ns = time_ns,
		.bytes = frame->bytes,
		.count = frame->count,
		.whole = frame->whole,
		.is_outbound = head->is_sent,
		.dropped = origin->dropped,
		.comment = comment,
	};

	if (output->snap_bytes && head->packet_bytes && packet.count > output->snap_bytes)
		packet.count = output->snap_bytes;
	if (output->comment_pid != origin->pid || output->comment_qpn != head->qpn)
		snprintf(comment, sizeof(output->comment),
			"%s, process %d, QP 0x%06x, without packets", origin->comm, origin->pid,
			head->qpn);
	output->comment_pid = origin->pid;
	output->comment_qpn = head->qpn;
	buffer_put(output, &packet);
	output->file_bytes += packet.count + PACKET_BLOCK_BYTES;
	if (block && packet.count == frame->count && !origin->dropped)
		capture_block_keep(block, &packet, head, &output->tables);
}

static void block_output(struct capture_output *output, const struct capture_block *block)
{
	memcpy(buffer_reserve(output, block->count), block->bytes, block->count);
	output->buffered += block->count;
	output->file_bytes += block->count;
	output->interfaces[block->interface].packets++;
	output->packets++;
}

bool capture_output_repetition(struct capture_output *output, struct capture_blocks *blocks,
	const struct capture_repetition *repetition)
{
	uint64_t time_ns = repetition->repeat->time_ns + (uint64_t)output->epoch_ns;

	if (!capture_blocks_change(blocks, repetition, time_ns))
		return false;
	block_output(output, &blocks->packet);
	if (repetition->model->head.answer)
		block_output(output, &blocks->answer);
	file_turn(output);
	return true;
}

/* Write a packet. `block` is that of the packet's model; NULL: it has no model. */
static void packet_output(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin, struct capture_block *block)
{
	const struct device_facts *device = device_find(output, head);
	uint64_t time_ns = head->time_ns + (uint64_t)output->epoch_ns;
	struct capture_interface *interface;

	output->dropped += origin->dropped;
	if (!is_wanted(&output->filter, device) || !is_selected(&output->filter, head, bytes) ||
		!captured_frame_make(head, bytes, &output->frame))
		return;
	interface = interface_get(output, device);
	interface->packets++;
	interface->dropped += origin->dropped;
	output->packets++;
	if (output->is_text)
		capture_text(output->file, head, bytes, origin, interface->name, time_ns);
	else
		frame_write(output, (uint32_t)(interface - output->interfaces), time_ns, head,
			origin, block);
}

static struct capture_interface *events_interface(struct capture_output *output)
{
	const struct device_facts none = {.ifindex = CAPTURE_EVENTS_IFINDEX, .name = "events"};

	return interface_get(output, &none);
}

/* Write an event of a queue pair: a line of text, as a packet of an interface of its own. */
static void event_output(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin)
{
	struct captured_event event;
	struct captured_frame *frame = &output->frame;
	char text[EVENT_BYTES];
	struct capture_interface *interface;

	output->dropped += origin->dropped;
	if (head->captured_bytes != sizeof(event) || output->filter.opcode ||
		(output->filter.qpn && output->filter.qpn != head->qpn))
		return;
	memcpy(&event, bytes, sizeof(event));
	if (!capture_event_text(head, &event, text, sizeof(text)))
		return;
	if (output->is_text) {
		fprintf(output->file, "event %s[%d] %s\n", origin->comm, origin->pid, text);
		return;
	}
	interface = events_interface(output);
	interface->packets++;
	frame->count = frame->whole = (uint32_t)strlen(text);
	memcpy(frame->bytes, text, frame->count);
	frame_write(output, (uint32_t)(interface - output->interfaces),
		head->time_ns + (uint64_t)output->epoch_ns, head, origin, NULL);
}

/* Write the acknowledgement of a packet, if it has one. */
static void answer_output(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin)
{
	struct capture_block *block = origin->blocks ? &origin->blocks->answer : NULL;
	uint8_t answer_bytes[CAPTURED_ANSWER_BYTES];
	struct capture_origin none_lost;
	struct captured answer;

	if (!captured_answer_make(head, bytes, &answer, answer_bytes))
		return;
	none_lost = *origin;
	none_lost.dropped = 0;
	packet_output(output, &answer, answer_bytes, &none_lost, block);
}

void capture_output_packet(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin)
{
	struct capture_block *block = origin->blocks ? &origin->blocks->packet : NULL;
	struct captured headers;

	/* A process that has just started may have recorded payload before it was asked not to. */
	if (output->is_headers && head->packet_bytes && head->captured_bytes > BTH_BYTES) {
		const struct opcode_info *info = opcode_info(bytes[0]);

		headers = *head;
		headers.captured_bytes =
			min_u32(head->captured_bytes, info ? info->header_bytes : BTH_BYTES);
		head = &headers;
	}
	if (head->packet_bytes)
		packet_output(output, head, bytes, origin, block);
	else
		event_output(output, head, bytes, origin);
	answer_output(output, head, bytes, origin);
	file_turn(output);
}

int capture_output_begin(struct capture_output *output, FILE *file, bool is_text,
	uint32_t snap_bytes, const struct capture_filter *filter, const struct capture_ring *ring)
{
	int error;

	memset(output, 0, sizeof(*output));
	output->file = file;
	output->is_text = is_text;
	output->snap_bytes = snap_bytes;
	output->filter = *filter;
	output->ring = *ring;
	crc32_tables_init(&output->tables);
	output->epoch_ns = (int64_t)(realtime_ns() - clock_now_ns());
	error = device_facts_create(&output->devices, &output->device_count);
	if (!error && !is_text)
		file_begin(output);
	return error;
}

void capture_output_end(struct capture_output *output, uint64_t dropped)
{
	output->dropped += dropped;
	if (output->interface_count > 0)
		output->interfaces[0].dropped += dropped;
	if (!output->is_text)
		statistics_write(output);
	free(output->devices);
}

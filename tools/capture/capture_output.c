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
	PACKET_BLOCK_BYTES = 128, /* of a packet's block in the file, without the packet */
	STREAM_BYTES = 1 << 20,
	EVENT_BYTES = 192,
};

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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
	const struct capture_output *output, const struct capture_interface *interface)
{
	bool is_events = interface->ifindex == CAPTURE_EVENTS_IFINDEX;

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

	setvbuf(output->file, NULL, _IOFBF, STREAM_BYTES);
	snprintf(application, sizeof(application), "urnic %s", urnic_version());
	pcapng_begin(output->file, application);
	output->file_bytes = 0;
}

static void statistics_write(struct capture_output *output)
{
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

static void frame_write(struct capture_output *output, uint32_t interface, uint64_t time_ns,
	const struct captured *head, const struct capture_origin *origin)
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
	pcapng_packet(output->file, &packet);
	output->file_bytes += packet.count + PACKET_BLOCK_BYTES;
}

static void packet_output(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin)
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
		frame_write(
			output, (uint32_t)(interface - output->interfaces), time_ns, head, origin);
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
		head->time_ns + (uint64_t)output->epoch_ns, head, origin);
}

void capture_output_packet(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin)
{
	uint8_t answer_bytes[CAPTURED_ANSWER_BYTES];
	struct capture_origin none_lost = *origin;
	struct captured answer, headers;

	/* A process that has just started may have recorded payload before it was asked not to. */
	if (output->is_headers && head->packet_bytes && head->captured_bytes > BTH_BYTES) {
		const struct opcode_info *info = opcode_info(bytes[0]);

		headers = *head;
		headers.captured_bytes =
			min_u32(head->captured_bytes, info ? info->header_bytes : BTH_BYTES);
		head = &headers;
	}

	none_lost.dropped = 0;
	if (head->packet_bytes)
		packet_output(output, head, bytes, origin);
	else
		event_output(output, head, bytes, origin);
	if (captured_answer_make(head, bytes, &answer, answer_bytes))
		packet_output(output, &answer, answer_bytes, &none_lost);
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

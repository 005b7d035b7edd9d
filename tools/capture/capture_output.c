/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/capture_output.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/version.h"
#include "os/clock.h"

#define DEVICES_INTERVAL_NS 1000000000u

enum { COMMENT_BYTES = 160 };

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
		pcapng_interface(output->file, PCAPNG_IP, interface->name,
			"Requests executed within this host, as the packets they would have been",
			output->snap_bytes);
	return interface;
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
	char comment[COMMENT_BYTES];
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

	if (output->snap_bytes && packet.count > output->snap_bytes)
		packet.count = output->snap_bytes;
	snprintf(comment, sizeof(comment), "%s, process %d, QP 0x%06x, without packets",
		origin->comm, origin->pid, head->qpn);
	pcapng_packet(output->file, &packet);
}

void capture_output_packet(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin)
{
	const struct device_facts *device = device_find(output, head);
	uint64_t time_ns = head->time_ns + (uint64_t)output->epoch_ns;
	struct capture_interface *interface;

	output->dropped += origin->dropped;
	if (!is_wanted(&output->filter, device) ||
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

int capture_output_begin(struct capture_output *output, FILE *file, bool is_text,
	uint32_t snap_bytes, const struct capture_filter *filter)
{
	int error;

	memset(output, 0, sizeof(*output));
	output->file = file;
	output->is_text = is_text;
	output->snap_bytes = snap_bytes;
	output->filter = *filter;
	output->epoch_ns = (int64_t)(realtime_ns() - clock_now_ns());
	error = device_facts_create(&output->devices, &output->device_count);
	if (!error && !is_text) {
		char application[64];

		snprintf(application, sizeof(application), "urnic %s", urnic_version());
		pcapng_begin(file, application);
	}
	return error;
}

void capture_output_end(struct capture_output *output, uint64_t dropped)
{
	output->dropped += dropped;
	if (output->interface_count > 0)
		output->interfaces[0].dropped += dropped;
	for (uint32_t i = 0; !output->is_text && i < output->interface_count; i++)
		pcapng_statistics(output->file, i, realtime_ns(), output->interfaces[i].packets,
			output->interfaces[i].dropped);
	free(output->devices);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture of urnic pair: all frames of the host's interface, as a pcap or pcapng file.
 *
 * pair_frames.c gets the frames from the kernel, many at a time. A sender gives the kernel many
 * packets as one super-packet, which stays one on the way to the other host (docs/roce.md). The
 * kernel says of each frame how long its segments are, and pair_segments.c makes the packets of
 * them. pair_merge.c puts events between the frames.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/pcapng.h"
#include "common/command.h"
#include "common/packet_story.h"
#include "os/clock.h"
#include "os/kernel.h"
#include "pair/pair.h"
#include "pair/pair_frames.h"
#include "pair/pair_merge.h"
#include "pair/pair_segments.h"

#define PCAP_MAGIC_NANOSECONDS 0xa1b23c4du

enum {
	LINKTYPE_ETHERNET = 1,
	FRAME_BYTES_MAX = 1 << 17,
	STREAM_BYTES = 1 << 17,
	MERGES_AT_ONCE =
		256, /* before the next events are read: a pipe has room for about as many */
	MERGE_WAIT_MS = 5,
};

/* How long at most the capture waits at its end for the kernel to hand over the last frames. */
#define LAST_FRAMES_NS 1000000000u
#define SECOND_NS      1000000000u

struct pcap_head {
	uint32_t magic;
	uint16_t major, minor;
	uint32_t zone, accuracy, snap_bytes, link_type;
};

struct pcap_frame {
	uint32_t seconds, nanoseconds, bytes, wire_bytes;
};

static volatile sig_atomic_t is_over;

static void end_note(int signal)
{
	(void)signal;
	is_over = 1;
}

/* The file that is written. */
struct pair_file {
	FILE *stream;
	struct story *story; /* NULL: the file is pcap */
	uint32_t number; /* of the last frame */
	int events_fd; /* -1: there are no more events */
	bool has_events; /* there are or were events, so frames are merged with them */
	struct pair_merge merge;
	bool has_frame; /* a frame has come that is not written yet: */
	struct pair_frame frame;
};

/* The interfaces of a pcapng file. */
enum { INTERFACE_FRAMES, INTERFACE_EVENTS };

static void pcap_write(const struct pair_file *file, const struct pair_frame *frame)
{
	const struct pcap_frame head = {(uint32_t)(frame->time_ns / SECOND_NS),
		(uint32_t)(frame->time_ns % SECOND_NS), frame->count, frame->whole};

	/*
	 * Only this thread uses the stream, so it needs no lock. The parentheses call the functions
	 * in place of glibc's macros, which are for constant lengths.
	 */
	(fwrite_unlocked)(&head, sizeof(head), 1, file->stream);
	(fwrite_unlocked)(frame->bytes, frame->count, 1, file->stream);
}

static void pcapng_write(const struct pair_file *file, const struct pair_frame *frame)
{
	struct capture_file_frame read = {.number = file->number,
		.time_ns = frame->time_ns,
		.bytes = frame->bytes,
		.count = frame->count,
		.whole = frame->whole,
		.ip_offset = ETH_HLEN};
	struct story_entry entry;
	bool has_story = frame->count > ETH_HLEN && story_take(file->story, &read, &entry);
	struct pcapng_packet packet = {.interface = INTERFACE_FRAMES,
		.time_ns = frame->time_ns,
		.bytes = frame->bytes,
		.count = frame->count,
		.whole = frame->whole,
		.is_outbound = frame->is_outbound,
		.comment = has_story && story_is_trouble(&entry) ? entry.text : NULL};

	pcapng_packet(file->stream, &packet);
}

/* Write a packet into the file. */
static void packet_write(struct pair_file *file, const struct pair_frame *packet)
{
	file->number++;
	if (file->story)
		pcapng_write(file, packet);
	else
		pcap_write(file, packet);
}

/* Write a frame into the file, a super-packet as its packets. */
static void frame_write(struct pair_file *file, const struct pair_frame *frame)
{
	static uint8_t bytes[PAIR_SEGMENT_BYTES_MAX];
	struct pair_frame packet = *frame;
	struct pair_segments cut;

	if (!frame->segment_bytes ||
		!pair_segments_begin(&cut, frame->bytes, frame->count, frame->segment_bytes)) {
		packet_write(file, frame);
		return;
	}
	packet.bytes = bytes;
	while ((packet.count = pair_segments_next(&cut, bytes)) > 0) {
		packet.whole = packet.count;
		packet_write(file, &packet);
	}
}

static void event_write(struct pair_file *file, const struct pair_event *event)
{
	char comment[2 * PAIR_EVENT_PROCESS_BYTES];
	uint32_t count = (uint32_t)strlen(event->text);

	snprintf(comment, sizeof(comment), "%s, QP 0x%06x", event->process, event->qpn);
	pcapng_packet(file->stream,
		&(struct pcapng_packet){.interface = INTERFACE_EVENTS,
			.time_ns = event->time_ns,
			.bytes = (const uint8_t *)event->text,
			.count = count,
			.whole = count,
			.comment = comment});
	file->number++;
}

/* Read the events that have come, as many as there is room for. */
static void events_read(struct pair_file *file)
{
	while (file->events_fd >= 0 && pair_merge_has_room(&file->merge)) {
		struct pair_event event;
		ssize_t bytes = read(file->events_fd, &event, sizeof(event));

		if (bytes == sizeof(event)) {
			pair_merge_event_add(&file->merge, &event);
			continue;
		}
		if (bytes == 0) {
			close(file->events_fd);
			file->events_fd = -1;
			pair_merge_events_end(&file->merge);
		}
		return;
	}
}

/* --- merging --- */

/* What goes into the file next, if that is certain already. */
static enum pair_merge_next file_next(
	struct pair_frames *frames, struct pair_file *file, uint64_t now_ns)
{
	if (!file->has_frame)
		file->has_frame = pair_frames_next(frames, &file->frame);
	if (!file->has_events)
		return file->has_frame ? PAIR_MERGE_FRAME : PAIR_MERGE_NONE;
	return pair_merge_next(
		&file->merge, file->has_frame ? file->frame.time_ns : UINT64_MAX, now_ns);
}

/* Write the next frames and events, MERGES_AT_ONCE at most. Returns whether there may be more. */
static bool merges_write(struct pair_frames *frames, struct pair_file *file, uint64_t now_ns)
{
	for (uint32_t i = 0; i < MERGES_AT_ONCE; i++) {
		switch (file_next(frames, file, now_ns)) {
		case PAIR_MERGE_FRAME:
			frame_write(file, &file->frame);
			file->has_frame = false;
			break;
		case PAIR_MERGE_EVENT:
			event_write(file, pair_merge_event_take(&file->merge));
			break;
		case PAIR_MERGE_NONE:
			return false;
		}
	}
	return true;
}

/*
 * Write all frames and events whose turn it is. `is_last`: no others come. When the kernel or this
 * process runs out of room, nothing waits, because what is lost is worse than another order.
 */
static void anything_take(struct pair_frames *frames, struct pair_file *file, bool is_last)
{
	bool has_more = true;

	while (has_more) {
		bool waits = !is_last && !pair_frames_is_half_full(frames);

		if (file->has_events)
			events_read(file);
		waits = waits && (!file->has_events || pair_merge_has_room(&file->merge));
		has_more = merges_write(
			frames, file, waits ? clock_epoch_ns() + clock_now_ns() : UINT64_MAX);
	}
	fflush(file->stream);
}

/*
 * Take frames until SIGTERM, then those that are left. SIGTERM is blocked except inside ppoll(), so
 * it cannot come between the check of `is_over` and the wait.
 */
static void frames_take(struct pair_frames *frames, struct pair_file *file)
{
	const struct timespec soon = {.tv_nsec = MERGE_WAIT_MS * 1000000};
	struct pollfd ready[] = {{.events = POLLIN}, {.events = POLLIN}};
	sigset_t blocked, before;
	uint64_t until_ns;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	while (!is_over) {
		/* While a frame waits, the kernel's descriptor stays readable. */
		ready[0].fd = file->has_frame ? -1 : frames->fd;
		ready[1].fd = file->events_fd;
		ppoll(ready, 2, file->has_frame || file->merge.count ? &soon : NULL, &before);
		anything_take(frames, file, false);
	}
	until_ns = clock_now_ns() + LAST_FRAMES_NS;
	while (!pair_frames_is_empty(frames) && clock_now_ns() < until_ns) {
		ready[0].fd = file->has_frame ? -1 : frames->fd;
		poll(ready, 1, file->has_frame ? MERGE_WAIT_MS : PAIR_FRAMES_WAIT_MS);
		anything_take(frames, file, false);
	}
	anything_take(frames, file, true);
}

/* Write what comes before the first frame. Returns false when out of memory. */
static bool file_begin(struct pair_file *file, bool is_pcapng, int reporters)
{
	const struct pcap_head head = {.magic = PCAP_MAGIC_NANOSECONDS,
		.major = 2,
		.minor = 4,
		.snap_bytes = FRAME_BYTES_MAX,
		.link_type = LINKTYPE_ETHERNET};

	if (!is_pcapng) {
		fwrite(&head, sizeof(head), 1, file->stream);
		return true;
	}
	file->story = story_create();
	pcapng_begin(file->stream, "urnic " URNIC_VERSION);
	pcapng_interface(
		file->stream, PCAPNG_ETHERNET, NETWORK_INTERFACE, "host a of urnic pair", 0);
	if (file->has_events)
		pcapng_interface(file->stream, PCAPNG_USER0, "events (local)",
			"Posts, completions and state changes of queue pairs", 0);
	return file->story && (!file->has_events || pair_merge_init(&file->merge, reporters));
}

int pair_capture(int descriptor, bool is_pcapng, int events_fd, int reporters, int ready_fd)
{
	const struct sigaction action = {.sa_handler = end_note};
	struct pair_file file = {.stream = fdopen(descriptor, "w"),
		.events_fd = events_fd,
		.has_events = events_fd >= 0};
	struct pair_frames frames;
	uint32_t dropped;
	int error = file.stream ? pair_frames_open(&frames, if_nametoindex(NETWORK_INTERFACE),
					  kernel_knows_super_packets())
				: -errno;

	if (error) {
		complain("pair: no capture: %s", strerror(-error));
		return EXIT_FAILED;
	}
	setvbuf(file.stream, NULL, _IOFBF, STREAM_BYTES);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGINT, SIG_IGN);
	if (!file_begin(&file, is_pcapng, reporters)) {
		complain("pair: no capture: out of memory");
		return EXIT_FAILED;
	}
	if (fflush(file.stream) == 0 && write(ready_fd, "", 1) == 1)
		frames_take(&frames, &file);
	dropped = pair_frames_dropped(&frames);
	if (dropped)
		complain("pair: the capture lacks %u packets, which came too fast", dropped);
	pair_frames_close(&frames);
	pair_merge_done(&file.merge);
	if (fclose(file.stream) == 0)
		return EXIT_OK;
	complain("pair: the capture is not complete: %s", strerror(errno));
	return EXIT_FAILED;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture of urnic pair: all frames of the host's interface, as a pcap or pcapng file.
 *
 * pair_frames.c gets the frames from the kernel, many at a time. A sender gives the kernel many
 * packets as one super-packet, which stays whole on the way to the other host (docs/roce.md). The
 * kernel says how long a super-packet's segments are, and pair_segments.c cuts it into packets.
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
#include "pair/pair_segments.h"

#define PCAP_MAGIC_NANOSECONDS 0xa1b23c4du

enum {
	LINKTYPE_ETHERNET = 1,
	FRAME_BYTES_MAX = 1 << 17,
	STREAM_BYTES = 1 << 17,
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
	int events_fd; /* -1: there are no events */
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

/* Write the next events. Returns false if none has come, or at the end. */
static bool events_take(struct pair_file *file)
{
	struct pair_event events[16];
	ssize_t bytes = file->events_fd < 0 ? -1 : read(file->events_fd, events, sizeof(events));

	if (bytes == 0) {
		close(file->events_fd);
		file->events_fd = -1;
	}
	for (ssize_t i = 0; i < bytes / (ssize_t)sizeof(events[0]); i++) {
		char comment[2 * PAIR_EVENT_PROCESS_BYTES];
		uint32_t count = (uint32_t)strlen(events[i].text);

		snprintf(comment, sizeof(comment), "%s, QP 0x%06x", events[i].process,
			events[i].qpn);
		pcapng_packet(file->stream,
			&(struct pcapng_packet){.interface = INTERFACE_EVENTS,
				.time_ns = events[i].time_ns,
				.bytes = (const uint8_t *)events[i].text,
				.count = count,
				.whole = count,
				.comment = comment});
		file->number++;
	}
	return bytes > 0;
}

/* Write all frames and events that are there. */
static void anything_take(struct pair_frames *frames, struct pair_file *file)
{
	struct pair_frame frame;

	while (pair_frames_next(frames, &frame))
		frame_write(file, &frame);
	while (events_take(file))
		continue;
	fflush(file->stream);
}

/*
 * Take frames until SIGTERM, then those that are left. SIGTERM is blocked except inside ppoll(), so
 * it cannot come between the check of `is_over` and the wait.
 */
static void frames_take(struct pair_frames *frames, struct pair_file *file)
{
	struct pollfd ready[] = {{.fd = frames->fd, .events = POLLIN}, {.events = POLLIN}};
	sigset_t blocked, before;
	uint64_t until_ns;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	while (!is_over) {
		ready[1].fd = file->events_fd;
		ppoll(ready, 2, NULL, &before);
		anything_take(frames, file);
	}
	until_ns = clock_now_ns() + LAST_FRAMES_NS;
	while (!pair_frames_is_empty(frames) && clock_now_ns() < until_ns) {
		poll(ready, 1, PAIR_FRAMES_WAIT_MS);
		anything_take(frames, file);
	}
}

/* Write the head of the file. Returns false when out of memory. */
static bool file_begin(struct pair_file *file, bool is_pcapng)
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
	if (file->events_fd >= 0)
		pcapng_interface(file->stream, PCAPNG_USER0, "events (local)",
			"Posts, completions and state changes of queue pairs", 0);
	return file->story;
}

int pair_capture(int descriptor, bool is_pcapng, int events_fd, int ready_fd)
{
	const struct sigaction action = {.sa_handler = end_note};
	struct pair_file file = {.stream = fdopen(descriptor, "w"), .events_fd = events_fd};
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
	if (!file_begin(&file, is_pcapng)) {
		complain("pair: no capture: out of memory");
		return EXIT_FAILED;
	}
	if (fflush(file.stream) == 0 && write(ready_fd, "", 1) == 1)
		frames_take(&frames, &file);
	dropped = pair_frames_dropped(&frames);
	if (dropped)
		complain("pair: the capture lacks %u packets, which came too fast", dropped);
	pair_frames_close(&frames);
	if (fclose(file.stream) == 0)
		return EXIT_OK;
	complain("pair: the capture is not complete: %s", strerror(errno));
	return EXIT_FAILED;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture of urnic pair: all frames of the host's interface, as a pcap or pcapng file.
 *
 * A sender gives the kernel many packets as one super-packet, which stays one on the way to the
 * other host (docs/roce.md). The kernel says of each frame how long its segments are, and
 * pair_segments.c makes the packets of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "capture/pcapng.h"
#include "common/command.h"
#include "common/packet_story.h"
#include "os/kernel.h"
#include "pair/pair.h"
#include "pair/pair_segments.h"

#define PCAP_MAGIC_NANOSECONDS 0xa1b23c4du

enum {
	LINKTYPE_ETHERNET = 1,
	FRAME_BYTES_MAX = 1 << 17,
	SOCKET_BUFFER_BYTES = 64 << 20,
	STREAM_BYTES = 1 << 17,
	GSO_UDP_L4 = 5, /* VIRTIO_NET_HDR_GSO_UDP_L4 of Linux 6.2 */
};

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

/*
 * Open a packet socket on the interface of the host, which says how frames are cut if
 * `knows_segments`. Returns it, or -1 with errno set.
 */
static int socket_open(bool knows_segments)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(NETWORK_INTERFACE),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	int bytes = SOCKET_BUFFER_BYTES, on = 1;

	if (fd < 0)
		return -1;
	/* SO_RCVBUFFORCE needs a privilege. SO_RCVBUF gives what the system allows. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	if (knows_segments)
		setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static struct timespec frame_time(struct msghdr *header)
{
	struct timespec time = {.tv_sec = 0};

	for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item; item = CMSG_NXTHDR(header, item))
		if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_TIMESTAMPNS)
			memcpy(&time, CMSG_DATA(item), sizeof(time));
	return time;
}

/* The file that is written. */
struct pair_file {
	FILE *stream;
	struct story *story; /* NULL: the file is pcap */
	uint32_t number; /* of the last frame */
	int events_fd; /* -1: there are no events */
	bool knows_segments; /* each frame comes with a struct virtio_net_hdr */
};

/* The interfaces of a pcapng file. */
enum { INTERFACE_FRAMES, INTERFACE_EVENTS };

static void pcap_write(
	const struct pair_file *file, struct timespec time, const uint8_t *frame, uint32_t bytes)
{
	const struct pcap_frame head = {
		(uint32_t)time.tv_sec, (uint32_t)time.tv_nsec, bytes, bytes};

	fwrite(&head, sizeof(head), 1, file->stream);
	fwrite(frame, bytes, 1, file->stream);
}

static void pcapng_write(const struct pair_file *file, struct timespec time, const uint8_t *frame,
	uint32_t bytes, bool is_outbound)
{
	struct capture_file_frame read = {.number = file->number,
		.time_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec,
		.bytes = frame,
		.count = bytes,
		.whole = bytes,
		.ip_offset = ETH_HLEN};
	struct story_entry entry;
	bool has_story = bytes > ETH_HLEN && story_take(file->story, &read, &entry);
	struct pcapng_packet packet = {.interface = INTERFACE_FRAMES,
		.time_ns = read.time_ns,
		.bytes = frame,
		.count = bytes,
		.whole = bytes,
		.is_outbound = is_outbound,
		.comment = has_story && story_is_trouble(&entry) ? entry.text : NULL};

	pcapng_packet(file->stream, &packet);
}

/* Write a packet into the file. */
static void packet_write(struct pair_file *file, struct timespec time, const uint8_t *frame,
	uint32_t bytes, bool is_outbound)
{
	file->number++;
	if (file->story)
		pcapng_write(file, time, frame, bytes, is_outbound);
	else
		pcap_write(file, time, frame, bytes);
}

/* Write the next frame into the file. Returns false if no frame has come. */
static bool frame_take(int fd, struct pair_file *file)
{
	static uint8_t frame[FRAME_BYTES_MAX];
	_Alignas(struct cmsghdr) char control[128];
	struct virtio_net_hdr segments = {.gso_type = VIRTIO_NET_HDR_GSO_NONE};
	uint32_t before = file->knows_segments ? sizeof(segments) : 0;
	struct iovec pieces[] = {{&segments, before}, {frame, sizeof(frame)}};
	struct sockaddr_ll from = {.sll_pkttype = PACKET_HOST};
	struct msghdr header = {.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = pieces,
		.msg_iovlen = 2,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	ssize_t bytes = recvmsg(fd, &header, MSG_DONTWAIT);
	bool is_outbound;
	uint8_t packet[PAIR_SEGMENT_BYTES_MAX];
	struct pair_segments cut;
	struct timespec time;
	uint32_t count;

	if (bytes < (ssize_t)before)
		return false;
	time = frame_time(&header);
	bytes -= before;
	is_outbound = from.sll_pkttype == PACKET_OUTGOING;
	if (segments.gso_type != GSO_UDP_L4 ||
		!pair_segments_begin(&cut, frame, (uint32_t)bytes, segments.gso_size)) {
		packet_write(file, time, frame, (uint32_t)bytes, is_outbound);
		return true;
	}
	while ((count = pair_segments_next(&cut, packet)) > 0)
		packet_write(file, time, packet, count, is_outbound);
	return true;
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

/* Write the next frame and the next events. Returns false if there is nothing. */
static bool anything_take(int fd, struct pair_file *file)
{
	bool has_frame = frame_take(fd, file);

	return events_take(file) || has_frame;
}

/*
 * Take frames until SIGTERM, then those that are left. SIGTERM is blocked except inside ppoll(), so
 * it cannot come between the check of `is_over` and the wait.
 */
static void frames_take(int fd, struct pair_file *file)
{
	struct pollfd ready[] = {
		{.fd = fd, .events = POLLIN}, {.fd = file->events_fd, .events = POLLIN}};
	sigset_t blocked, before;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	while (!is_over) {
		ready[1].fd = file->events_fd;
		fflush(file->stream);
		ppoll(ready, 2, NULL, &before);
		while (anything_take(fd, file))
			continue;
	}
	while (anything_take(fd, file))
		continue;
}

/* Write what comes before the first frame. Returns false when out of memory. */
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
	struct pair_file file = {.stream = fdopen(descriptor, "w"),
		.events_fd = events_fd,
		.knows_segments = kernel_knows_super_packets()};
	struct tpacket_stats stats = {0};
	socklen_t bytes = sizeof(stats);
	int fd = socket_open(file.knows_segments);

	if (fd < 0 || !file.stream) {
		complain("pair: no capture: %s", strerror(errno));
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
		frames_take(fd, &file);
	if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) == 0 && stats.tp_drops)
		complain("pair: the capture lacks %u packets, which came too fast", stats.tp_drops);
	if (fclose(file.stream) == 0)
		return EXIT_OK;
	complain("pair: the capture is not complete: %s", strerror(errno));
	return EXIT_FAILED;
}

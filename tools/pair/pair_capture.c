/* SPDX-License-Identifier: BSD-2-Clause */
/* The capture of urnic pair: all frames of the host's interface, as a pcap file. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "pair/pair.h"

#define PCAP_MAGIC_NANOSECONDS 0xa1b23c4du

enum {
	LINKTYPE_ETHERNET = 1,
	FRAME_BYTES_MAX = 1 << 17,
	SOCKET_BUFFER_BYTES = 64 << 20,
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

/* Open a packet socket on the interface of the host. Returns it, or -1 with errno set. */
static int socket_open(void)
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

/* Write the next frame into the file. Returns false if no frame has come. */
static bool frame_take(int fd, FILE *file)
{
	static uint8_t frame[FRAME_BYTES_MAX];
	_Alignas(struct cmsghdr) char control[128];
	struct iovec piece = {frame, sizeof(frame)};
	struct msghdr header = {.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	ssize_t bytes = recvmsg(fd, &header, MSG_DONTWAIT);
	struct timespec time;

	if (bytes < 0)
		return false;
	time = frame_time(&header);
	const struct pcap_frame head = {
		(uint32_t)time.tv_sec, (uint32_t)time.tv_nsec, (uint32_t)bytes, (uint32_t)bytes};
	fwrite(&head, sizeof(head), 1, file);
	fwrite(frame, (size_t)bytes, 1, file);
	return true;
}

/*
 * Take frames until SIGTERM, then those that are left. SIGTERM is blocked except inside ppoll(), so
 * it cannot come between the check of `is_over` and the wait.
 */
static void frames_take(int fd, FILE *file)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	sigset_t blocked, before;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	while (!is_over) {
		ppoll(&ready, 1, NULL, &before);
		while (frame_take(fd, file))
			continue;
	}
	while (frame_take(fd, file))
		continue;
}

int pair_capture(int file, int ready_fd)
{
	const struct sigaction action = {.sa_handler = end_note};
	const struct pcap_head head = {.magic = PCAP_MAGIC_NANOSECONDS,
		.major = 2,
		.minor = 4,
		.snap_bytes = FRAME_BYTES_MAX,
		.link_type = LINKTYPE_ETHERNET};
	FILE *stream = fdopen(file, "w");
	struct tpacket_stats stats = {0};
	socklen_t bytes = sizeof(stats);
	int fd = socket_open();

	if (fd < 0 || !stream) {
		complain("pair: no capture: %s", strerror(errno));
		return EXIT_FAILED;
	}
	sigaction(SIGTERM, &action, NULL);
	signal(SIGINT, SIG_IGN);
	fwrite(&head, sizeof(head), 1, stream);
	if (fflush(stream) == 0 && write(ready_fd, "", 1) == 1)
		frames_take(fd, stream);
	if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) == 0 && stats.tp_drops)
		complain("pair: the capture lacks %u packets, which came too fast", stats.tp_drops);
	if (fclose(stream) == 0)
		return EXIT_OK;
	complain("pair: the capture is not complete: %s", strerror(errno));
	return EXIT_FAILED;
}

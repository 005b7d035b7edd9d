/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch's port: a slow link behind a queue that marks packets (WRED with ECN).
 *
 * bottleneck TAP INTERFACE MBITS KMIN KMAX PERCENT: frames that the system sends to the new TAP
 * interface leave through INTERFACE at MBITS per second. A packet is marked Congestion Experienced
 * with a probability that rises from 0 at KMIN bytes of queue to PERCENT at KMAX; above KMAX, each
 * is. The queue is long enough for every window, so a dropped frame is an error. At SIGTERM it
 * prints what passed, and what the queue was when frames arrived.
 *
 * The script redirects INTERFACE's traffic to TAP by tc; frames from here skip tc.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	FRAME_BYTES_MAX = 2048,
	FRAMES_MAX = 16384, /* a power of two */
	WIRE_BYTES = 24, /* preamble, FCS and gap of each frame */
	HISTOGRAM_STEP = 1024,
	HISTOGRAM_STEPS = 65536,
	READS_MAX = 64, /* in a row, before frames that are due are sent */
	ECN_OFFSET = ETHER_HDR_LEN + 1,
	ECT_0 = 2,
	CE = 3,
};

struct frame {
	uint32_t bytes;
	uint8_t data[FRAME_BYTES_MAX];
};

static struct frame *queue;
static uint32_t queue_head, queue_tail; /* frames that left, and that came */
static uint64_t queue_bytes, busy_until_ns;
static uint64_t passed_bytes, marked, dropped, peak_bytes, sum_bytes;
static uint64_t histogram[HISTOGRAM_STEPS];
static uint64_t kmin, kmax, percent, mbits;
static volatile sig_atomic_t is_ending;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void end_soon(int number)
{
	(void)number;
	is_ending = 1;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int tap_open(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		fail("/dev/net/tun");
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(fd, TUNSETIFF, &request))
		fail("TUNSETIFF");
	return fd;
}

static int link_open(const char *name)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(name)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		fail("AF_PACKET");
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) ||
		bind(fd, (struct sockaddr *)&address, sizeof(address)))
		fail(name);
	return fd;
}

/* --- marks --- */

static bool shall_mark(void)
{
	if (queue_bytes <= kmin)
		return false;
	if (queue_bytes > kmax)
		return true;
	return (uint64_t)random() % 100000 * (kmax - kmin) < (queue_bytes - kmin) * percent * 1000;
}

/* The header's checksum changes as its word does (RFC 1624). */
static void checksum_adjust(uint8_t *ip, uint16_t before, uint16_t after)
{
	uint32_t sum = (uint16_t) ~(ip[10] << 8 | ip[11]);

	sum += (uint16_t)~before + (uint32_t)after;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip[10] = (uint8_t)(~sum >> 8);
	ip[11] = (uint8_t)~sum;
}

/* Returns whether the frame could be marked: an IPv4 packet whose sender knows marks. */
static bool frame_mark(struct frame *frame)
{
	uint8_t *ip = frame->data + ETHER_HDR_LEN;
	uint16_t before, after;

	if (frame->bytes < ETHER_HDR_LEN + 20 || frame->data[12] != 0x08 || frame->data[13] ||
		(frame->data[ECN_OFFSET] & CE) == 0)
		return false;
	before = (uint16_t)(ip[0] << 8 | ip[1]);
	ip[1] |= CE;
	after = (uint16_t)(ip[0] << 8 | ip[1]);
	checksum_adjust(ip, before, after);
	return true;
}

/* --- the queue --- */

static void frame_arrive(struct frame *frame)
{
	uint64_t step = queue_bytes / HISTOGRAM_STEP;

	histogram[step < HISTOGRAM_STEPS ? step : HISTOGRAM_STEPS - 1]++;
	sum_bytes += queue_bytes;
	if (shall_mark() && frame_mark(frame))
		marked++;
	queue_tail++;
	queue_bytes += frame->bytes;
	if (queue_bytes > peak_bytes)
		peak_bytes = queue_bytes;
}

static bool frames_read(int tap)
{
	for (uint32_t i = 0; i < READS_MAX; i++) {
		struct frame *frame = &queue[queue_tail % FRAMES_MAX];
		ssize_t bytes = read(tap, frame->data, sizeof(frame->data));

		if (bytes < 0)
			return false;
		frame->bytes = (uint32_t)bytes;
		if (queue_tail - queue_head == FRAMES_MAX - 1)
			dropped++;
		else
			frame_arrive(frame);
	}
	return true;
}

/* Send the frames whose time has come. Returns the time of the next one; 0: there is none. */
static uint64_t frames_send(int link)
{
	while (queue_head != queue_tail) {
		const struct frame *frame = &queue[queue_head % FRAMES_MAX];
		uint64_t time_ns = now_ns();
		uint64_t left_ns = busy_until_ns;

		if (left_ns > time_ns)
			return left_ns;
		/* A late frame does not delay those behind it, by a millisecond at most. */
		if (left_ns + 1000000 < time_ns)
			left_ns = time_ns - 1000000;
		if (send(link, frame->data, frame->bytes, 0) < 0) {
			if (errno == ENOBUFS || errno == EAGAIN)
				return time_ns + 100000;
			dropped++;
		}
		busy_until_ns = left_ns + (frame->bytes + WIRE_BYTES) * 8000u / mbits;
		queue_bytes -= frame->bytes;
		passed_bytes += frame->bytes;
		queue_head++;
	}
	return 0;
}

static uint64_t percentile(uint64_t share)
{
	uint64_t left = queue_tail * share / 100, step = 0;

	while (step < HISTOGRAM_STEPS - 1 && histogram[step] <= left)
		left -= histogram[step++];
	return (step + 1) * HISTOGRAM_STEP;
}

static void report(void)
{
	uint64_t frames = queue_tail ? queue_tail : 1;

	printf("frames %u bytes %llu marked %llu dropped %llu queue_mean %llu queue_p99 %llu "
	       "queue_peak %llu\n",
		queue_tail, (unsigned long long)passed_bytes, (unsigned long long)marked,
		(unsigned long long)dropped, (unsigned long long)(sum_bytes / frames),
		(unsigned long long)percentile(99), (unsigned long long)peak_bytes);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = end_soon};
	int tap, link;

	if (argc != 7) {
		fprintf(stderr, "usage: bottleneck TAP INTERFACE MBITS KMIN KMAX PERCENT\n");
		return 2;
	}
	mbits = strtoull(argv[3], NULL, 10);
	kmin = strtoull(argv[4], NULL, 10);
	kmax = strtoull(argv[5], NULL, 10);
	percent = strtoull(argv[6], NULL, 10);
	queue = calloc(FRAMES_MAX, sizeof(*queue));
	if (!queue || !mbits)
		return 1;
	sigaction(SIGTERM, &action, NULL);
	tap = tap_open(argv[1]);
	link = link_open(argv[2]);
	printf("ready\n");
	fflush(stdout);
	while (!is_ending) {
		bool has_more = frames_read(tap);
		uint64_t next_ns = frames_send(link), time_ns = now_ns();
		struct timespec wait = {.tv_sec = 1};
		struct pollfd fds = {.fd = tap, .events = POLLIN};

		if (has_more || (next_ns && next_ns <= time_ns))
			continue;
		if (next_ns)
			wait = (struct timespec){
				.tv_sec = (time_t)((next_ns - time_ns) / 1000000000u),
				.tv_nsec = (long)((next_ns - time_ns) % 1000000000u)};
		ppoll(&fds, 1, &wait, NULL);
	}
	report();
	return 0;
}

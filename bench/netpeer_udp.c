/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP modes. They use connected sockets, which are the fastest kind. Ports travel over the
 * control connection; the datagrams use the same two addresses.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netpeer.h"
#include "netpeer_udp.h"

enum {
	RECEIVE_BATCH = 16,
	SOCKET_BUFFER_BYTES = 4 << 20,
	REPORT_BYTES = 128 << 10, /* bytes received between two reports */
	END_TIMEOUT_MS = 100,
	/* Memory that is sent again and again. It is as long as a message of bench/run. */
	SOURCE_BYTES = 1 << 20,
};

static void set_port(struct sockaddr_storage *address, in_port_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = port;
	else
		((struct sockaddr_in *)address)->sin_port = port;
}

static in_port_t get_port(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
					      : ((const struct sockaddr_in *)address)->sin_port;
}

int open_beside(int control_fd)
{
	struct sockaddr_storage local = {0}, remote = {0};
	socklen_t local_bytes = sizeof(local), remote_bytes = sizeof(remote);
	const int buffer_bytes = SOCKET_BUFFER_BYTES;
	in_port_t port;
	int fd;

	if (getsockname(control_fd, (struct sockaddr *)&local, &local_bytes) < 0 ||
		getpeername(control_fd, (struct sockaddr *)&remote, &remote_bytes) < 0)
		give_up("addresses");
	set_port(&local, 0);
	fd = socket(local.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&local, local_bytes) < 0 ||
		getsockname(fd, (struct sockaddr *)&local, &local_bytes) < 0)
		give_up("UDP socket");
	/* The kernel may choose smaller buffers. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
	port = get_port(&local);
	send_all(control_fd, &port, sizeof(port));
	receive_all(control_fd, &port, sizeof(port));
	set_port(&remote, port);
	if (connect(fd, (struct sockaddr *)&remote, remote_bytes) < 0)
		give_up("UDP connect");
	/* Wait for each other, so that both ends are ready to receive before either sends. */
	send_all(control_fd, "", 1);
	receive_all(control_fd, &(char){0}, 1);
	return fd;
}

/* Ping-pong */

static int open_pingpong(const struct job *job, int control_fd)
{
	int fd = open_beside(control_fd);

	if (job->sleeps && fcntl(fd, F_SETFL, 0) < 0)
		give_up("a blocking socket");
	return fd;
}

/*
 * Receive a datagram, by polling or sleeping as the socket is set. If a datagram were lost, this
 * would wait for ever, because neither end retransmits. A test network loses nothing.
 */
static void receive_datagram(int fd, char *message, size_t size)
{
	while (recv(fd, message, size, 0) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			give_up("receive");
	}
}

static void send_datagram(int fd, const char *message, size_t size)
{
	while (send(fd, message, size, 0) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			give_up("send");
	}
}

void udp_pingpong_serve(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);
	int fd = open_pingpong(job, control_fd);

	for (uint32_t round = 0; round < job->rounds + WARM_UP_ROUNDS; round++) {
		receive_datagram(fd, message, job->message_bytes);
		send_datagram(fd, message, job->message_bytes);
	}
	close(fd);
}

void udp_pingpong_run(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);
	uint64_t *durations_ns = make_buffer(job->rounds * sizeof(*durations_ns));
	int fd = open_pingpong(job, control_fd);

	for (uint32_t round = 0; round < job->rounds + WARM_UP_ROUNDS; round++) {
		uint64_t start_ns = now_ns();

		send_datagram(fd, message, job->message_bytes);
		receive_datagram(fd, message, job->message_bytes);
		if (round >= WARM_UP_ROUNDS)
			durations_ns[round - WARM_UP_ROUNDS] = now_ns() - start_ns;
	}
	close(fd);
	print_latency(durations_ns, job->rounds, 2);
}

/* Stream */

/* Receive datagrams that have arrived. Returns false if there were none. */
static bool receive_batch(int fd, struct mmsghdr *batch, struct tally *tally)
{
	int count = recvmmsg(fd, batch, RECEIVE_BATCH, MSG_DONTWAIT, NULL);

	if (count < 0 && errno != EAGAIN && errno != EINTR)
		give_up("receive");
	for (int i = 0; i < count; i++)
		tally->bytes += batch[i].msg_len;
	return count > 0;
}

void merge_datagrams(int fd)
{
	const int one = 1;

	if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) < 0)
		give_up("UDP_GRO");
}

bool wait_for_datagram(int fd, int control_fd)
{
	struct pollfd events[] = {
		{.fd = fd, .events = POLLIN}, {.fd = control_fd, .events = POLLIN}};

	if (poll(events, 2, -1) < 0 && errno != EINTR)
		give_up("poll");
	return events[0].revents || !events[1].revents || poll(events, 1, END_TIMEOUT_MS) > 0;
}

void udp_stream_serve(const struct job *job, int control_fd)
{
	struct mmsghdr batch[RECEIVE_BATCH] = {0};
	struct iovec parts[RECEIVE_BATCH];
	struct tally tally = {0};
	uint64_t start_ns = 0, last_ns = 0, reported_bytes = 0;
	int fd;

	(void)job;
	for (int i = 0; i < RECEIVE_BATCH; i++) {
		parts[i] = (struct iovec){make_buffer(BUNDLE_BYTES_MAX), BUNDLE_BYTES_MAX};
		batch[i].msg_hdr.msg_iov = &parts[i];
		batch[i].msg_hdr.msg_iovlen = 1;
	}
	fd = open_beside(control_fd);
	merge_datagrams(fd);
	for (;;) {
		if (!receive_batch(fd, batch, &tally)) {
			if (!wait_for_datagram(fd, control_fd))
				break;
			continue;
		}
		last_ns = now_ns();
		if (start_ns == 0)
			start_ns = last_ns;
		if (tally.bytes - reported_bytes >= REPORT_BYTES) {
			reported_bytes = tally.bytes;
			/* The next report replaces a lost one. */
			send(fd, &reported_bytes, sizeof(reported_bytes), MSG_DONTWAIT);
		}
	}
	tally.duration_ns = last_ns - start_ns;
	send_all(control_fd, &tally, sizeof(tally));
	close(fd);
}

void send_burst(int fd, const struct iovec *pieces, size_t count, uint32_t packet_bytes)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct msghdr message = {
		.msg_iov = (struct iovec *)pieces,
		.msg_iovlen = count,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *segment = CMSG_FIRSTHDR(&message);
	const uint16_t segment_bytes = (uint16_t)packet_bytes;

	segment->cmsg_level = SOL_UDP;
	segment->cmsg_type = UDP_SEGMENT;
	segment->cmsg_len = CMSG_LEN(sizeof(segment_bytes));
	memcpy(CMSG_DATA(segment), &segment_bytes, sizeof(segment_bytes));
	while (sendmsg(fd, &message, 0) < 0) {
		struct pollfd event = {.fd = fd, .events = POLLOUT};

		if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
			give_up("UDP_SEGMENT");
		poll(&event, 1, 1);
	}
}

/*
 * Wait until at most `window_bytes` bytes are sent and not yet reported. Returns how many bytes
 * have been reported. If no report comes within REPORT_TIMEOUT_MS, all sent bytes count as
 * reported.
 */
static uint64_t wait_for_window(
	int fd, uint64_t sent_bytes, uint64_t known_bytes, uint32_t window_bytes)
{
	while (sent_bytes - known_bytes > window_bytes) {
		struct pollfd event = {.fd = fd, .events = POLLIN};
		uint64_t reported_bytes;

		if (poll(&event, 1, REPORT_TIMEOUT_MS) == 0)
			return sent_bytes;
		while (recv(fd, &reported_bytes, sizeof(reported_bytes), MSG_DONTWAIT) ==
			sizeof(reported_bytes)) {
			if (reported_bytes > known_bytes)
				known_bytes = reported_bytes;
		}
	}
	return known_bytes;
}

void udp_stream_run(const struct job *job, int control_fd)
{
	uint32_t segments = BURST_BYTES_MAX / job->packet_bytes;
	uint64_t sent_bytes = 0, known_bytes = 0, end_ns;
	struct tally tally;
	size_t burst_bytes, next = 0;
	char *source = make_buffer(SOURCE_BYTES);
	int fd = open_beside(control_fd);

	if (segments > SEGMENTS_MAX)
		segments = SEGMENTS_MAX;
	burst_bytes = (size_t)segments * job->packet_bytes;
	end_ns = now_ns() + job->duration_ms * 1000000ull;
	while (now_ns() < end_ns) {
		if (job->window_bytes > 0)
			known_bytes =
				wait_for_window(fd, sent_bytes, known_bytes, job->window_bytes);
		send_burst(fd, &(struct iovec){source + next, burst_bytes}, 1, job->packet_bytes);
		sent_bytes += burst_bytes;
		next += burst_bytes;
		if (next + burst_bytes > SOURCE_BYTES)
			next = 0;
	}
	send_all(control_fd, "", 1);
	receive_all(control_fd, &tally, sizeof(tally));
	close(fd);
	print_bandwidth(tally);
	printf("lost_percent %.2f\n",
		100.0 * (double)(sent_bytes - tally.bytes) / (double)sent_bytes);
}

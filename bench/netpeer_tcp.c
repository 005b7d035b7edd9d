/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP modes. Both ends poll a nonblocking socket where latency is measured, as an RDMA program polls
 * its completion queue; a stream's receiver sleeps in recv().
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netpeer.h"

static void set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		give_up("O_NONBLOCK");
}

void tcp_pingpong_serve(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);

	set_nonblocking(control_fd);
	for (uint32_t round = 0; round < job->rounds + WARM_UP_ROUNDS; round++) {
		receive_all(control_fd, message, job->message_bytes);
		send_all(control_fd, message, job->message_bytes);
	}
}

void tcp_pingpong_run(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);
	uint64_t *durations_ns = make_buffer(job->rounds * sizeof(*durations_ns));

	set_nonblocking(control_fd);
	for (uint32_t round = 0; round < job->rounds + WARM_UP_ROUNDS; round++) {
		uint64_t start_ns = now_ns();

		send_all(control_fd, message, job->message_bytes);
		receive_all(control_fd, message, job->message_bytes);
		if (round >= WARM_UP_ROUNDS)
			durations_ns[round - WARM_UP_ROUNDS] = now_ns() - start_ns;
	}
	print_latency(durations_ns, job->rounds, 2);
}

void tcp_request_serve(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);
	char request[REQUEST_BYTES];

	set_nonblocking(control_fd);
	for (uint32_t round = 0; round < job->rounds; round++) {
		receive_all(control_fd, request, sizeof(request));
		send_all(control_fd, message, job->message_bytes);
	}
}

void tcp_request_run(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);
	uint64_t *durations_ns = make_buffer(job->rounds * sizeof(*durations_ns));
	uint64_t *started_ns = make_buffer(job->depth * sizeof(*started_ns));
	const char request[REQUEST_BYTES] = {0};
	uint64_t start_ns = now_ns();
	uint32_t sent = 0;

	set_nonblocking(control_fd);
	for (uint32_t round = 0; round < job->rounds; round++) {
		for (; sent < job->rounds && sent - round < job->depth; sent++) {
			started_ns[sent % job->depth] = now_ns();
			send_all(control_fd, request, sizeof(request));
		}
		receive_all(control_fd, message, job->message_bytes);
		durations_ns[round] = now_ns() - started_ns[round % job->depth];
	}
	print_bandwidth((struct tally){(uint64_t)job->rounds * job->message_bytes, now_ns() - start_ns});
	print_latency(durations_ns, job->rounds, 1);
}

void tcp_stream_serve(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);
	struct tally tally = {0};
	uint64_t start_ns = 0;

	for (;;) {
		ssize_t received = recv(control_fd, message, job->message_bytes, 0);

		if (received < 0 && errno == EINTR)
			continue;
		if (received < 0)
			give_up("receive");
		if (received == 0)
			break;
		if (tally.bytes == 0)
			start_ns = now_ns();
		tally.bytes += (uint64_t)received;
	}
	tally.duration_ns = now_ns() - start_ns;
	send_all(control_fd, &tally, sizeof(tally));
}

void tcp_stream_run(const struct job *job, int control_fd)
{
	char *message = make_buffer(job->message_bytes);
	uint64_t end_ns = now_ns() + job->duration_ms * 1000000ull;
	struct tally tally;

	while (now_ns() < end_ns)
		send_all(control_fd, message, job->message_bytes);
	if (shutdown(control_fd, SHUT_WR) < 0)
		give_up("shutdown");
	receive_all(control_fd, &tally, sizeof(tally));
	print_bandwidth(tally);
}

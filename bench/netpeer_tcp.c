/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP modes. To measure latency both ends poll a nonblocking socket, as an RDMA program polls
 * its completion queue. With job.sleeps they sleep instead. The receiver of a stream sleeps in
 * recv().
 */
#include <assert.h>
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

	if (!job->sleeps)
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

	if (!job->sleeps)
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

/* Receive bytes that have arrived, `size` at most. Returns how many; 0: none had arrived. */
static size_t receive_some(int fd, void *bytes, size_t size)
{
	ssize_t received = recv(fd, bytes, size, 0);

	if (received == 0)
		errno = ECONNRESET;
	if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR))
		give_up("receive");
	return received > 0 ? (size_t)received : 0;
}

/* Answer all requests that have arrived together by one send(), as an optimized program would. */
void tcp_request_serve(const struct job *job, int control_fd)
{
	char *answers = make_buffer((size_t)job->depth * job->message_bytes);
	char *requests = make_buffer((size_t)job->depth * REQUEST_BYTES);
	uint64_t received_bytes = 0;
	uint32_t answered = 0;

	set_nonblocking(control_fd);
	while (answered < job->rounds) {
		uint32_t ready;

		received_bytes +=
			receive_some(control_fd, requests, (size_t)job->depth * REQUEST_BYTES);
		ready = (uint32_t)(received_bytes / REQUEST_BYTES) - answered;
		send_all(control_fd, answers, (size_t)ready * job->message_bytes);
		answered += ready;
	}
}

void tcp_request_run(const struct job *job, int control_fd)
{
	const size_t answers_bytes = (size_t)job->depth * job->message_bytes;
	char *answers = make_buffer(answers_bytes);
	char *requests = make_buffer((size_t)job->depth * REQUEST_BYTES);
	uint64_t *durations_ns = make_buffer(job->rounds * sizeof(*durations_ns));
	uint64_t *started_ns = make_buffer(job->depth * sizeof(*started_ns));
	uint64_t received_bytes = 0, first_ns = now_ns(), time_ns = first_ns;
	uint32_t sent = 0, done = 0;

	assert(job->message_bytes > 0 && job->depth > 0);
	set_nonblocking(control_fd);
	while (done < job->rounds) {
		uint32_t first = sent;

		for (; sent < job->rounds && sent - done < job->depth; sent++)
			started_ns[sent % job->depth] = time_ns;
		send_all(control_fd, requests, (size_t)(sent - first) * REQUEST_BYTES);
		received_bytes += receive_some(control_fd, answers, answers_bytes);
		time_ns = now_ns();
		for (; done < received_bytes / job->message_bytes; done++)
			durations_ns[done] = time_ns - started_ns[done % job->depth];
	}
	print_bandwidth((struct tally){received_bytes, time_ns - first_ns});
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

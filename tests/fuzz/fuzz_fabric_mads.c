/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric's process that sends anything: MADs, and events with flows, with any lengths and any
 * descriptors. What libibumad and the verbs library read of them stays within its buffers, and no
 * descriptor stays open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabricd/client/fabric_client.h"
#include "os/fd_pass.h"

enum {
	STEP_BYTES = 8,
	ROOM = 600,
	STEPS_MAX = 64,
	/* Bits of a step's byte 1, which choose the descriptor beside a message. */
	FD_PASSED = 1,
	FD_PIPE = 2,
	FD_SEALED = 4,
	FD_FLOW = 8, /* as long as a flow's memory */
	FD_TWICE = 16,
};

static int fabric_end, client_end;

static void require(bool is_so)
{
	if (!is_so)
		abort();
}

/* The lowest number that no descriptor has. */
static int number_unused(void)
{
	int number = dup(STDERR_FILENO);

	require(number >= 0);
	close(number);
	return number;
}

static int descriptor_make(uint8_t kind, uint8_t size)
{
	const off_t bytes = kind & FD_FLOW ? (off_t)attach_flow_memory() - (size == 1) : size * 8;
	int fds[2];

	if (kind & FD_PIPE) {
		require(pipe(fds) == 0);
		close(fds[1]);
		return fds[0];
	}
	fds[0] = memfd_create("fuzz", MFD_ALLOW_SEALING);
	require(fds[0] >= 0 && ftruncate(fds[0], bytes) == 0);
	if (kind & FD_SEALED)
		fcntl(fds[0], F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | (kind & FD_FLOW ? 0 : F_SEAL_WRITE));
	return fds[0];
}

static void message_send(const uint8_t *step, struct iovec *pieces)
{
	int fds[2] = {-1, -1};
	const uint32_t count = step[1] & FD_PASSED ? 1 + !!(step[1] & FD_TWICE) : 0;

	for (uint32_t i = 0; i < count; i++)
		fds[i] = descriptor_make(step[1], step[2]);
	fd_pass_send(fabric_end, pieces, 2, fds, count, MSG_DONTWAIT);
	for (uint32_t i = 0; i < count; i++)
		close(fds[i]);
}

static void mad_pass(const uint8_t *step)
{
	static const uint32_t lengths[] = {0, 1, 24, 256, ROOM, ROOM + 1, ATTACH_MAD_BYTES_MAX,
		ATTACH_MAD_BYTES_MAX + 1, 1u << 31, UINT32_MAX};
	uint8_t sent[ROOM + 64];
	const uint32_t length = lengths[step[3] % (sizeof(lengths) / sizeof(lengths[0]))];
	struct attach_mad mad = {.agent = step[4],
		.status = step[5],
		.mad_bytes = step[6] & 1 ? length : step[2] * 2u,
		.is_in_memfd = step[6] >> 1 & 1};
	struct iovec pieces[] = {
		{&mad, step[6] & 4 ? step[7] % sizeof(mad) : sizeof(mad)}, {sent, step[2] * 2u}};
	uint8_t *bytes = malloc(ROOM); /* ASan sees an access beyond it */
	int rc;

	require(bytes);
	memset(sent, 1, sizeof(sent));
	message_send(step, pieces);
	rc = fabric_mads_receive(client_end, &mad, bytes, ROOM);
	require(rc != 0 || mad.mad_bytes <= ROOM);
	/* The caller makes room for so many bytes. */
	require(rc != -ENOSPC || (mad.mad_bytes > ROOM && mad.mad_bytes <= ATTACH_MAD_BYTES_MAX));
	free(bytes);
}

static void event_pass(const uint8_t *step)
{
	struct attach_event event = {
		.type = step[3] & 8 ? step[3] : ATTACH_EVENT_FLOW_IN + step[3] % 2,
		.port = step[4]};
	struct iovec pieces[] = {{&event, step[6] & 4 ? step[7] : sizeof(event)}, {NULL, 0}};
	struct fabric_flow *flow = NULL;

	event.flow.slot = step[5] & 1 ? step[5] : ATTACH_FLOWS_MAX - 1 + (step[5] >> 1) % 2;
	event.flow.serial = step[4] % 3;
	event.flow.frame_bytes_max = ATTACH_FRAME_BYTES_MAX - 1u + step[7] % 3;
	pieces[0].iov_len = pieces[0].iov_len > sizeof(event) ? sizeof(event) : pieces[0].iov_len;
	message_send(step, pieces);
	fabric_client_event(client_end, &event, &flow);
	fabric_flow_close(flow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int ends[2], unused;

	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	fabric_end = ends[0];
	client_end = ends[1];
	unused = number_unused();
	for (size_t at = 0, steps = 0; at + STEP_BYTES <= size && steps < STEPS_MAX;
		at += STEP_BYTES, steps++)
		(data[at] & 1 ? mad_pass : event_pass)(data + at);
	require(number_unused() == unused);
	close(fabric_end);
	close(client_end);
	return 0;
}

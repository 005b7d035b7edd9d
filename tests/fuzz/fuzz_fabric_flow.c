/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile sender at the ring of a flow: it writes any frames, headers of records and indices. The
 * receiver gets frames of the flow's route only, and leaves the memory around the ring alone.
 *
 * The input is steps of STEP_BYTES bytes, each with up to 255 bytes of a frame behind it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabricd/client/fabric_flows.h"
#include "wire/infiniband/mad_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEP_BYTES = 6, LEASE = 9, DLID = 5, PKEY = 0x8001, SL = 3, FRAME_MAX = 2048 };

static struct attach_frames *shared;
static struct fabric_flow *flow;

static void *memory_make(size_t bytes)
{
	void *memory = mmap(
		NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

/* The flow's memory ends with a page: an access behind it fails. */
static void flow_begin(struct flow_list *list)
{
	flow = malloc(sizeof(*flow));
	if (!flow)
		abort();
	*flow = (struct fabric_flow){
		.about = {.lease = LEASE,
			.serial = 1,
			.port = 1,
			.frame_bytes_max = FRAME_MAX,
			.dlid = DLID,
			.pkey = PKEY,
			.sl = SL,
			.vl = 2},
		.wake = -1,
		.shared = memory_make(attach_flow_memory()),
	};
	if (!shared)
		shared = memory_make(sizeof(*shared));
	atomic_store(&shared->in[0].serial, 1);
	atomic_store(&shared->in[0].limit, UINT64_MAX);
	flow_list_add(list, flow);
}

static void frame_check(const uint8_t *bytes, uint32_t count)
{
	struct ib_frame frame;

	if (count > FRAME_MAX || get_be16(bytes + 2) != DLID || bytes[1] >> 4 != SL ||
		bytes[0] >> 4 != 2)
		abort();
	/* The port checks the LRH's length; what it accepts has the flow's P_Key and lease. */
	if (ib_frame_decode(&frame, bytes, count) &&
		(!frame.has_bth || frame.bth.pkey != PKEY ||
			frame.bth.dest_qpn.value >> ATTACH_LEASE_QPN_SHIFT != LEASE))
		abort();
}

static void frames_receive(struct flow_list *list)
{
	uint8_t *frame = malloc(RECORD_BYTES_MAX);
	uint32_t port;

	for (unsigned i = 0; i < 64 && flow_list_has_frame(list, shared); i++) {
		int bytes = flow_list_receive(list, frame, &port);

		if (bytes > 0)
			frame_check(frame, (uint32_t)bytes);
		if (bytes > 0 && port != 1)
			abort();
	}
	free(frame);
}

static void frame_write(const uint8_t *step, const uint8_t *payload, uint32_t count)
{
	static uint8_t frame[RECORD_BYTES_MAX];
	uint32_t bytes = (step[1] << 5 | step[2]) % RECORD_BYTES_MAX;
	const struct record_piece piece = {frame, bytes ? bytes : 1};

	memset(frame, step[3], sizeof(frame));
	/* Most frames are nearly right. */
	frame[1] = SL << 4 | (step[4] & 1 ? LRH_GRH : LRH_BTH);
	frame[3] = DLID;
	frame[2] = 0;
	const uint32_t bth = step[4] & 1 ? LRH_BYTES + GRH_BYTES : LRH_BYTES;
	put_be16(frame + bth + 2, PKEY);
	frame[bth + 5] = LEASE;
	put_be16(frame + 4, (uint16_t)(bytes / 4));
	if (count && step[4] & 2)
		memcpy(frame + step[5] % 64, payload, count);
	record_ring_put_sized(&flow->shared->ring, ATTACH_FLOW_RING_BYTES, &piece, 1);
}

static void step_run(struct flow_list *list, const uint8_t *step, const uint8_t *payload,
	uint32_t count)
{
	struct record_ring *ring = &flow->shared->ring;
	const uint64_t value = (uint64_t)step[1] << (step[2] & 63);

	switch (step[0] & 7) {
	default:
		frame_write(step, payload, count);
		break;
	case 4:
		atomic_store(&ring->written, atomic_load(&ring->written) + value);
		break;
	case 5:
		atomic_store(&ring->read, value);
		break;
	case 6:
		memcpy(ring->bytes + (value & (ATTACH_FLOW_RING_BYTES - 512)), payload, count);
		break;
	case 7:
		frames_receive(list);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flow_list list = {0};
	size_t at = 0;

	flow_begin(&list);
	while (size - at > STEP_BYTES) {
		const uint8_t *step = data + at;
		size_t count = step[5];

		at += STEP_BYTES;
		if (count > size - at)
			count = size - at;
		step_run(&list, step, data + at, (uint32_t)count);
		at += count;
	}
	frames_receive(&list);
	atomic_store(&shared->in[0].limit, atomic_load(&flow->shared->ring.read));
	if (flow_list_has_frame(&list, shared) || list.count)
		abort();
	return 0;
}

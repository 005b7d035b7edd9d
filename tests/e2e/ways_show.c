/* SPDX-License-Identifier: BSD-2-Clause */
/* What an end prints. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "ways_end.h"

void ways_show(const struct ways *ways, const char *what, const struct ibv_wc *wc)
{
	printf("%" PRIu64 ".%u %s %" PRIu64 " %s", ways->seed, ways->number, what, wc->wr_id,
		ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_SUCCESS) {
		printf(" opcode %d bytes %u flags %u", wc->opcode, wc->byte_len, wc->wc_flags);
		if (wc->wc_flags & IBV_WC_GRH)
			printf(" sl %u from %s", wc->sl,
				wc->src_qp == ways->their_qpn ? "the other" : "whom");
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			printf(" imm %08x", wc->imm_data);
		if (wc->wc_flags & IBV_WC_WITH_INV)
			printf(" %s invalidated",
				wc->invalidated_rkey == ways->window->rkey ? "window" : "what");
	}
	printf("\n");
}

static uint64_t sum_of(const uint8_t *bytes, size_t count)
{
	uint64_t sum = 0, word;

	for (size_t i = 0; i < count; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
		sum ^= sum >> 29;
	}
	return sum;
}

/* In the order of their numbers: those of different objects have none among each other. */
static void show_events(const struct ways *ways)
{
	unsigned count[IBV_EVENT_WQ_FATAL + 1] = {0};
	struct ibv_async_event event;

	while (!ibv_get_async_event(ways->peer->context, &event)) {
		count[event.event_type]++;
		ibv_ack_async_event(&event);
	}
	CHECK(errno == EAGAIN, "no events: %s", strerror(errno));
	for (unsigned type = 0; type <= IBV_EVENT_WQ_FATAL; type++)
		if (count[type])
			printf("%" PRIu64 ".%u %u events %s\n", ways->seed, ways->number,
				count[type], ibv_event_type_str((enum ibv_event_type)type));
}

enum ibv_qp_state ways_show_receiver(const struct ways *ways)
{
	const struct ways_receiver_state state = ways_receiver_show(ways->receiver);

	printf("%" PRIu64 ".%u receiver's state %d\n", ways->seed, ways->number, state.state);
	for (unsigned type = 0; type <= IBV_EVENT_WQ_FATAL; type++)
		if (state.events[type])
			printf("%" PRIu64 ".%u receiver's %u events %s\n", ways->seed, ways->number,
				state.events[type], ibv_event_type_str((enum ibv_event_type)type));
	return state.state;
}

static void show_wakes(const struct ways *ways)
{
	struct pollfd pollfd = {.fd = ways->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;
	unsigned count = 0;

	while (poll(&pollfd, 1, 0) == 1) {
		CHECK(!ibv_get_cq_event(ways->channel, &cq, &context), "no event to get");
		ibv_ack_cq_events(cq, 1);
		count++;
	}
	printf("%" PRIu64 ".%u woken %u\n", ways->seed, ways->number, count);
}

void ways_show_rest(const struct ways *ways)
{
	enum ibv_qp_state state = peer_qp_state(ways->qp);

	printf("%" PRIu64 ".%u state %d\n", ways->seed, ways->number, state);
	printf("%" PRIu64 ".%u memory %016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", ways->seed,
		ways->number, sum_of(ways->target, WAYS_AREA_BYTES),
		sum_of(ways->local, WAYS_AREA_BYTES), sum_of(ways->received, WAYS_AREA_BYTES));
	show_events(ways);
	show_wakes(ways);
}

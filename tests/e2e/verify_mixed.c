/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of all kinds at random, from both sides at once.
 *
 * Each slot has a part of the peer's window and of our own memory to itself, so what a request did
 * can be checked when it completes, whatever else is under way.
 */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verify.h"

enum {
	SLOTS = 16,
	SLOT_BYTES = 200000,
	RECEIVES = 32,
	EXIT_BROKEN = 3,
	WR_RECEIVE = 1 << 20, /* added to a receive request's number */
	COUNTER_BYTES = 8, /* of the remote window, for atomics; the slots' parts are behind it */
};

enum mixed_kind { MIXED_SEND, MIXED_WRITE_READ, MIXED_ADD, MIXED_KINDS };

/* The head of a message. */
struct head {
	uint64_t seed;
	uint64_t bytes; /* of pattern, behind it */
};

struct slot {
	bool is_busy;
	enum mixed_kind kind;
	uint64_t seed;
	size_t bytes;
};

struct mixed {
	struct peer *peer;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *window; /* the peer's: a counter, then a part per slot */
	struct ibv_mr *local; /* per slot: what goes, and what comes back */
	struct ibv_mr *received;
	struct peer_buffer remote;
	struct slot slots[SLOTS];
	uint64_t random;
	uint64_t sent, received_count, added;
	uint64_t last_original;
};

/* Something broke the connection. When, for those who broke it. */
static void broken(const struct ibv_wc *wc)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	printf("broken %lld.%03ld: status %d (%s)\n", (long long)now.tv_sec, now.tv_nsec / 1000000,
		wc->status, ibv_wc_status_str(wc->status));
	exit(EXIT_BROKEN);
}

static size_t out_offset(size_t slot)
{
	return slot * 2 * SLOT_BYTES;
}

static size_t back_offset(size_t slot)
{
	return out_offset(slot) + SLOT_BYTES;
}

static void start_send(struct mixed *mixed, size_t number, struct slot *slot)
{
	struct head head = {slot->seed, slot->bytes};
	uint8_t *out = window_at(mixed->local, out_offset(number));
	struct ibv_sge sge = peer_sge(mixed->local, out_offset(number), sizeof(head) + slot->bytes);
	struct ibv_send_wr wr = {
		.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	memcpy(out, &head, sizeof(head));
	peer_pattern_fill(out + sizeof(head), slot->bytes, slot->seed);
	peer_post_send(mixed->qp, &wr);
	mixed->sent++;
}

/* WRITE, and READ the same range back: it must be what was written just before. */
static void start_write_read(struct mixed *mixed, size_t number, struct slot *slot)
{
	uint64_t remote = mixed->remote.address + COUNTER_BYTES + number * SLOT_BYTES;
	struct ibv_sge out = peer_sge(mixed->local, out_offset(number), slot->bytes);
	struct ibv_sge back = peer_sge(mixed->local, back_offset(number), slot->bytes);
	struct ibv_send_wr read = {
		.wr_id = number,
		.sg_list = &back,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {remote, mixed->remote.rkey},
	};
	struct ibv_send_wr write = {
		.wr_id = number,
		.next = &read,
		.sg_list = &out,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {remote, mixed->remote.rkey},
	};

	peer_pattern_fill(window_at(mixed->local, out_offset(number)), slot->bytes, slot->seed);
	peer_post_send(mixed->qp, &write);
}

static void start_add(struct mixed *mixed, size_t number)
{
	struct ibv_sge sge = peer_sge(mixed->local, back_offset(number), 8);
	struct ibv_send_wr wr = {
		.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {mixed->remote.address, 1, 0, mixed->remote.rkey},
	};

	peer_post_send(mixed->qp, &wr);
}

static void start(struct mixed *mixed, size_t number)
{
	struct slot *slot = &mixed->slots[number];
	uint64_t random = peer_random(&mixed->random);

	slot->is_busy = true;
	slot->kind = (enum mixed_kind)(random % MIXED_KINDS);
	slot->seed = random >> 8;
	/* Mostly small; one in eight anything up to the limit. */
	slot->bytes = random >> 60 & 1 ? (random >> 32) % 3000
				       : (random >> 32) % (SLOT_BYTES - sizeof(struct head));
	switch (slot->kind) {
	case MIXED_SEND:
		start_send(mixed, number, slot);
		break;
	case MIXED_WRITE_READ:
		start_write_read(mixed, number, slot);
		break;
	case MIXED_ADD:
	case MIXED_KINDS:
		start_add(mixed, number);
	}
}

static void finish(struct mixed *mixed, size_t number)
{
	struct slot *slot = &mixed->slots[number];
	uint64_t original;

	CHECK(slot->is_busy, "slot %zu completes twice", number);
	slot->is_busy = false;
	if (slot->kind == MIXED_WRITE_READ) {
		peer_pattern_check(window_at(mixed->local, back_offset(number)), slot->bytes,
			slot->seed, "read back");
	} else if (slot->kind == MIXED_ADD) {
		memcpy(&original, window_at(mixed->local, back_offset(number)), sizeof(original));
		CHECK(original == mixed->added, "the counter was %" PRIu64 " after %" PRIu64,
			original, mixed->added);
		mixed->added++;
	}
}

static void receive_post(struct mixed *mixed, size_t number)
{
	peer_post_recv(
		mixed->qp, WR_RECEIVE + number, mixed->received, number * SLOT_BYTES, SLOT_BYTES);
}

static void received(struct mixed *mixed, const struct ibv_wc *wc)
{
	size_t number = wc->wr_id - WR_RECEIVE;
	const uint8_t *message = window_at(mixed->received, number * SLOT_BYTES);
	struct head head;

	CHECK(number == mixed->received_count % RECEIVES, "receive requests are used out of order");
	memcpy(&head, message, sizeof(head));
	CHECK(wc->byte_len == sizeof(head) + head.bytes, "%u bytes arrive of %" PRIu64,
		wc->byte_len, head.bytes);
	peer_pattern_check(message + sizeof(head), head.bytes, head.seed, "received");
	mixed->received_count++;
	receive_post(mixed, number);
}

/* Returns whether a request of ours has completed. */
static bool poll_one(struct mixed *mixed)
{
	struct ibv_wc wc;

	if (!ibv_poll_cq(mixed->cq, 1, &wc))
		return false;
	if (wc.status != IBV_WC_SUCCESS)
		broken(&wc);
	if (wc.wr_id >= WR_RECEIVE) {
		received(mixed, &wc);
		return false;
	}
	finish(mixed, wc.wr_id);
	return true;
}

static void mixed_open(struct mixed *mixed, struct peer *peer)
{
	struct peer_buffer ours;

	*mixed = (struct mixed){.peer = peer, .random = peer_is_server(peer)};
	mixed->cq = peer_cq_create(peer, 3 * SLOTS + RECEIVES, NULL);
	mixed->qp = peer_qp_create(peer, mixed->cq, 2 * SLOTS, 1, 0);
	mixed->window = peer_memory(peer, COUNTER_BYTES + (size_t)SLOTS * SLOT_BYTES);
	mixed->local = peer_memory(peer, (size_t)SLOTS * 2 * SLOT_BYTES);
	mixed->received = peer_memory(peer, (size_t)RECEIVES * SLOT_BYTES);
	ours = peer_buffer_of(mixed->window);
	peer_exchange(peer, &ours, &mixed->remote, sizeof(ours));
	peer_qp_connect(peer, mixed->qp, &peer_link_full);
	for (size_t i = 0; i < RECEIVES; i++)
		receive_post(mixed, i);
	peer_barrier(peer);
}

static void mixed_close(struct mixed *mixed)
{
	struct {
		uint64_t sent, added;
	} ours = {mixed->sent, mixed->added}, theirs;
	uint64_t counter;

	/*
	 * The peer may still have requests under way. When it reports that it has none, all of them
	 * are complete there, so their effects are visible here.
	 */
	peer_tell(mixed->peer, &ours, sizeof(ours));
	while (!peer_has_told(mixed->peer))
		poll_one(mixed);
	peer_hear(mixed->peer, &theirs, sizeof(theirs));
	while (mixed->received_count < theirs.sent) {
		struct ibv_wc wc = peer_success(mixed->cq);

		received(mixed, &wc);
	}
	CHECK(mixed->received_count == theirs.sent, "more messages than were sent");
	memcpy(&counter, mixed->window->addr, sizeof(counter));
	CHECK(counter == theirs.added, "the counter is %" PRIu64 ", not %" PRIu64, counter,
		theirs.added);
	peer_no_completion(mixed->cq, 5);
	peer_barrier(mixed->peer);
	CHECK(!ibv_destroy_qp(mixed->qp) && !ibv_destroy_cq(mixed->cq), "objects stay");
	peer_memory_free(mixed->window);
	peer_memory_free(mixed->local);
	peer_memory_free(mixed->received);
}

static volatile sig_atomic_t is_told_to_end;

static void notify_end(int signal_number)
{
	(void)signal_number;
	is_told_to_end = 1;
}

void verify_mixed(struct peer *peer, uint32_t count, int ready)
{
	uint64_t until_ms = peer_now_ms() + (uint64_t)PEER_TIMEOUT_S * 1000;
	uint32_t started = 0, finished = 0;
	struct mixed mixed;

	mixed_open(&mixed, peer);
	if (ready >= 0)
		CHECK(write(ready, "", 1) == 1, "nobody waits");
	signal(SIGTERM, notify_end);
	while (finished < count) {
		if (is_told_to_end)
			count = started;
		for (size_t i = 0; i < SLOTS && started < count; i++) {
			if (mixed.slots[i].is_busy)
				continue;
			start(&mixed, i);
			started++;
		}
		if (poll_one(&mixed)) {
			finished++;
			until_ms = peer_now_ms() + (uint64_t)PEER_TIMEOUT_S * 1000;
		}
		CHECK(peer_now_ms() < until_ms, "nothing completes; %u of %u are done", finished,
			count);
	}
	mixed_close(&mixed);
	printf("mixed: %u requests\n", finished);
}

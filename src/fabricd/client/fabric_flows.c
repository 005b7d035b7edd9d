/* SPDX-License-Identifier: BSD-2-Clause */
/* The flows of a channel of frames: frames that pass the fabric's process by. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/client/fabric_client_internal.h"
#include "fabricd/client/fabric_flows.h"
#include "os/clock.h"
#include "os/fd_pass.h"
#include "wire/bth.h"
#include "wire/grh.h"
#include "wire/infiniband/crc.h"
#include "wire/infiniband/lrh.h"

enum {
	BTH_PKEY = 2,
	BTH_QPN = 5,
	/* How many frames of one flow the receiver takes before the next flow's turn. */
	FRAMES_PER_TURN = 16,
	/* The sender publishes its frames after this many bytes, so that the receiver can begin. */
	STAGED_BYTES_MAX = 16384,
};

/* --- mapping --- */

static bool is_flow_memory(int fd, size_t bytes)
{
	struct stat status;

	return fd_is_fixed_memory(fd) && fstat(fd, &status) == 0 && (size_t)status.st_size == bytes;
}

int fabric_memory_map(int fd, size_t bytes, void **ret_memory)
{
	void *memory;

	if (!is_flow_memory(fd, bytes))
		return -EPROTO;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	*ret_memory = memory;
	return 0;
}

void fabric_flow_close(struct fabric_flow *flow)
{
	if (!flow)
		return;
	if (flow->shared)
		munmap(flow->shared, attach_flow_memory());
	if (flow->wake >= 0)
		close(flow->wake);
	free(flow);
}

/* Make the flow that an event describes, and take the descriptors that it needs from `fds`. */
static struct fabric_flow *flow_open(const struct attach_event *event, struct passed_fds *fds)
{
	const bool is_outgoing = event->type == ATTACH_EVENT_FLOW_OUT;
	struct fabric_flow *flow;
	void *memory;

	if (fds->count != 1u + is_outgoing || event->flow.slot >= ATTACH_FLOWS_MAX ||
		!event->flow.serial || event->flow.frame_bytes_max > ATTACH_FRAME_BYTES_MAX)
		return NULL;
	flow = malloc(sizeof(*flow));
	if (!flow)
		return NULL;
	*flow = (struct fabric_flow){.about = event->flow, .is_outgoing = is_outgoing, .wake = -1};
	if (fabric_memory_map(fds->fds[0], attach_flow_memory(), &memory)) {
		free(flow);
		return NULL;
	}
	flow->shared = memory;
	if (is_outgoing)
		flow->wake = passed_fds_take(fds, 1);
	return flow;
}

int fabric_client_event(int socket, struct attach_event *ret_event, struct fabric_flow **ret_flow)
{
	struct iovec piece = {ret_event, sizeof(*ret_event)};
	struct passed_fds fds;
	int flags;
	ssize_t bytes = fd_pass_receive(socket, &piece, 1, 2, &fds, &flags, MSG_DONTWAIT);

	*ret_flow = NULL;
	if (bytes <= 0)
		return bytes == 0 ? -ECONNRESET : (int)bytes;
	if (bytes == sizeof(*ret_event) &&
		(ret_event->type == ATTACH_EVENT_FLOW_IN ||
			ret_event->type == ATTACH_EVENT_FLOW_OUT))
		*ret_flow = flow_open(ret_event, &fds);
	passed_fds_close(&fds);
	return bytes == sizeof(*ret_event) ? 0 : -EPROTO;
}

uint32_t fabric_flow_lease(const struct fabric_flow *flow)
{
	return flow->about.lease;
}

int fabric_flow_ready(struct fabric_client *client, const struct attach_flow *flow)
{
	struct attach_message message = {.type = ATTACH_FLOW_READY, .flow = *flow};

	return fabric_client_ask(client, &message, NULL, 0);
}

/* --- the flows of a channel --- */

/* The position in the ring behind the last frame that the sender has written. */
static uint64_t flow_position(const struct fabric_flow *flow)
{
	return flow->has_staged
		? flow->staged
		: atomic_load_explicit(&flow->shared->ring.written, memory_order_relaxed);
}

static void flow_publish(struct fabric_flow *flow)
{
	if (flow->has_staged)
		record_ring_publish(&flow->shared->ring, flow->staged);
	flow->has_staged = false;
}

static void flow_remove(struct flow_list *list, uint32_t index)
{
	fabric_flow_close(list->flows[index]);
	list->flows[index] = list->flows[--list->count];
}

void flow_list_add(struct flow_list *list, struct fabric_flow *flow)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->flows[i]->about.slot == flow->about.slot) {
			flow_publish(list->flows[i]);
			fabric_flow_close(list->flows[i]);
			list->flows[i] = flow;
			return;
		}
	}
	list->flows[list->count++] = flow;
}

void flow_list_clear(struct flow_list *list)
{
	while (list->count)
		flow_remove(list, list->count - 1);
}

/* --- sending --- */

/* The fields of a frame that choose its flow. */
struct frame_key {
	uint16_t dlid;
	uint16_t pkey;
	uint8_t sl;
	uint8_t lease;
};

/* The frame's bytes at `offset`; NULL if a piece ends before. */
static const uint8_t *bytes_at(
	const struct record_piece *pieces, uint32_t count, uint32_t offset, uint32_t bytes)
{
	for (uint32_t i = 0; i < count; i++) {
		if (offset < pieces[i].count)
			return pieces[i].count - offset >= bytes
				? (const uint8_t *)pieces[i].bytes + offset
				: NULL;
		offset -= pieces[i].count;
	}
	return NULL;
}

static bool frame_key_read(struct frame_key *key, const struct record_piece *pieces, uint32_t count)
{
	const uint8_t *lrh = bytes_at(pieces, count, 0, LRH_BYTES);
	const uint8_t *bth;

	if (!lrh || (lrh[1] & 3) < LRH_BTH)
		return false;
	bth = bytes_at(
		pieces, count, LRH_BYTES + ((lrh[1] & 3) == LRH_GRH ? GRH_BYTES : 0u), BTH_BYTES);
	if (!bth)
		return false;
	*key = (struct frame_key){.dlid = get_be16(lrh + 2),
		.pkey = get_be16(bth + BTH_PKEY),
		.sl = lrh[1] >> 4,
		.lease = bth[BTH_QPN]};
	return true;
}

static bool is_flow_of(const struct fabric_flow *flow, uint32_t port, const struct frame_key *key)
{
	const struct attach_flow *about = &flow->about;

	return about->dlid == key->dlid && about->peer_lease == key->lease &&
		about->pkey == key->pkey && about->sl == key->sl && about->port == port;
}

static uint32_t pieces_bytes(const struct record_piece *pieces, uint32_t count)
{
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += pieces[i].count;
	return bytes;
}

/* Only the channel's sender writes these words. */
static void word_add(_Atomic uint64_t *word, uint64_t count)
{
	atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + count,
		memory_order_relaxed);
}

static bool flow_send(struct attach_flow_out *out, struct fabric_flow *flow,
	const struct record_piece *pieces, uint32_t count, uint32_t bytes)
{
	struct record_ring *ring = &flow->shared->ring;
	uint64_t at = flow_position(flow);

	if (!record_ring_stage_sized(ring, ATTACH_FLOW_RING_BYTES, &at, pieces, count)) {
		word_add(&out->discards, 1);
		return false;
	}
	flow->has_staged = true;
	flow->staged = at;
	if (at - atomic_load_explicit(&ring->written, memory_order_relaxed) > STAGED_BYTES_MAX)
		flow_publish(flow);
	flow->has_sent = true;
	word_add(&out->packets, 1);
	word_add(&out->words, bytes / 4);
	return true;
}

enum flow_result flow_list_send(struct flow_list *list, struct attach_frames *shared, uint32_t port,
	const struct record_piece *pieces, uint32_t count)
{
	struct frame_key key;
	uint32_t bytes;

	if (!list->count || !frame_key_read(&key, pieces, count))
		return FLOW_NONE;
	bytes = pieces_bytes(pieces, count);
	for (uint32_t i = 0; i < list->count; i++) {
		struct fabric_flow *flow = list->flows[i];
		struct attach_flow_out *out = &shared->out[flow->about.slot];

		if (!is_flow_of(flow, port, &key) || !flow->is_active ||
			atomic_load_explicit(&out->serial, memory_order_acquire) !=
				flow->about.serial)
			continue;
		if (bytes > flow->about.frame_bytes_max)
			return FLOW_NONE;
		return flow_send(out, flow, pieces, count, bytes) ? FLOW_SENT : FLOW_DISCARDED;
	}
	return FLOW_NONE;
}

/* The fabric has closed the flow: publish its last frames, and release it. */
static void flow_release(struct flow_list *list, struct attach_frames *shared, uint32_t index)
{
	const struct attach_flow *about = &list->flows[index]->about;

	flow_publish(list->flows[index]);
	atomic_store_explicit(
		&shared->out[about->slot].released, about->serial, memory_order_release);
	flow_remove(list, index);
}

/*
 * May the sender put `bytes` bytes into the flow? It may if the ring has room, or has been full for
 * the lifetime of a frame (IBTA 18.2.5.4, HOQLife). In the second case the frames are dropped until
 * the receiver goes on.
 */
static bool flow_has_room(struct attach_flow_out *out, struct fabric_flow *flow, uint32_t bytes)
{
	struct record_ring *ring = &flow->shared->ring;
	const uint64_t position = flow_position(flow);
	const uint64_t staged =
		position - atomic_load_explicit(&ring->written, memory_order_relaxed);
	uint64_t now_ns;

	if (position - ring->read_seen <= ATTACH_FLOW_RING_BYTES / 4 ||
		record_ring_room_sized(ring, ATTACH_FLOW_RING_BYTES) >= bytes + staged) {
		if (flow->blocked_at_ns) {
			word_add(&out->wait_us, (clock_now_ns() - flow->blocked_at_ns) / 1000);
			flow->blocked_at_ns = 0;
		}
		return true;
	}
	now_ns = clock_now_ns();
	if (!flow->blocked_at_ns)
		flow->blocked_at_ns = now_ns;
	return now_ns - flow->blocked_at_ns >= flow->about.lifetime_ns;
}

/* Have all frames that went through the fabric reached the rings of their receivers? */
static bool is_all_forwarded(const struct attach_frames *shared)
{
	return atomic_load_explicit(&shared->forwarded, memory_order_acquire) ==
		atomic_load_explicit(&shared->to_fabric.written, memory_order_relaxed);
}

bool flow_list_has_room(struct flow_list *list, struct attach_frames *shared, uint32_t bytes)
{
	bool has_room = true;

	for (uint32_t i = 0; i < list->count;) {
		struct fabric_flow *flow = list->flows[i];
		struct attach_flow_out *out = &shared->out[flow->about.slot];

		if (atomic_load_explicit(&out->serial, memory_order_acquire) !=
			flow->about.serial) {
			flow_release(list, shared, i); /* moves another flow to index i */
			continue;
		}
		if (!flow->is_active)
			flow->is_active = is_all_forwarded(shared);
		flow->has_room = flow->is_active && flow_has_room(out, flow, bytes);
		has_room &= flow->has_room;
		i++;
	}
	return has_room;
}

const struct fabric_flow *flow_list_find(
	const struct flow_list *list, const struct attach_flow *route)
{
	for (uint32_t i = 0; i < list->count; i++) {
		const struct attach_flow *about = &list->flows[i]->about;

		if (about->port == route->port && about->peer_lease == route->peer_lease &&
			about->dlid == route->dlid && about->pkey == route->pkey &&
			about->sl == route->sl)
			return list->flows[i];
	}
	return NULL;
}

void flow_list_publish(struct flow_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		flow_publish(list->flows[i]);
}

static void receiver_wake(const struct fabric_flow *flow)
{
	const uint8_t byte = 0;

	send(flow->wake, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void flow_list_flush(struct flow_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct fabric_flow *flow = list->flows[i];
		_Atomic uint32_t *is_waiting = &flow->shared->is_receiver_waiting;

		if (!flow->has_sent)
			continue;
		flow->has_sent = false;
		if (atomic_load_explicit(is_waiting, memory_order_relaxed) &&
			atomic_exchange_explicit(is_waiting, 0, memory_order_relaxed))
			receiver_wake(flow);
	}
}

/* --- receiving --- */

/*
 * Would the subnet have brought this frame here? It would if the fields that choose the route are
 * those of the flow. The sender may be hostile.
 */
static bool is_frame_of(const struct fabric_flow *flow, const uint8_t *frame, uint32_t bytes)
{
	const struct attach_flow *about = &flow->about;
	const uint32_t bth = LRH_BYTES + ((frame[1] & 3) == LRH_GRH ? GRH_BYTES : 0u);

	return bytes >= ATTACH_FRAME_BYTES_MIN && bytes <= about->frame_bytes_max &&
		(frame[1] & 3) >= LRH_BTH && bytes >= bth + BTH_BYTES + IB_ICRC_BYTES &&
		get_be16(frame + 2) == about->dlid && frame[1] >> 4 == about->sl &&
		get_be16(frame + bth + BTH_PKEY) == about->pkey &&
		frame[bth + BTH_QPN] == about->lease;
}

/*
 * Has the receiver taken all that was in the ring when the flow ended? A hostile sender may change
 * the ring's indices, so the receiver counts, too: it takes no more than the ring can hold.
 */
static bool flow_is_over(const struct attach_frames *shared, struct fabric_flow *flow)
{
	const struct attach_flow_in *in = &shared->in[flow->about.slot];
	const uint64_t limit = atomic_load_explicit(&in->limit, memory_order_acquire);
	uint64_t left;

	if (atomic_load_explicit(&in->serial, memory_order_acquire) != flow->about.serial)
		return true;
	if (limit == UINT64_MAX)
		return false;
	left = limit - atomic_load_explicit(&flow->shared->ring.read, memory_order_relaxed);
	if (left > ATTACH_FLOW_RING_BYTES)
		return true;
	if (!flow->is_ending) {
		flow->is_ending = true;
		flow->left = (uint32_t)left;
	}
	return left == 0 || flow->left == 0;
}

/* Is there a frame that the receiver may take? Sets *ret_is_over when no frame will come. */
static bool flow_has_frame(
	const struct attach_frames *shared, struct fabric_flow *flow, bool *ret_is_over)
{
	const bool is_empty = record_ring_is_empty(&flow->shared->ring);

	*ret_is_over = flow_is_over(shared, flow);
	return !is_empty && !*ret_is_over;
}

bool flow_list_has_frame(struct flow_list *list, const struct attach_frames *shared)
{
	uint32_t i = 0;

	while (i < list->count) {
		const uint32_t at = (list->next + i) % list->count;
		bool is_over;

		if (flow_has_frame(shared, list->flows[at], &is_over)) {
			if (at != list->next)
				list->taken = 0;
			list->next = at;
			return true;
		}
		if (is_over) {
			flow_remove(list, at);
			list->next = 0;
			i = 0;
		} else {
			i++;
		}
	}
	return false;
}

int flow_list_receive(struct flow_list *list, uint8_t *to, uint32_t *ret_port)
{
	struct fabric_flow *flow = list->flows[list->next];
	int bytes = record_ring_take_sized(&flow->shared->ring, ATTACH_FLOW_RING_BYTES, to);

	if (++list->taken >= FRAMES_PER_TURN) {
		list->taken = 0;
		list->next = (list->next + 1) % list->count;
	}
	if (flow->is_ending)
		flow->left -= bytes > 0 ? min_u32(flow->left, (uint32_t)bytes) : flow->left;
	if (bytes <= 0)
		return -EPROTO;
	if (!is_frame_of(flow, to, (uint32_t)bytes))
		return -EPROTO;
	lrh_set_vl(to, flow->about.vl);
	*ret_port = flow->about.port;
	return bytes;
}

void flow_list_wait(struct flow_list *list, bool is_waiting)
{
	for (uint32_t i = 0; i < list->count; i++)
		atomic_store_explicit(&list->flows[i]->shared->is_receiver_waiting, is_waiting,
			memory_order_relaxed);
}

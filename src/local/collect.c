/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the records that initiators have left for a lane: in the channels that the lane watches,
 * and in the channels on its doorbell's ready list. From a connected channel, all records are
 * collected at once. Borrowers' channels take turns, one record for each turn, because datagrams of
 * several borrowers may be for one receive queue.
 */
#include "local/channel/borrower.h"
#include "local/local.h"
#include "local/ud_endpoint.h"
#include "queue/srq.h"

/* --- watched channels --- */

/* Watch the channel, so that its initiator no longer rings the doorbell. */
static void watch_begin(struct local_qp *local, struct local_watch *watch)
{
	watch->local = local;
	watch->is_busy = true;
	local->watch = watch;
	local_watch_next(local);
	atomic_store_explicit(&local->channel->is_watched, 1, memory_order_relaxed);
}

/*
 * Stop watching the channel. From here on its initiator rings the doorbell. The caller collects
 * once more, because the initiator may have published records without ringing before.
 */
static void watch_leave(struct local_qp *local)
{
	atomic_store(&local->channel->is_watched, 0);
	atomic_thread_fence(memory_order_seq_cst);
	local->watch = NULL;
}

void local_watch_end(struct local_qp *local)
{
	struct local_lane *lane = local->lane;
	uint32_t last = atomic_load_explicit(&lane->watch_count, memory_order_relaxed) - 1;
	struct local_watch *watch = local->watch;

	if (!watch)
		return;
	watch_leave(local);
	if (watch != &lane->watch[last]) {
		watch->local = lane->watch[last].local;
		watch->is_busy = lane->watch[last].is_busy;
		watch->local->watch = watch;
		local_watch_next(watch->local);
	}
	atomic_store_explicit(&lane->watch_count, last, memory_order_relaxed);
}

/*
 * Look at one watched channel; each call looks at the next one. If that channel had no record since
 * the previous look, stop watching it, and return its place for another channel. Otherwise return
 * NULL.
 */
static struct local_watch *watch_take_over(struct local_lane *lane, uint64_t now_ns)
{
	struct local_watch *watch = &lane->watch[lane->next_watch++ % LOCAL_WATCHED_MAX];
	struct local_qp *silent = watch->local;

	if (watch->is_busy) {
		watch->is_busy = false;
		return NULL;
	}
	watch_leave(silent);
	local_collect_channel(silent, now_ns);
	return watch;
}

static void channel_watch(struct local_qp *local, uint64_t now_ns)
{
	struct local_lane *lane = local->lane;
	uint32_t count = atomic_load_explicit(&lane->watch_count, memory_order_relaxed);
	struct local_watch *place =
		count < LOCAL_WATCHED_MAX ? &lane->watch[count] : watch_take_over(lane, now_ns);

	if (!place)
		return;
	watch_begin(local, place);
	if (count < LOCAL_WATCHED_MAX)
		atomic_store_explicit(&lane->watch_count, count + 1, memory_order_release);
}

static uint32_t watched_collect(struct local_lane *lane, uint64_t now_ns)
{
	uint32_t count = 0;

	/*
	 * If a record fails its queue pair, the queue pair's channel leaves the array, and the last
	 * channel takes its place. A later call collects that last channel.
	 */
	for (uint32_t i = 0; i < atomic_load_explicit(&lane->watch_count, memory_order_relaxed);
		i++)
		count += local_collect_channel(lane->watch[i].local, now_ns);
	return count;
}

/* --- channels on the ready list --- */

/*
 * The connection that has this channel; NULL: no connection has it. The fields of the channel may
 * be invalid.
 */
static struct local_qp *connection_of(
	const struct lane *lane, const struct request_channel *channel)
{
	struct local_qp *local = local_connection_of(
		lane->qp_by_number[READ_ONCE(channel->qpn) % LANE_QP_COUNT_MAX]);

	return local && local->channel == channel ? local : NULL;
}

/* The block of the peers' side at this offset, which may have any value; NULL: there is none. */
static struct request_channel *channel_at(const struct lane *lane, uint64_t offset)
{
	return arena_has_block(lane->arena, offset, sizeof(struct request_channel))
		? arena_peers_side(arena_at(lane->arena, offset))
		: NULL;
}

/* Collect a connected channel, which was on the list. Returns the number of its records. */
static uint32_t connection_collect(struct local_qp *local, uint64_t now_ns)
{
	uint32_t count;

	if (atomic_load_explicit(&local->channel->wants_first, memory_order_relaxed))
		local_establish(local);
	count = local_collect_channel(local, now_ns);
	if (!local->watch && channel_is_open(local->channel))
		channel_watch(local, now_ns);
	return count;
}

/* The borrowers' channels that one call has found on the ready list. */
struct rung {
	struct borrower_table *table; /* NULL: there are no borrowers */
	struct request_channel *channel[BORROWER_CHANNEL_COUNT];
	uint32_t count;
};

static bool rung_has(const struct rung *rung, const struct request_channel *channel)
{
	for (uint32_t i = 0; i < rung->count; i++)
		if (rung->channel[i] == channel)
			return true;
	return false;
}

static uint32_t rung_add(struct rung *rung, struct lane *lane, struct request_channel *channel)
{
	rung->channel[rung->count++] = channel;
	return borrower_execute_word(lane, borrower_word_of(rung->table, channel));
}

/*
 * The list has an invalid entry. Collect all channels of the lane and all borrowers' channels
 * instead.
 */
static __attribute__((cold, noinline)) uint32_t list_mend(
	struct rung *rung, struct lane *lane, uint64_t now_ns)
{
	struct borrower_table *table = rung->table;
	uint32_t count = 0;

	lane_count_unsound(lane);
	for (uint32_t i = 0; table && i < BORROWER_CHANNEL_COUNT; i++) {
		struct request_channel *channel = &table->channel[i];

		if (!rung_has(rung, channel) && ready_reset(&channel->ready))
			count += rung_add(rung, lane, channel);
	}
	for (uint32_t i = 0; i < LANE_QP_COUNT_MAX; i++) {
		struct local_qp *local = local_connection_of(lane->qp_by_number[i]);

		if (!local)
			continue;
		ready_reset(&local->channel->ready);
		count += connection_collect(local, now_ns);
	}
	return count;
}

/*
 * Handle a channel that was on the list. Collect a connected channel; add a borrower's channel to
 * `rung`, and execute the operation that its borrower requests. *count grows by the number of
 * records and operations. Returns false when no valid list has this channel.
 */
static bool list_entry_take(struct rung *rung, struct request_channel *channel, struct lane *lane,
	uint64_t now_ns, uint32_t *count)
{
	bool is_borrowed = rung->table && borrower_has_channel(rung->table, channel);
	struct local_qp *local = is_borrowed ? NULL : connection_of(lane, channel);

	/*
	 * Reset first: an initiator that publishes a record after the collection then rings again.
	 */
	if ((!is_borrowed && !local) || !ready_reset(&channel->ready) ||
		(is_borrowed && rung_has(rung, channel)))
		return false;
	*count += is_borrowed ? rung_add(rung, lane, channel) : connection_collect(local, now_ns);
	return true;
}

/* The largest number of channels on a valid list. */
enum { LIST_COUNT_MAX = LANE_QP_COUNT_MAX + BORROWER_CHANNEL_COUNT };

/*
 * Take all channels off the list. Returns the number of collected records and executed operations.
 */
static uint32_t list_take(
	struct rung *rung, struct lane *lane, struct local_lane *local_lane, uint64_t now_ns)
{
	uint64_t offset = doorbell_take(local_lane->doorbell);
	uint32_t count = 0;

	rung->table = local_lane->owner->borrowers;
	rung->count = 0;
	for (uint32_t i = 0; offset; i++) {
		struct request_channel *channel =
			i < LIST_COUNT_MAX ? channel_at(lane, offset) : NULL;

		offset = channel ? ready_next(&channel->ready) : 0;
		if (!channel || !list_entry_take(rung, channel, lane, now_ns, &count))
			return count + list_mend(rung, lane, now_ns);
	}
	return count;
}

/* --- borrowers' turns --- */

static void srq_collect(struct lane *lane, const struct channel_record *record, uint64_t now_ns)
{
	struct srq *srq = srq_table_find(lane->srqs, record->number);
	uint32_t fault = record->fault < FAULT_COUNT ? record->fault : FAULT_PEER_PROTOCOL;
	struct cqe cqe = {
		.status = fault_status((enum fault)fault),
		.opcode = record->opcode,
		.fault = fault,
		.byte_count = record->byte_count,
		.imm = record->imm,
		.qpn = record->qpn,
		.flags = record->flags & (WC_WITH_IMM | WC_WITH_INV),
		.made_ns = now_ns,
	};
	struct recv_wqe wqe;

	if (!srq || !srq->is_shared)
		return; /* the queue no longer exists, or borrowers may not use it */
	if ((record->opcode != WC_RECV && record->opcode != WC_RECV_RDMA_WITH_IMM) ||
		record->byte_count > MESSAGE_BYTES_MAX || srq->tags ||
		!rq_redeem(srq->rq, record->wr_id, &wqe) ||
		(!fault && record->opcode == WC_RECV && record->byte_count > wqe.total_bytes)) {
		lane_count_unsound(lane);
		return;
	}
	cqe.wr_id = wqe.wr_id;
	srq_note_taken(srq, &lane->signals);
	cq_push(srq->cq, lane->arena, &cqe, record->is_solicited != 0, &lane->signals);
}

/* Complete the receive request of a record of a borrower's channel; `record` is a copy. */
static void record_collect(struct lane *lane, const struct channel_record *record, uint64_t now_ns)
{
	if (record->serial)
		ud_endpoint_collect(lane, record, now_ns);
	else
		srq_collect(lane, record, now_ns);
}

/* Copy the channel's next record. Returns false when there is none. */
static bool record_next(const struct rung *rung, const struct request_channel *channel,
	struct channel_record *ret_record)
{
	const struct channel_record *record =
		channel_next(channel, borrower_ring(rung->table, channel));

	if (!record)
		return false;
	*ret_record = channel_record_read(record);
	return true;
}

/*
 * Collect one record of each channel, unless it is a datagram whose turn has not come. A channel
 * that has no record is removed from `rung`. Returns the number of collected records.
 */
static uint32_t rung_collect(struct rung *rung, struct lane *lane, uint64_t now_ns)
{
	struct channel_record record;
	uint32_t count = 0;

	for (uint32_t i = 0; i < rung->count;) {
		struct request_channel *channel = rung->channel[i];

		if (!record_next(rung, channel, &record)) {
			rung->channel[i] = rung->channel[--rung->count];
			continue;
		}
		if (!record.serial || ud_endpoint_is_in_order(lane, &record)) {
			/*
			 * Call this before record_collect(), which may fail a queue pair, and so
			 * call local_collect() again.
			 */
			channel_collected(channel);
			record_collect(lane, &record, now_ns);
			count++;
		}
		i++;
	}
	return count;
}

/*
 * The channels in `rung` have datagrams whose turn has not come. Put these channels back on the
 * ready list. *ret_early becomes the record of one such datagram. Of the datagrams for the same
 * queue pair, it is the one whose receive request was taken first. If there is no such datagram,
 * ret_early->serial is 0.
 */
static void rung_leave(const struct rung *rung, const struct lane *lane, struct doorbell *doorbell,
	struct channel_record *ret_early)
{
	struct channel_record record;

	ret_early->serial = 0;
	for (uint32_t i = 0; i < rung->count; i++) {
		struct request_channel *channel = rung->channel[i];

		doorbell_ring(doorbell, &channel->ready,
			arena_offset(lane->arena, arena_owners_side(channel)));
		if (!record_next(rung, channel, &record) || !record.serial ||
			ud_endpoint_is_in_order(lane, &record))
			continue; /* the record was changed, or its turn has come by now */
		if (!ret_early->serial ||
			(record.serial == ret_early->serial &&
				(int32_t)(record.taken - ret_early->taken) < 0))
			*ret_early = record;
	}
}

/* The most records of one round: the number that all borrowers' channels together have room for. */
#define ROUND_RECORDS_MAX ((uint32_t)BORROWER_CHANNEL_COUNT * CHANNEL_RECORD_COUNT)

static uint32_t round_collect(struct lane *lane, struct local_lane *local_lane, uint64_t now_ns,
	struct channel_record *ret_early)
{
	struct rung rung;
	uint32_t count = list_take(&rung, lane, local_lane, now_ns);
	uint32_t records = 0, found;

	local_lane->has_borrowers |= rung.count != 0;

	do {
		found = rung_collect(&rung, lane, now_ns);
		records += found;
	} while (found && records < ROUND_RECORDS_MAX);
	rung_leave(&rung, lane, local_lane->doorbell, ret_early);
	return count + records;
}

/*
 * The most rounds in one call. A limit is needed because each round may wait for a missing
 * datagram, while other threads wait for the lane's lock.
 */
enum { ROUNDS_MAX = 64 };

static uint32_t rounds_collect(struct lane *lane, struct local_lane *local_lane, uint64_t now_ns)
{
	struct channel_record early;
	uint32_t count = round_collect(lane, local_lane, now_ns, &early);
	uint32_t found = count;
	bool has_waited = false;

	for (uint32_t round = 0; early.serial && round < ROUNDS_MAX; round++) {
		/*
		 * No record's turn has come: some borrower has taken the next receive request, and
		 * has not published its record yet. Wait for the borrower once, then skip the
		 * request.
		 */
		if (!found && has_waited)
			ud_endpoint_skip(lane, &early);
		else if (!found)
			borrower_wait_briefly(local_lane->owner);
		has_waited = !found;
		found = round_collect(lane, local_lane, now_ns, &early);
		count += found;
	}
	return count;
}

/*
 * The most nested calls. A record may fail a queue pair, and a failing datagram queue pair calls
 * local_collect() before it flushes its requests. Borrowers decide how many queue pairs fail in
 * this way. Each nested call takes some 4 KiB of stack.
 */
enum { COLLECT_DEPTH_MAX = 8 };

static __attribute__((noinline)) uint32_t list_collect(
	struct lane *lane, struct local_lane *local_lane, uint64_t now_ns)
{
	uint32_t depth = atomic_load_explicit(&local_lane->depth, memory_order_relaxed);
	uint32_t count;

	if (depth == COLLECT_DEPTH_MAX)
		return 0;
	atomic_store_explicit(&local_lane->depth, depth + 1, memory_order_relaxed);
	count = rounds_collect(lane, local_lane, now_ns);
	atomic_store_explicit(&local_lane->depth, depth, memory_order_release);
	return count;
}

uint32_t local_collect(struct lane *lane, struct local_lane *local_lane, uint64_t now_ns)
{
	uint32_t count = watched_collect(local_lane, now_ns);

	if (doorbell_is_rung(local_lane->doorbell))
		count += list_collect(lane, local_lane, now_ns);
	return count;
}

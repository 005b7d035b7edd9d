/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/request.h"

#include <stdlib.h>

#include "check/check.h"
#include "check/model/digest.h"
#include "check/model/protect.h"
#include "check/report.h"
#include "check/site.h"

/* The last targets of requests that the adapter may have written; a ring. */
enum { TARGET_COUNT = 1024 };

struct target {
	uintptr_t start;
	uint64_t bytes;
};

static struct target targets[TARGET_COUNT];
static _Atomic uint64_t target_count;

/* --- rings ----------------------------------------------------------------------------------- */

bool request_queue_init(struct request_queue *queue, uint32_t depth, uint32_t entries)
{
	uint32_t size = 4;

	while (size < depth)
		size *= 2;
	*queue = (struct request_queue){.size = size, .buffers_each = entries ? entries : 1};
	queue->requests = calloc(size, sizeof(*queue->requests));
	queue->buffers = calloc((size_t)size * queue->buffers_each, sizeof(*queue->buffers));
	return queue->requests && queue->buffers;
}

void request_queue_done(struct request_queue *queue)
{
	if (!queue->requests)
		return;
	owned_lock_take(&queue->lock);
	request_take_back(queue, queue->head);
	check_depth++;
	free(queue->requests);
	free(queue->buffers);
	check_depth--;
	queue->requests = NULL;
	queue->buffers = NULL;
	owned_lock_leave(&queue->lock);
}

static struct request *request_at(const struct request_queue *queue, uint64_t index)
{
	return &queue->requests[index & (queue->size - 1)];
}

static struct buffer *buffers_at(const struct request_queue *queue, uint64_t index)
{
	return &queue->buffers[(index & (queue->size - 1)) * queue->buffers_each];
}

/* The request does not use its memory any more. True: the program was seen to touch it. */
static bool buffers_release(struct request_queue *queue, uint64_t index)
{
	struct request *request = request_at(queue, index);
	struct buffer *buffers = buffers_at(queue, index);
	bool was_reported = false;

	for (uint32_t i = 0; i < request->buffer_count; i++) {
		if (buffers[i].is_protected)
			was_reported |= protect_end(
				buffers[i].memory, buffers[i].bytes, request->is_target);
	}
	request->buffer_count = 0;
	return was_reported;
}

void request_take_back(struct request_queue *queue, uint64_t tail)
{
	while (queue->tail > tail) {
		queue->tail--;
		queue->signaled -= request_at(queue, queue->tail)->is_signaled;
		buffers_release(queue, queue->tail);
	}
}

void request_forget(struct request_queue *queue)
{
	if (!queue->requests)
		return;
	owned_lock_take(&queue->lock);
	request_take_back(queue, queue->head);
	queue->signaled = 0;
	owned_lock_leave(&queue->lock);
}

/* The next request of the ring. A ring that is full has missed completions, and forgets one. */
static struct request *request_new(struct request_queue *queue, uint64_t wr_id, uint32_t site)
{
	struct request *request;

	if (queue->tail - queue->head == queue->size) {
		queue->signaled -= request_at(queue, queue->head)->is_signaled;
		buffers_release(queue, queue->head);
		queue->head++;
	}
	queue->has_twins |= queue->tail > queue->head && queue->last_wr_id == wr_id;
	queue->last_wr_id = wr_id;
	request = request_at(queue, queue->tail);
	*request = (struct request){
		.wr_id = wr_id,
		.site = site,
		.target_count = atomic_load_explicit(&target_count, memory_order_relaxed),
	};
	return request;
}

/* Note the entries that name known regions. */
static void buffers_note(struct queue_record *record, struct request_queue *queue,
	struct request *request, const struct ibv_sge *entries, int count, const char *what)
{
	struct buffer *buffers = buffers_at(queue, queue->tail);

	for (int i = 0; i < count && request->buffer_count < queue->buffers_each; i++) {
		struct region *region = region_find(record->context, entries[i].lkey);

		if (!region || entries[i].length == 0)
			continue;
		if (!region->is_live || !region_has(region, entries[i].addr, entries[i].length)) {
			request_check_entry(record, &entries[i], (uint32_t)i, what, request->wr_id,
				request->site);
			continue;
		}
		buffers[request->buffer_count++] = (struct buffer){
			.memory = region_memory(region, entries[i].addr),
			.region = region,
			.lkey = entries[i].lkey,
			.bytes = entries[i].length,
		};
	}
}

static void not_mapped_report(
	const struct request *request, const struct buffer *buffer, const char *what)
{
	struct report report;

	report_begin(&report, KIND_ENTRY_NOT_MAPPED);
	report_say(&report,
		"the %s, wr_id 0x%lx, has %u bytes at 0x%lx of a region that is registered, and the "
		"memory is not mapped any more",
		what, (unsigned long)request->wr_id, buffer->bytes, (unsigned long)buffer->memory);
	report_site(&report, "posted at", request->site);
	report_site(&report, "registered at", buffer->region->site_registered);
	report_end(&report);
}

static const char *opcode_name(enum ibv_wr_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WRITE";
	case IBV_WR_RDMA_READ:
		return "READ";
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return "CmpSwap";
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return "FetchAdd";
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return "SEND";
	default:
		return "request";
	}
}

static bool opcode_is_target(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Protect the pages of the request. Where completions may be confused, nothing is protected. */
static void buffers_protect(
	struct queue_record *record, struct request_queue *queue, struct request *request)
{
	struct buffer *buffers = buffers_at(queue, queue->tail);

	if (!check_is_full || !record->qp)
		return;
	for (uint32_t i = 0; i < request->buffer_count; i++)
		if (buffers[i].region->is_protectable) {
			buffers[i].is_protected = true;
			protect_begin(record, buffers[i].memory, buffers[i].bytes,
				request->is_target, request->site);
		}
}

static void digest_take(struct request_queue *queue, struct request *request)
{
	struct buffer *buffers = buffers_at(queue, queue->tail);

	request->has_digest = true;
	for (uint32_t i = 0; i < request->buffer_count && request->has_digest; i++) {
		request->has_digest = digest_add(
			&request->digest, buffers[i].region, buffers[i].memory, buffers[i].bytes);
		if (!request->has_digest)
			not_mapped_report(request, &buffers[i],
				opcode_name((enum ibv_wr_opcode)request->opcode));
	}
}

void request_add_send(struct queue_record *record, const struct ibv_send_wr *wr, uint32_t site)
{
	struct request_queue *queue = &record->sends;
	struct request *request = request_new(queue, wr->wr_id, site);

	request->opcode = (uint8_t)wr->opcode;
	request->is_signaled = record->signals_all || (wr->send_flags & IBV_SEND_SIGNALED);
	request->is_target = opcode_is_target(wr->opcode);
	queue->signaled += request->is_signaled;
	/* Inline data is copied by the post. Other opcodes have no entries. */
	if (!(wr->send_flags & IBV_SEND_INLINE) && wr->opcode != IBV_WR_LOCAL_INV &&
		wr->opcode != IBV_WR_BIND_MW)
		buffers_note(
			record, queue, request, wr->sg_list, wr->num_sge, opcode_name(wr->opcode));
	if (!request->is_target && request->buffer_count > 0)
		digest_take(queue, request);
	buffers_protect(record, queue, request);
	queue->tail++;
}

void request_add_receive(struct queue_record *record, const struct ibv_recv_wr *wr, uint32_t site)
{
	struct request_queue *queue = &record->receives;
	struct request *request = request_new(queue, wr->wr_id, site);

	request->is_signaled = true;
	request->is_target = true;
	queue->signaled++;
	buffers_note(record, queue, request, wr->sg_list, wr->num_sge, "receive request");
	buffers_protect(record, queue, request);
	queue->tail++;
}

/* --- completions ----------------------------------------------------------------------------- */

static bool ranges_overlap(uintptr_t a, uint64_t a_bytes, uintptr_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static void targets_note(struct request_queue *queue, uint64_t index)
{
	const struct request *request = request_at(queue, index);
	const struct buffer *buffers = buffers_at(queue, index);

	for (uint32_t i = 0; request->is_target && i < request->buffer_count; i++)
		targets[target_count++ % TARGET_COUNT] = (struct target){
			.start = buffers[i].memory,
			.bytes = buffers[i].bytes,
		};
}

/* May a request that completed after the first `before` ones have written there? */
static bool target_was_there(uintptr_t start, uint64_t bytes, uint64_t before)
{
	uint64_t count = target_count;

	if (count - before > TARGET_COUNT)
		return true; /* the list is too short to tell */
	for (uint64_t i = before; i < count; i++) {
		const struct target *target = &targets[i % TARGET_COUNT];

		if (ranges_overlap(start, bytes, target->start, target->bytes))
			return true;
	}
	return false;
}

static bool queue_has_target(struct request_queue *queue, uintptr_t start, uint64_t bytes)
{
	bool is_found = false;

	if (!queue->requests)
		return false;
	owned_lock_take(&queue->lock);
	for (uint64_t i = queue->head; i < queue->tail && !is_found; i++) {
		const struct request *request = request_at(queue, i);
		const struct buffer *buffers = buffers_at(queue, i);

		for (uint32_t k = 0; request->is_target && k < request->buffer_count; k++)
			is_found |=
				ranges_overlap(start, bytes, buffers[k].memory, buffers[k].bytes);
	}
	owned_lock_leave(&queue->lock);
	return is_found;
}

/* False also if another thread uses the queue, and it cannot be told. */
static bool queue_leaves_free(struct request_queue *queue, uintptr_t start, uint64_t bytes)
{
	bool is_free = true;

	if (!queue->requests)
		return true;
	if (!owned_lock_try(&queue->lock))
		return false;
	for (uint64_t i = queue->head; i < queue->tail && is_free; i++) {
		const struct buffer *buffers = buffers_at(queue, i);

		for (uint32_t k = 0; k < request_at(queue, i)->buffer_count; k++)
			is_free &=
				!ranges_overlap(start, bytes, buffers[k].memory, buffers[k].bytes);
	}
	owned_lock_leave(&queue->lock);
	return is_free;
}

bool request_may_use(uintptr_t start, uint64_t bytes)
{
	struct queue_record *record;
	bool is_free = true;

	for (uint32_t i = 0; is_free && (record = queue_next(&i));)
		is_free = queue_leaves_free(&record->sends, start, bytes) &&
			queue_leaves_free(&record->receives, start, bytes);
	return !is_free;
}

/* May the adapter have written there, on behalf of the program or of a peer? */
static bool adapter_may_write(const struct buffer *buffer, uint64_t before)
{
	uintptr_t start = buffer->memory;
	struct queue_record *record;
	bool is_found = buffer->region->access &
		(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);

	is_found = is_found || target_was_there(start, buffer->bytes, before);
	for (uint32_t i = 0; !is_found && (record = queue_next(&i));)
		is_found = queue_has_target(&record->sends, start, buffer->bytes) ||
			queue_has_target(&record->receives, start, buffer->bytes);
	return is_found;
}

/* What a completion has found; reported when the queue's lock is free again. */
struct finding {
	struct request request;
	struct buffer buffers[4];
	bool is_found;
};

static void changed_report(
	const struct queue_record *record, const struct finding *finding, const void *address)
{
	const struct buffer *buffer = &finding->buffers[0];
	struct report report;

	for (uint32_t i = 0; i < finding->request.buffer_count && i < 4; i++)
		if (adapter_may_write(&finding->buffers[i], finding->request.target_count))
			return;
	report_begin(&report, KIND_SOURCE_CHANGED);
	report_say(&report,
		"%u bytes at 0x%lx, entry 0 of %u of a %s, wr_id 0x%lx, of queue pair 0x%x, changed "
		"between the post and the completion",
		buffer->bytes, (unsigned long)buffer->memory, finding->request.buffer_count,
		opcode_name((enum ibv_wr_opcode)finding->request.opcode),
		(unsigned long)finding->request.wr_id, record->qp_num);
	report_site(&report, "posted at", finding->request.site);
	report_site(&report, "completion polled at", site_of(address));
	report_end(&report);
}

/* Is the memory of the entry still that of its region? */
static bool buffer_is_known(const struct buffer *buffer)
{
	return buffer->region->is_live && !buffer->region->is_suspect &&
		(uint32_t)buffer->region->key == buffer->lkey;
}

/* Finish the request at `index`; with success its memory has to have the digest of the post. */
static void request_finish(
	struct request_queue *queue, uint64_t index, bool is_success, struct finding *finding)
{
	struct request *request = request_at(queue, index);
	struct buffer *buffers = buffers_at(queue, index);
	bool is_intact = true, was_found = finding->is_found;
	uint64_t digest = 0;

	if (request->is_done)
		return;
	if (is_success && request->has_digest && !finding->is_found) {
		/* That memory was given back meanwhile is another mistake. */
		for (uint32_t i = 0; i < request->buffer_count && is_intact; i++)
			is_intact = buffer_is_known(&buffers[i]) &&
				digest_add(&digest, buffers[i].region, buffers[i].memory,
					buffers[i].bytes);
		if (is_intact && digest != request->digest) {
			finding->is_found = true;
			finding->request = *request;
			for (uint32_t i = 0; i < request->buffer_count && i < 4; i++)
				finding->buffers[i] = buffers[i];
		}
	}
	targets_note(queue, index);
	queue->signaled -= request->is_signaled;
	request->is_done = true;
	if (buffers_release(queue, index))
		finding->is_found = was_found;
}

/* The index of the request that completes; queue->tail if there is none. The lock is locked. */
static uint64_t request_completed(
	const struct request_queue *queue, const struct ibv_wc *wc, bool is_send)
{
	for (uint64_t i = queue->head; i < queue->tail; i++) {
		const struct request *request = request_at(queue, i);

		if (request->is_done || request->wr_id != wc->wr_id)
			continue;
		if (request->is_signaled || wc->status != IBV_WC_SUCCESS || !is_send)
			return i;
	}
	return queue->tail;
}

/* Complete a request of the queue. Returns false if the queue has no such request. */
static bool queue_complete(struct request_queue *queue, const struct ibv_wc *wc, bool is_send,
	bool is_shared, struct finding *finding)
{
	uint64_t index;
	bool is_found;

	if (!queue->requests)
		return false;
	owned_lock_take(&queue->lock);
	index = request_completed(queue, wc, is_send);
	is_found = index < queue->tail;
	if (is_found) {
		uint64_t first = is_shared ? index : queue->head;

		for (uint64_t i = first; i <= index; i++)
			request_finish(queue, i, wc->status == IBV_WC_SUCCESS, finding);
		while (queue->head < queue->tail && request_at(queue, queue->head)->is_done)
			queue->head++;
	}
	owned_lock_leave(&queue->lock);
	return is_found;
}

void request_complete(struct queue_record *record, const struct ibv_wc *wc, bool is_receive_only,
	const void *address)
{
	struct finding finding;
	bool is_success = wc->status == IBV_WC_SUCCESS;
	struct queue_record *receiver = record->srq ? record->srq : record;

	finding.is_found = false;
	if (!is_success)
		record->has_failed = true;
	/* A failed completion does not tell of which queue it is. */
	if (!is_receive_only && !(is_success && (wc->opcode & IBV_WC_RECV)) &&
		queue_complete(&record->sends, wc, true, false, &finding)) {
		if (finding.is_found)
			changed_report(record, &finding, address);
		return;
	}
	if (!is_success || (wc->opcode & IBV_WC_RECV))
		queue_complete(&receiver->receives, wc, false, receiver != record, &finding);
}

/* --- memory that is taken away --------------------------------------------------------------- */

static void users_of_queue(struct queue_record *record, struct request_queue *queue,
	struct report *report, uintptr_t start, uint64_t bytes)
{
	if (!queue->requests || queue->has_twins)
		return;
	owned_lock_take(&queue->lock);
	for (uint64_t i = queue->head; i < queue->tail && report->site_count < 2; i++) {
		const struct request *request = request_at(queue, i);
		const struct buffer *buffers = buffers_at(queue, i);

		for (uint32_t k = 0; k < request->buffer_count; k++) {
			if (!ranges_overlap(start, bytes, buffers[k].memory, buffers[k].bytes))
				continue;
			report_say(report, "; it has %u bytes at 0x%lx of a %s, wr_id 0x%lx",
				buffers[k].bytes, (unsigned long)buffers[k].memory,
				queue == &record->receives
					? "receive request"
					: opcode_name((enum ibv_wr_opcode)request->opcode),
				(unsigned long)request->wr_id);
			report_site(report, "posted at", request->site);
			break;
		}
	}
	owned_lock_leave(&queue->lock);
}

void request_report_users(
	uint32_t kind, uintptr_t start, uint64_t bytes, const char *what, uint32_t site)
{
	struct queue_record *record;
	struct report report;

	report_begin(&report, (enum check_kind)kind);
	report_say(&report, "%s takes away %lu bytes at 0x%lx", what, (unsigned long)bytes,
		(unsigned long)start);
	report_site(&report, "taken away at", site);
	for (uint32_t i = 0; report.site_count < 2 && (record = queue_next(&i));) {
		struct report before = report;

		users_of_queue(record, &record->sends, &report, start, bytes);
		users_of_queue(record, &record->receives, &report, start, bytes);
		if (report.site_count == 2 && queue_is_idle(record))
			report = before;
	}
	if (report.site_count == 2)
		report_end(&report);
}

void request_check_entry(struct queue_record *record, const struct ibv_sge *entry, uint32_t index,
	const char *what, uint64_t wr_id, uint32_t site)
{
	struct region *region = region_find(record->context, entry->lkey);
	struct report report;

	report_begin(&report, region->is_live ? KIND_ENTRY_OUT_OF_BOUNDS : KIND_ENTRY_DEREGISTERED);
	report_say(&report,
		"entry %u of a %s, wr_id 0x%lx, has %u bytes at 0x%lx by lkey 0x%x, whose region %s "
		"%lu bytes at 0x%lx",
		index, what, (unsigned long)wr_id, entry->length, (unsigned long)entry->addr,
		entry->lkey, region->is_live ? "has" : "had", (unsigned long)region->bytes,
		(unsigned long)region->iova);
	report_site(&report, "posted at", site);
	if (!region->is_live)
		report_site(&report, "deregistered at", region->site_deregistered);
	report_site(&report, "registered at", region->site_registered);
	report_end(&report);
}

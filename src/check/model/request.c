/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/request.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/check.h"
#include "check/model/digest.h"
#include "check/model/protect.h"
#include "check/report.h"
#include "check/site.h"

/* The size of the ring of the last targets: memory that requests told the adapter to write. */
enum { TARGET_COUNT = 1024 };

struct target {
	uintptr_t start;
	uint64_t bytes;
};

/*
 * Guards `targets`, and additions to `target_count`. A thread locks it after the lock of a queue.
 */
static struct owned_lock targets_lock;
static struct target targets[TARGET_COUNT];
static _Atomic uint64_t target_count;

void requests_inherit(void)
{
	targets_lock = (struct owned_lock){0};
}

/* --- rings ----------------------------------------------------------------------------------- */

bool request_queue_init(
	struct request_queue *queue, uint32_t depth, uint32_t entries, bool is_receive)
{
	uint32_t size = 4;

	while (size < 2 * (uint64_t)depth)
		size *= 2;
	*queue = (struct request_queue){
		.size = size, .buffers_each = entries ? entries : 1, .is_receive = is_receive};
	queue->requests = calloc(size, sizeof(*queue->requests));
	queue->buffers = calloc((size_t)size * queue->buffers_each, sizeof(*queue->buffers));
	return queue->requests && queue->buffers;
}

void request_queue_done(struct request_queue *queue)
{
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

/*
 * The request no longer uses its memory. Returns true if an access of the program to the memory was
 * reported.
 */
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
		index_set(&queue->tail, queue->tail - 1);
		queue->signaled -= request_at(queue, queue->tail)->is_signaled;
		buffers_release(queue, queue->tail);
	}
}

void request_forget(struct request_queue *queue)
{
	owned_lock_take(&queue->lock);
	request_take_back(queue, queue->head);
	queue->signaled = 0;
	owned_lock_leave(&queue->lock);
}

static __attribute__((noinline)) void oldest_forget(struct request_queue *queue)
{
	queue->signaled -= request_at(queue, queue->head)->is_signaled;
	buffers_release(queue, queue->head);
	index_set(&queue->head, queue->head + 1);
}

void request_settle(struct request_queue *queue)
{
	while (queue->tail - queue->head > queue->size / 2)
		oldest_forget(queue);
}

/* The next request of the ring; NULL: the ring is full, because one post has too many requests. */
static inline struct request *request_new(
	struct request_queue *queue, uint64_t wr_id, uint32_t site)
{
	struct request *request = request_at(queue, queue->tail);

	if (queue->tail - queue->head == queue->size)
		return NULL;
	if (queue->last_wr_id == wr_id && queue->tail > queue->head)
		queue->has_twins = true;
	queue->last_wr_id = wr_id;
	request->wr_id = wr_id;
	request->digest = 0;
	request->target_count = atomic_load_explicit(&target_count, memory_order_relaxed);
	request->site = site;
	request->buffer_count = 0;
	request->is_done = false;
	request->has_digest = false;
	return request;
}

/* The region of `lkey`, live or deregistered; NULL: unknown. */
static inline struct region *region_at(
	const struct queue_record *record, struct request_queue *queue, uint32_t lkey)
{
	struct region *region = queue->last_region;

	if (region && region->is_live && region->key == region_key(record->context, lkey))
		return region;
	return queue->last_region = region_find(record->context, lkey);
}

/* Note the entries that name known regions. */
static inline void buffers_note(struct queue_record *record, struct request_queue *queue,
	struct request *request, const struct ibv_sge *entries, uint32_t count)
{
	struct buffer *buffer = buffers_at(queue, queue->tail);

	for (uint32_t i = 0; i < count && request->buffer_count < queue->buffers_each; i++) {
		struct region *region = region_at(record, queue, entries[i].lkey);

		if (!region || entries[i].length == 0)
			continue;
		if (!region->is_live || !region_has(region, entries[i].addr, entries[i].length)) {
			request_report_entry(queue, request, region, &entries[i], i);
			continue;
		}
		buffer->memory = region_memory(region, entries[i].addr);
		buffer->region = region;
		buffer->lkey = entries[i].lkey;
		buffer->bytes = entries[i].length;
		buffer->is_protected = false;
		buffer++;
		request->buffer_count++;
	}
}

static bool opcode_is_target(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/*
 * Protect the pages of the request. Those of a shared receive queue are not protected, because the
 * checker may confuse its completions.
 */
static void buffers_protect(
	struct queue_record *record, struct request_queue *queue, struct request *request)
{
	struct buffer *buffers = buffers_at(queue, queue->tail);

	if (!record->qp)
		return;
	for (uint32_t i = 0; i < request->buffer_count; i++)
		if (buffers[i].region->is_protectable) {
			buffers[i].is_protected = true;
			protect_begin(record, buffers[i].memory, buffers[i].bytes,
				request->is_target, request->site);
		}
}

/* Is some page of the memory not mapped? Only that is a mistake of the program. */
static bool buffer_is_unmapped(const struct buffer *buffer)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char is_resident;

	for (uintptr_t page = buffer->memory & -page_bytes; page < buffer->memory + buffer->bytes;
		page += page_bytes)
		if (mincore((void *)page, 1, &is_resident) && errno == ENOMEM)
			return true;
	return false;
}

static inline void digest_take(struct request_queue *queue, struct request *request)
{
	struct buffer *buffers = buffers_at(queue, queue->tail);

	request->has_digest = true;
	for (uint32_t i = 0; i < request->buffer_count && request->has_digest; i++) {
		request->has_digest = digest_add(
			&request->digest, buffers[i].region, buffers[i].memory, buffers[i].bytes);
		if (!request->has_digest && buffer_is_unmapped(&buffers[i]))
			request_report_unmapped(queue, request, &buffers[i]);
	}
}

void request_add_send(struct queue_record *record, const struct send_request *wr, uint32_t site)
{
	struct request_queue *queue = &record->sends;
	struct request *request = request_new(queue, wr->wr_id, site);

	if (!request)
		return;
	request->opcode = (uint8_t)wr->opcode;
	request->is_signaled = record->signals_all || (wr->flags & IBV_SEND_SIGNALED);
	request->is_target = opcode_is_target(wr->opcode);
	queue->signaled += request->is_signaled;
	/* The post copies inline data. LOCAL_INV and BIND_MW have no entries. */
	if (!(wr->flags & IBV_SEND_INLINE) && wr->opcode != IBV_WR_LOCAL_INV &&
		wr->opcode != IBV_WR_BIND_MW)
		buffers_note(record, queue, request, wr->entries, wr->count);
	if (!request->is_target && request->buffer_count > 0)
		digest_take(queue, request);
	if (check_is_full)
		buffers_protect(record, queue, request);
	index_set(&queue->tail, queue->tail + 1);
}

void request_add_receive(struct queue_record *record, const struct ibv_recv_wr *wr, uint32_t site)
{
	struct request_queue *queue = &record->receives;
	struct request *request = request_new(queue, wr->wr_id, site);

	if (!request)
		return;
	request->is_signaled = true;
	request->is_target = true;
	queue->signaled++;
	buffers_note(record, queue, request, wr->sg_list, (uint32_t)wr->num_sge);
	if (check_is_full)
		buffers_protect(record, queue, request);
	index_set(&queue->tail, queue->tail + 1);
}

/* --- completions ----------------------------------------------------------------------------- */

static void targets_note(const struct request *request, const struct buffer *buffers)
{
	uint64_t count;

	if (request->buffer_count == 0)
		return;
	owned_lock_take(&targets_lock);
	count = target_count;
	for (uint32_t i = 0; i < request->buffer_count; i++)
		targets[count++ % TARGET_COUNT] = (struct target){
			.start = buffers[i].memory,
			.bytes = buffers[i].bytes,
		};
	index_set(&target_count, count);
	owned_lock_leave(&targets_lock);
}

/* May a request have written to this memory? Only targets from number `before` on count. */
static bool target_was_there(uintptr_t start, uint64_t bytes, uint64_t before)
{
	bool is_found;

	owned_lock_take(&targets_lock);
	/*
	 * The ring does not have all of these targets any more, so assume that one of them matches
	 */
	is_found = target_count - before > TARGET_COUNT;
	for (uint64_t i = before; i < target_count && !is_found; i++) {
		const struct target *target = &targets[i % TARGET_COUNT];

		is_found = ranges_overlap(start, bytes, target->start, target->bytes);
	}
	owned_lock_leave(&targets_lock);
	return is_found;
}

static bool queue_has_target(struct request_queue *queue, uintptr_t start, uint64_t bytes)
{
	bool is_found = false;

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

/*
 * Does no request of the queue use this memory? Also returns false if another thread has the queue
 * locked.
 */
static bool queue_leaves_free(struct request_queue *queue, uintptr_t start, uint64_t bytes)
{
	bool is_free = true;

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

/* May the adapter have written to the memory, on behalf of the program or of a peer? */
static bool adapter_may_write(const struct buffer *buffer, uint64_t before)
{
	uintptr_t start = buffer->memory;
	struct queue_record *record;
	int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
		(rest_is_used ? IBV_ACCESS_LOCAL_WRITE : 0);
	bool is_found = (buffer->region->access & access) ||
		region_overlapping(start, buffer->bytes, access) || region_has_been_implicit() ||
		target_was_there(start, buffer->bytes, before);

	for (uint32_t i = 0; !is_found && (record = queue_next(&i));)
		is_found = queue_has_target(&record->sends, start, buffer->bytes) ||
			queue_has_target(&record->receives, start, buffer->bytes);
	return is_found;
}

/* A mistake that a completion has shown. The checker reports it after it has unlocked the queue. */
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
		request_name(&record->sends, &finding->request),
		(unsigned long)finding->request.wr_id, record->qp_num);
	report_site(&report, "posted at", finding->request.site);
	report_site(&report, "completion polled at", site_of(address));
	report_end(&report);
}

/* Does the memory of the entry still belong to the entry's region? */
static inline bool buffer_is_known(const struct buffer *buffer)
{
	return buffer->region->is_live && !buffer->region->is_suspect &&
		(uint32_t)buffer->region->key == buffer->lkey;
}

/*
 * Does the memory still have the digest of the post? Memory that was given back meanwhile counts as
 * intact here, because that is another mistake.
 */
static inline bool buffers_are_intact(const struct request *request, const struct buffer *buffers)
{
	uint64_t digest = 0;

	for (uint32_t i = 0; i < request->buffer_count; i++)
		if (!buffer_is_known(&buffers[i]) ||
			!digest_add(
				&digest, buffers[i].region, buffers[i].memory, buffers[i].bytes))
			return true;
	return digest == request->digest;
}

static void finding_make(
	struct finding *finding, const struct request *request, const struct buffer *buffers)
{
	finding->is_found = true;
	finding->request = *request;
	for (uint32_t i = 0; i < request->buffer_count && i < 4; i++)
		finding->buffers[i] = buffers[i];
}

/*
 * Finish the request at `index`. If it has succeeded, its memory must have the digest of the post.
 */
static inline void request_finish(
	struct request_queue *queue, uint64_t index, bool is_success, struct finding *finding)
{
	struct request *request = request_at(queue, index);
	struct buffer *buffers = buffers_at(queue, index);
	bool was_found = finding->is_found;

	if (request->is_done)
		return;
	if (is_success && request->has_digest && !was_found &&
		!buffers_are_intact(request, buffers))
		finding_make(finding, request, buffers);
	if (request->is_target)
		targets_note(request, buffers);
	queue->signaled -= request->is_signaled;
	request->is_done = true;
	if (check_is_full && buffers_release(queue, index))
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

/*
 * Complete a request of the queue. Returns false if the queue does not have that request. With
 * `has_rested` it was then posted during a rest, so all known requests of a send queue precede it
 * and are complete, too.
 */
static bool queue_complete(struct request_queue *queue, const struct ibv_wc *wc, bool has_rested,
	bool is_shared, struct finding *finding)
{
	bool is_success = wc->status == IBV_WC_SUCCESS;
	uint64_t index;
	bool is_found;

	if (queue->head == queue->tail)
		return false;
	owned_lock_take(&queue->lock);
	index = request_completed(queue, wc, !queue->is_receive);
	is_found = index < queue->tail;
	if (!is_found && has_rested && is_success && !queue->is_receive)
		index = queue->tail - 1;
	if (index < queue->tail) {
		uint64_t first = is_shared ? index : queue->head;

		for (uint64_t i = first; i <= index; i++)
			request_finish(queue, i, is_success, finding);
		while (queue->head < queue->tail && request_at(queue, queue->head)->is_done)
			index_set(&queue->head, queue->head + 1);
	}
	owned_lock_leave(&queue->lock);
	return is_found;
}

void request_complete(struct queue_record *record, const struct ibv_wc *wc, bool is_receive_only,
	const void *address)
{
	struct finding finding;
	bool is_success = wc->status == IBV_WC_SUCCESS, is_sent = false;
	struct queue_record *receiver = record->srq ? record->srq : record;

	finding.is_found = false;
	if (!is_success)
		record->has_failed = true;
	if (record->rest.is_resting)
		rest_look(record);
	if (receiver != record && receiver->rest.is_resting)
		rest_look(receiver);
	/* A failed completion does not say whether it is for a send or a receive request. */
	if (!is_receive_only && !(is_success && (wc->opcode & IBV_WC_RECV)) &&
		queue_complete(&record->sends, wc, record->rest.has_rested, false, &finding))
		is_sent = true;
	if (finding.is_found)
		changed_report(record, &finding, address);
	if (!is_sent && (!is_success || (wc->opcode & IBV_WC_RECV)))
		queue_complete(&receiver->receives, wc, receiver->rest.has_rested,
			receiver != record, &finding);
}

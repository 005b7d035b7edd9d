/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of requests and their memory. */
#include "check/check.h"
#include "check/model/request.h"
#include "check/report.h"
#include "check/site.h"

const char *request_name(const struct request_queue *queue, const struct request *request)
{
	if (queue->is_receive)
		return "receive request";
	switch ((int)request->opcode) {
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

void request_report_unmapped(const struct request_queue *queue, const struct request *request,
	const struct buffer *buffer)
{
	struct report report;

	report_begin(&report, KIND_ENTRY_NOT_MAPPED);
	report_say(&report,
		"the %s, wr_id 0x%lx, has %u bytes at 0x%lx of a region that is registered, and the "
		"memory is not mapped any more",
		request_name(queue, request), (unsigned long)request->wr_id, buffer->bytes,
		(unsigned long)buffer->memory);
	report_site(&report, "posted at", request->site);
	report_site(&report, "registered at", buffer->region->site_registered);
	report_end(&report);
}

void request_report_entry(const struct request_queue *queue, const struct request *request,
	const struct region *region, const struct ibv_sge *entry, uint32_t index)
{
	struct report report;

	report_begin(&report, region->is_live ? KIND_ENTRY_OUT_OF_BOUNDS : KIND_ENTRY_DEREGISTERED);
	report_say(&report,
		"entry %u of a %s, wr_id 0x%lx, has %u bytes at 0x%lx by lkey 0x%x, whose region %s "
		"%lu bytes at 0x%lx",
		index, request_name(queue, request), (unsigned long)request->wr_id, entry->length,
		(unsigned long)entry->addr, entry->lkey, region->is_live ? "has" : "had",
		(unsigned long)region->bytes, (unsigned long)region->iova);
	report_site(&report, "posted at", request->site);
	if (!region->is_live)
		report_site(&report, "deregistered at", region->site_deregistered);
	report_site(&report, "registered at", region->site_registered);
	report_end(&report);
}

/* --- memory that is taken away --------------------------------------------------------------- */

static void users_of_queue(
	struct request_queue *queue, struct report *report, uintptr_t start, uint64_t bytes)
{
	owned_lock_take(&queue->lock);
	for (uint64_t i = queue->head;
		!queue->has_twins && i < queue->tail && report->site_count < 2; i++) {
		const struct request *request = request_at(queue, i);
		const struct buffer *buffers = buffers_at(queue, i);

		for (uint32_t k = 0; k < request->buffer_count; k++) {
			if (!ranges_overlap(start, bytes, buffers[k].memory, buffers[k].bytes))
				continue;
			report_say(report, "; it has %u bytes at 0x%lx of a %s, wr_id 0x%lx",
				buffers[k].bytes, (unsigned long)buffers[k].memory,
				request_name(queue, request), (unsigned long)request->wr_id);
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

		users_of_queue(&record->sends, &report, start, bytes);
		users_of_queue(&record->receives, &report, start, bytes);
		if (report.site_count == 2 && queue_is_idle(record))
			report = before;
	}
	if (report.site_count == 2)
		report_end(&report);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checker's view of requests and memory, without a verbs library: check_fixture.c has the
 * functions of a context, and takes the reports.
 */
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "check/check.h"
#include "check/hook/hook.h"
#include "check/model/placer.h"
#include "check/model/region.h"
#include "check/model/request.h"
#include "check/report.h"
#include "check/site.h"
#include "check_fixture.h"
#include "lane/placer.h"

/* The checker and the library have a structure each for what one calls in the other. */
#define ASSERT_SAME_MEMBER(member)                                                               \
	static_assert(                                                                           \
		offsetof(struct urnic_placer, member) == offsetof(struct lane_placer, member) && \
			__builtin_types_compatible_p(                                            \
				__typeof__(((struct urnic_placer *)NULL)->member),               \
				__typeof__(((struct lane_placer *)NULL)->member)),               \
		"the structures differ")
static_assert(sizeof(struct urnic_placer) == sizeof(struct lane_placer), "the structures differ");
ASSERT_SAME_MEMBER(begin);
ASSERT_SAME_MEMBER(wait);

enum { OUTSIDE_OF_SAMPLES = 100, ROUNDS = 500 };

static void source_that_is_untouched_is_not_reported(void **state)
{
	(void)state;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[8]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	memory[0]++;
	assert_int_equal(reports(), 0);
}

static void source_that_is_written_is_reported(void **state)
{
	static const uint32_t lengths[] = {1, 8, 13, 64, 4096};

	(void)state;
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		assert_int_equal(send_bytes(0, lengths[i], IBV_SEND_SIGNALED), 0);
		memory[lengths[i] - 1]++;
		complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
		assert_int_equal(counts[KIND_SOURCE_CHANGED], i + 1);
	}
}

static void unsignaled_source_is_in_use_until_a_later_completion(void **state)
{
	(void)state;
	assert_int_equal(send_bytes(0, 8, 0), 0);
	assert_int_equal(send_bytes(64, 8, IBV_SEND_SIGNALED), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(counts[KIND_SOURCE_CHANGED], 1);
}

static void inline_source_is_free_after_the_post(void **state)
{
	(void)state;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(reports(), 0);
}

static void flushed_source_is_not_reported(void **state)
{
	(void)state;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(reports(), 0);
}

static void source_that_a_receive_may_write_is_not_reported(void **state)
{
	(void)state;
	receive_bytes(4, 64, 1);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[4]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(reports(), 0);
}

static void source_that_a_receive_has_written_is_not_reported(void **state)
{
	(void)state;
	receive_bytes(4, 64, 0);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[4]++;
	complete_one(IBV_WC_RECV, IBV_WC_SUCCESS);
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(reports(), 0);
	/* The receive request is complete, so it does not excuse a later write. */
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[4]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(counts[KIND_SOURCE_CHANGED], 1);
}

static void source_that_a_peer_may_write_is_not_reported(void **state)
{
	(void)state;
	regions_make(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(reports(), 0);
}

/* The program has given the peer another key of the same memory. */
static void source_that_a_peer_may_write_by_another_region_is_not_reported(void **state)
{
	struct ibv_mr other = {.context = &context, .pd = mr.pd, .lkey = LKEY + 1};

	(void)state;
	for (int is_other = 0; is_other < 2; is_other++) {
		region_add(context_of(&context), &other, memory + 4, 4, (uintptr_t)memory + 4,
			is_other ? IBV_ACCESS_REMOTE_ATOMIC : 0, SITE_NONE);
		assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
		memory[4]++;
		complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
		region_remove(region_of(&other), SITE_NONE);
		assert_int_equal(counts[KIND_SOURCE_CHANGED], 1);
	}
}

static void full_check_looks_at_each_byte(void **state)
{
	(void)state;
	for (int is_full = 0; is_full < 2; is_full++) {
		check_is_full = is_full;
		assert_int_equal(send_bytes(0, 4000, IBV_SEND_SIGNALED), 0);
		memory[OUTSIDE_OF_SAMPLES]++;
		complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
		assert_int_equal(counts[KIND_SOURCE_CHANGED], is_full);
	}
}

static void refused_request_is_not_in_use(void **state)
{
	struct region *region = region_of(&mr);

	(void)state;
	room = 0;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), ENOMEM);
	request_report_users(KIND_MEMORY_FREED, region->start, region->bytes, "free()", 1);
	assert_int_equal(reports(), 0);
}

static void memory_in_use_is_reported_until_the_completion(void **state)
{
	(void)state;
	receive_bytes(0, 64, 0);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory + 64, 64, "free()", 1);
	assert_int_equal(reports(), 0);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory + 63, 1, "free()", 1);
	assert_int_equal(counts[KIND_MEMORY_FREED], 1);
	qp_state = IBV_QPS_ERR;
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	qp_state = IBV_QPS_RTS;
	complete_one(IBV_WC_RECV, IBV_WC_SUCCESS);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	assert_int_equal(counts[KIND_MEMORY_FREED], 1);
}

/* Post and complete until the queue pair rests. */
static void rest_begin(void)
{
	struct queue_record *record = queue_of(&qp);

	ticks = record->rest.begun_ticks + 10;
	for (int i = 0; i < REST_FIRST_POSTS && !record->rest.is_resting; i++) {
		assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
		complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	}
	assert_true(record->rest.is_resting);
}

/* So many completions as the checker needs to look at the clock. */
static void rest_over(void)
{
	ticks = queue_of(&qp)->rest.wake_ticks;
	for (int i = 0; i < REST_LOOKS; i++)
		complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_false(queue_of(&qp)->rest.is_resting);
}

static void queue_that_rests_watches_again_after_a_time(void **state)
{
	(void)state;
	regions_make(0);
	rest_begin();
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(reports(), 0);
	rest_over();
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(counts[KIND_SOURCE_CHANGED], 1);
}

/* A thread may look whether the queue rests just before another one begins the rest. */
static void post_that_began_before_a_rest_does_not_lengthen_it(void **state)
{
	struct queue_record *record = queue_of(&qp);
	uint64_t wake_ticks;

	(void)state;
	rest_begin();
	wake_ticks = record->rest.wake_ticks;
	ticks++;
	rest_count(record);
	assert_int_equal(record->rest.wake_ticks, wake_ticks);
}

static void full_checks_never_rest(void **state)
{
	(void)state;
	check_is_full = true;
	for (int i = 0; i < 2 * REST_FIRST_POSTS; i++) {
		assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
		complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	}
	assert_false(queue_of(&qp)->rest.is_resting);
}

/* The completion of a request that was posted during a rest. */
static void completion_of_an_unknown_request_ends_earlier_ones(void **state)
{
	(void)state;
	rest_begin();
	rest_over();
	assert_int_equal(send_bytes(64, 8, 0), 0);
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory + 64, 8, "free()", 1);
	assert_int_equal(reports(), 0);
}

/* A receive request that was posted during a rest may have the same memory. */
static void writable_source_is_not_reported_after_a_rest(void **state)
{
	(void)state;
	rest_begin();
	rest_over();
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(reports(), 0);
}

/* Between ibv_wr_start() and ibv_wr_complete() the thread has the queue's lock. */
static void memory_may_be_freed_while_a_request_is_built(void **state)
{
	struct queue_record *record = queue_of(&qp);

	(void)state;
	owned_lock_take(&record->sends.lock);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	owned_lock_leave(&record->sends.lock);
	assert_int_equal(reports(), 0);
}

static void shared_receives_with_one_number_are_not_told_apart(void **state)
{
	struct ibv_sge entry = entry_of(0, 64);
	struct ibv_recv_wr wr = {.sg_list = &entry, .num_sge = 1}, *bad;

	(void)state;
	queue_add_shared(&srq, DEPTH, 1, SITE_NONE);
	assert_int_equal(hook_post_shared(&srq, &wr, &bad), 0);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	assert_int_equal(reports(), 1);
	assert_int_equal(hook_post_shared(&srq, &wr, &bad), 0);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	assert_int_equal(reports(), 1);
}

static void entry_outside_of_its_region_is_reported(void **state)
{
	(void)state;
	assert_int_equal(send_bytes(MEMORY_BYTES - 8, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(reports(), 0);
	assert_int_equal(send_bytes(MEMORY_BYTES - 8, 9, IBV_SEND_SIGNALED), 0);
	assert_int_equal(counts[KIND_ENTRY_OUT_OF_BOUNDS], 1);
	region_remove(region_of(&mr), SITE_NONE);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(counts[KIND_ENTRY_DEREGISTERED], 1);
}

static void full_queue_without_a_signal_is_reported(void **state)
{
	(void)state;
	room = 1;
	assert_int_equal(send_bytes(0, 8, 0), 0);
	assert_int_equal(send_bytes(0, 8, 0), ENOMEM);
	assert_int_equal(counts[KIND_NEVER_SIGNALED], 1);
}

/* The depth is a power of two, and the refused requests come behind as many. */
static void full_queue_with_a_signal_is_not_reported(void **state)
{
	struct ibv_sge entry = entry_of(0, 8);
	struct ibv_send_wr list[2 * DEPTH + 1], *bad;

	(void)state;
	for (uint32_t i = 0; i < 2 * DEPTH + 1; i++)
		list[i] = (struct ibv_send_wr){.opcode = IBV_WR_SEND,
			.sg_list = &entry,
			.num_sge = 1,
			.next = i < 2 * DEPTH ? &list[i + 1] : NULL};
	room = 2 * DEPTH;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(send_bytes(0, 8, i == 0 ? IBV_SEND_SIGNALED : 0), 0);
	room = 0;
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(send_bytes(0, 8, 0), ENOMEM);
	assert_int_equal(hook_post_send(&qp, list, &bad), ENOMEM);
	assert_int_equal(send_bytes(0, 8, 0), ENOMEM);
	assert_int_equal(reports(), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(counts[KIND_SOURCE_CHANGED], 1);
}

/* Its completion was missed, and it is not in use for ever. */
static void oldest_request_is_forgotten_beyond_the_depth(void **state)
{
	(void)state;
	receive_bytes(0, 64, 1);
	for (uint32_t i = 0; i < DEPTH; i++)
		receive_bytes(64, 64, 2 + i);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory + 64, 64, "free()", 1);
	assert_int_equal(reports(), 1);
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	assert_int_equal(reports(), 1);
}

static void full_queue_is_reported_if_it_was_never_polled(void **state)
{
	(void)state;
	room = 2;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), ENOMEM);
	assert_int_equal(counts[KIND_NEVER_POLLED], 1);
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), ENOMEM);
	assert_int_equal(reports(), 1);
}

static void destroyed_object_is_reported(void **state)
{
	struct ibv_wc wc;

	(void)state;
	queue_remove(&qp);
	object_remove(&qp, SITE_NONE);
	assert_int_equal(send_bytes(0, 8, 0), EINVAL);
	assert_int_equal(counts[KIND_OBJECT_DESTROYED], 1);
	object_remove(&cq, SITE_NONE);
	assert_int_equal(hook_poll(&cq, 1, &wc), -1);
	assert_int_equal(counts[KIND_OBJECT_DESTROYED], 2);
}

static void objects_of_the_parent_are_reported(void **state)
{
	(void)state;
	objects_inherit();
	assert_int_equal(send_bytes(0, 8, 0), EINVAL);
	assert_int_equal(counts[KIND_OBJECT_INHERITED], 1);
}

/* A thread that loads or unloads a library has the loader's lock, which dladdr() takes. */
static void calls_of_a_library_are_known_without_the_loaders_lock(void **state)
{
	struct ibv_pd made = {.context = &context};
	uint32_t i = 0, count = 0, site = SITE_HERE();

	(void)state;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(lookups, 0);
	object_name = "/usr/lib/librdmacm.so.1";
	object_add(OBJECT_PD, &made, NULL, site);
	assert_true(site_address_is_library((uintptr_t)__builtin_return_address(0)));
	object_name = "/usr/lib/libc.so.6";
	assert_false(site_address_is_library((uintptr_t)__builtin_return_address(0)));
	/* Later the library may be gone. */
	object_add(OBJECT_PD, &made, NULL, site);
	assert_int_equal(lookups, 0);
	/* An object of a library is not the program's. */
	for (struct object *object; (object = object_next(&i));)
		count += object->pointer == &made;
	assert_int_equal(count, 0);
	object_remove(&made, SITE_NONE);
}

static void frame_count(const struct site_frame *frame, void *count)
{
	assert_string_equal(frame->object, "program");
	(*(uint32_t *)count)++;
}

/* Reports have a lock, too, and a thread that unloads a library may report. */
static void loader_is_asked_once_for_the_frames_of_a_site(void **state)
{
	uint32_t site = SITE_HERE(), count = 0, before;

	(void)state;
	site_look_up(site);
	before = lookups;
	assert_true(before > 0);
	object_name = NULL;
	site_frames(site, frame_count, &count);
	site_look_up(site);
	assert_true(count > 0);
	assert_int_equal(lookups, before);
}

/* A child has a copy of the memory. A thread of the parent may have locked a queue at the fork. */
static void memory_of_the_parent_may_be_freed(void **state)
{
	struct queue_record *record = queue_of(&qp);
	struct ibv_sge entry = entry_of(0, 64);
	struct ibv_recv_wr wr = {.sg_list = &entry, .num_sge = 1}, *bad;

	(void)state;
	queue_add_shared(&srq, DEPTH, 1, SITE_NONE);
	assert_int_equal(hook_post_shared(&srq, &wr, &bad), 0);
	receive_bytes(0, 64, 0);
	objects_inherit();
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	assert_int_equal(reports(), 0);
	record->sends.lock.owner = 1;
	request_report_users(KIND_MEMORY_FREED, (uintptr_t)memory, 64, "free()", 1);
	record->sends.lock.owner = 0;
	assert_int_equal(reports(), 0);
}

static void state_says_whether_memory_is_used_and_whether_there_was_an_error(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		bool is_idle, has_error;
	} rows[] = {
		{IBV_QPS_RTS, false, false},
		{IBV_QPS_RESET, true, false},
		{IBV_QPS_SQE, true, true},
		{IBV_QPS_ERR, true, true},
		{IBV_QPS_UNKNOWN, true, false},
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		qp_state = rows[i].state;
		assert_int_equal(queue_is_idle(queue_of(&qp)), rows[i].is_idle);
		assert_int_equal(queue_has_error(queue_of(&qp)), rows[i].has_error);
	}
}

static void *receives_post(void *unused)
{
	struct ibv_sge entry = entry_of(0, 64);
	struct ibv_recv_wr wr = {.sg_list = &entry, .num_sge = 1}, *bad;

	for (wr.wr_id = 0; wr.wr_id < 2 * REST_FIRST_POSTS; wr.wr_id++)
		hook_post_receive(&qp, &wr, &bad);
	return unused;
}

/* One thread posts receive requests, another sends and polls. ThreadSanitizer sees a race. */
static void threads_of_a_queue_pair_do_not_race(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, receives_post, NULL), 0);
	for (int i = 0; i < REST_FIRST_POSTS; i++) {
		assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
		complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
		complete_one(IBV_WC_RECV, IBV_WC_SUCCESS);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(reports(), 0);
}

static void *queue_poll(void *unused)
{
	struct ibv_wc wc;

	for (int i = 0; i < ROUNDS; i++)
		hook_poll(&cq, 1, &wc);
	return unused;
}

/* ThreadSanitizer sees a race. */
static void threads_that_poll_a_completion_queue_do_not_race(void **state)
{
	pthread_t thread;

	(void)state;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(pthread_create(&thread, NULL, queue_poll, NULL), 0);
	queue_poll(NULL);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Receive into the second half of the memory. */
static void *receives_complete(void *unused)
{
	const struct ibv_wc wc = {.opcode = IBV_WC_RECV, .qp_num = QPN};

	for (int i = 0; i < ROUNDS; i++) {
		receive_bytes(MEMORY_BYTES / 2, 64, 0);
		completion_note(queue_find_cq(&cq), &wc, receives_complete);
	}
	return unused;
}

/* One thread notes where requests have written, another one looks. ThreadSanitizer sees a race. */
static void source_is_compared_with_targets_of_another_thread(void **state)
{
	const struct ibv_wc wc = {.opcode = IBV_WC_SEND, .qp_num = QPN};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, receives_complete, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
		memory[0]++;
		completion_note(queue_find_cq(&cq), &wc, receives_complete);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(counts[KIND_SOURCE_CHANGED] > 0);
	assert_int_equal(counts[KIND_SOURCE_CHANGED], reports());
}

/* The adapter has the pages pinned. The checker does not read them for the program. */
static void source_that_the_program_may_not_read_is_not_read(void **state)
{
	(void)state;
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	region_restrict((uintptr_t)memory + MEMORY_BYTES / 2, 1, false);
	assert_int_equal(mprotect(memory, MEMORY_BYTES, PROT_NONE), 0);
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(mprotect(memory, MEMORY_BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(reports(), 0);
}

static void region_that_the_program_protects_is_left_to_it(void **state)
{
	struct region *region = region_of(&mr);

	(void)state;
	region->is_protectable = true;
	region_restrict((uintptr_t)memory + MEMORY_BYTES, 1, true);
	assert_true(region->is_protectable);
	region_restrict((uintptr_t)memory, 1, true);
	assert_false(region->is_protectable);
	assert_false(region->is_suspect);
}

/* Requests by its key are unknown to the checker, and may have the source as their target. */
static void source_beside_an_implicit_region_is_not_reported(void **state)
{
	struct ibv_mr all = {.context = &context, .pd = mr.pd, .lkey = LKEY + 1};

	(void)state;
	region_add(
		context_of(&context), &all, NULL, SIZE_MAX, 0, IBV_ACCESS_LOCAL_WRITE, SITE_NONE);
	assert_int_equal(send_bytes(0, 8, IBV_SEND_SIGNALED), 0);
	memory[0]++;
	complete_one(IBV_WC_SEND, IBV_WC_SUCCESS);
	assert_int_equal(reports(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(source_that_is_untouched_is_not_reported, set_up),
		cmocka_unit_test_setup(source_that_is_written_is_reported, set_up),
		cmocka_unit_test_setup(
			unsignaled_source_is_in_use_until_a_later_completion, set_up),
		cmocka_unit_test_setup(inline_source_is_free_after_the_post, set_up),
		cmocka_unit_test_setup(flushed_source_is_not_reported, set_up),
		cmocka_unit_test_setup(source_that_a_receive_may_write_is_not_reported, set_up),
		cmocka_unit_test_setup(source_that_a_receive_has_written_is_not_reported, set_up),
		cmocka_unit_test_setup(source_that_a_peer_may_write_is_not_reported, set_up),
		cmocka_unit_test_setup(
			source_that_a_peer_may_write_by_another_region_is_not_reported, set_up),
		cmocka_unit_test_setup(full_check_looks_at_each_byte, set_up),
		cmocka_unit_test_setup(refused_request_is_not_in_use, set_up),
		cmocka_unit_test_setup(memory_in_use_is_reported_until_the_completion, set_up),
		cmocka_unit_test_setup(memory_may_be_freed_while_a_request_is_built, set_up),
		cmocka_unit_test_setup(shared_receives_with_one_number_are_not_told_apart, set_up),
		cmocka_unit_test_setup(entry_outside_of_its_region_is_reported, set_up),
		cmocka_unit_test_setup(full_queue_without_a_signal_is_reported, set_up),
		cmocka_unit_test_setup(full_queue_with_a_signal_is_not_reported, set_up),
		cmocka_unit_test_setup(oldest_request_is_forgotten_beyond_the_depth, set_up),
		cmocka_unit_test_setup(full_queue_is_reported_if_it_was_never_polled, set_up),
		cmocka_unit_test_setup(destroyed_object_is_reported, set_up),
		cmocka_unit_test_setup(objects_of_the_parent_are_reported, set_up),
		cmocka_unit_test_setup(queue_that_rests_watches_again_after_a_time, set_up),
		cmocka_unit_test_setup(post_that_began_before_a_rest_does_not_lengthen_it, set_up),
		cmocka_unit_test_setup(full_checks_never_rest, set_up),
		cmocka_unit_test_setup(completion_of_an_unknown_request_ends_earlier_ones, set_up),
		cmocka_unit_test_setup(writable_source_is_not_reported_after_a_rest, set_up),
		cmocka_unit_test_setup(
			calls_of_a_library_are_known_without_the_loaders_lock, set_up),
		cmocka_unit_test_setup(loader_is_asked_once_for_the_frames_of_a_site, set_up),
		cmocka_unit_test_setup(memory_of_the_parent_may_be_freed, set_up),
		cmocka_unit_test_setup(
			state_says_whether_memory_is_used_and_whether_there_was_an_error, set_up),
		cmocka_unit_test_setup(source_that_the_program_may_not_read_is_not_read, set_up),
		cmocka_unit_test_setup(region_that_the_program_protects_is_left_to_it, set_up),
		cmocka_unit_test_setup(threads_of_a_queue_pair_do_not_race, set_up),
		cmocka_unit_test_setup(threads_that_poll_a_completion_queue_do_not_race, set_up),
		cmocka_unit_test_setup(source_is_compared_with_targets_of_another_thread, set_up),
		/* The last test, because the region counts for the rest of the process. */
		cmocka_unit_test_setup(source_beside_an_implicit_region_is_not_reported, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

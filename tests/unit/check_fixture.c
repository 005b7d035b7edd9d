/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check/check.h"
#include "check/hook/hook.h"
#include "check/model/protect.h"
#include "check/model/region.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/report.h"
#include "check/site.h"
#include "check_fixture.h"

pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;
bool check_is_full;
__thread unsigned check_depth;

uint32_t counts[KIND_COUNT];
struct ibv_context context;
static struct context_record context_record;
static struct ibv_pd pd = {.context = &context};
struct ibv_mr mr = {.context = &context, .pd = &pd, .lkey = LKEY};
struct ibv_cq cq = {.context = &context};
struct ibv_qp qp;
struct ibv_srq srq = {.context = &context};
unsigned char memory[MEMORY_BYTES] __attribute__((aligned(4096)));
enum ibv_qp_state qp_state;
uint64_t ticks;
int room;
static struct ibv_wc completion; /* what the next poll finds */
const char *object_name;
uint32_t lookups;

/* --- what the checker calls ------------------------------------------------------------------ */

static int query_qp(
	struct ibv_qp *asked, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)asked;
	(void)mask;
	(void)init;
	attr->qp_state = qp_state;
	return qp_state == IBV_QPS_UNKNOWN ? EIO : 0;
}

void *check_next(const char *name)
{
	assert_string_equal(name, "ibv_query_qp");
	return (void *)query_qp;
}

/* In the place of the loader's, which takes the loader's lock. */
int dladdr(const void *address, Dl_info *ret_info)
{
	struct queue_record *record = queue_of(&qp);

	(void)address;
	assert_int_equal(pthread_mutex_trylock(&check_lock), 0);
	pthread_mutex_unlock(&check_lock);
	assert_true(!record || !owned_lock_is_mine(&record->sends.lock));
	lookups++;
	*ret_info = (Dl_info){.dli_fname = object_name};
	return 1;
}

/* In the place of the C library's, which takes no lock: the object's name is the test's. */
int _dl_find_object(void *address, struct dl_find_object *ret_found)
{
	static int (*real)(void *address, struct dl_find_object *ret_found);
	static struct link_map named;
	int rc;

	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "_dl_find_object");
	rc = real(address, ret_found);
	if (!rc && object_name) {
		named = *ret_found->dlfo_link_map;
		named.l_name = (char *)(uintptr_t)object_name;
		ret_found->dlfo_link_map = &named;
	}
	return rc;
}

uint64_t check_ticks(void)
{
	return ticks;
}

void *check_allocate(size_t bytes)
{
	return calloc(1, bytes);
}

bool protect_is_possible(uintptr_t start, uint64_t bytes)
{
	(void)start;
	(void)bytes;
	return false;
}

void protect_begin(const struct queue_record *record, uintptr_t start, uint64_t bytes,
	bool is_target, uint32_t site)
{
	(void)record;
	(void)start;
	(void)bytes;
	(void)is_target;
	(void)site;
	fail();
}

bool protect_end(uintptr_t start, uint64_t bytes, bool is_target)
{
	(void)start;
	(void)bytes;
	(void)is_target;
	fail();
	return false;
}

void protect_inherit(void)
{
}

bool rest_hooks_remove(struct queue_record *record)
{
	(void)record;
	return true;
}

void rest_hooks_put(struct queue_record *record)
{
	(void)record;
}

void watch_leave(void)
{
}

bool watch_is_mine(void)
{
	return false;
}

void report_begin(struct report *report, enum check_kind kind)
{
	*report = (struct report){.kind = kind};
}

void report_say(struct report *report, const char *format, ...)
{
	(void)report;
	(void)format;
}

void report_site(struct report *report, const char *what, uint32_t site)
{
	(void)what;
	(void)site;
	report->site_count++;
}

void report_end(const struct report *report)
{
	counts[report->kind]++;
}

static int send_posted(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)to;
	for (; wr; wr = wr->next) {
		if (room == 0) {
			*bad = wr;
			return ENOMEM;
		}
		room--;
	}
	return 0;
}

static int receive_posted(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	(void)wr;
	(void)bad;
	return 0;
}

static int shared_posted(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	(void)wr;
	(void)bad;
	return 0;
}

static int polled(struct ibv_cq *from, int count, struct ibv_wc *ret_wc)
{
	(void)from;
	(void)count;
	*ret_wc = completion;
	return 1;
}

/* --- the program ----------------------------------------------------------------------------- */

uint32_t reports(void)
{
	uint32_t count = 0;

	for (int i = 0; i < KIND_COUNT; i++)
		count += counts[i];
	return count;
}

void regions_make(int access)
{
	struct region *region = region_of(&mr);

	if (region)
		region_remove(region, SITE_NONE);
	region_add(
		&context_record, &mr, memory, MEMORY_BYTES, (uintptr_t)memory, access, SITE_NONE);
}

int set_up(void **state)
{
	const struct ibv_qp_cap cap = {
		.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2};

	(void)state;
	memset(counts, 0, sizeof(counts));
	memset(memory, 1, sizeof(memory));
	check_is_full = false;
	rest_is_used = false;
	qp_state = IBV_QPS_RTS;
	room = -1;
	object_name = "program";
	lookups = 0;
	context_record = (struct context_record){.context = &context};
	context_record.ops.post_send = send_posted;
	context_record.ops.post_recv = receive_posted;
	context_record.ops.post_srq_recv = shared_posted;
	context_record.ops.poll_cq = polled;
	object_add(OBJECT_DEVICE, &context, &context_record, SITE_NONE);
	regions_make(IBV_ACCESS_LOCAL_WRITE);
	object_remove(&cq, SITE_NONE);
	queue_add_cq(&cq, SITE_NONE);
	qp = (struct ibv_qp){.context = &context, .qp_num = QPN, .send_cq = &cq, .recv_cq = &cq};
	queue_remove(&qp);
	object_remove(&qp, SITE_NONE);
	queue_remove(&srq);
	object_remove(&srq, SITE_NONE);
	queue_add(&qp, &cap, false, SITE_NONE);
	return 0;
}

struct ibv_sge entry_of(uint32_t offset, uint32_t bytes)
{
	return (struct ibv_sge){.addr = (uintptr_t)memory + offset, .length = bytes, .lkey = LKEY};
}

int send_bytes(uint32_t offset, uint32_t bytes, unsigned flags)
{
	struct ibv_sge entry = entry_of(offset, bytes);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &entry, .num_sge = 1, .send_flags = flags};
	struct ibv_send_wr *bad;

	return hook_post_send(&qp, &wr, &bad);
}

void receive_bytes(uint32_t offset, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge entry = entry_of(offset, bytes);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &entry, .num_sge = 1};
	struct ibv_recv_wr *bad;

	assert_int_equal(hook_post_receive(&qp, &wr, &bad), 0);
}

void complete_one(enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	completion = (struct ibv_wc){.opcode = opcode, .status = status, .qp_num = QPN};
	assert_int_equal(hook_poll(&cq, 1, &wc), 1);
}

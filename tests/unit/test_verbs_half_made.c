/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects whose creation fails half-way: the first allocation of memory, NIC memory or a descriptor
 * fails, then the second, and so on until the creation succeeds. Each failure leaves as much
 * memory, NIC memory and as many descriptors in use as before, and no user at the objects that the
 * new one is built on.
 *
 * The linker redirects the calls of urnic's code to this file (--wrap in meson.build).
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "base/arith.h"
#include "nic/nic_internal.h"
#include "support/netns.h"

enum {
	DEPTH = 16,
	BUFFER_BYTES = 8192,
	ATTEMPTS_MAX = 200, /* more fallible calls than any creation makes */
};

/* Of the thread of the tests; other threads of the NIC go on undisturbed. */
static _Thread_local uint32_t fails_in; /* calls until one fails; 0: none does */
static _Thread_local bool has_failed;
static _Thread_local int64_t blocks; /* allocated and not freed */

static bool fails_now(void)
{
	if (fails_in == 0 || --fails_in != 0)
		return false;
	has_failed = true;
	return true;
}

#define WRAP_DECLARE(type, name, ...)    \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

WRAP_DECLARE(void *, malloc, size_t bytes);
WRAP_DECLARE(void *, calloc, size_t count, size_t bytes);
WRAP_DECLARE(void *, realloc, void *memory, size_t bytes);
WRAP_DECLARE(void, free, void *memory);
WRAP_DECLARE(uint64_t, arena_alloc, struct arena *arena, uint64_t bytes);
WRAP_DECLARE(uint64_t, arena_alloc_shared, struct arena *arena, uint64_t bytes);
WRAP_DECLARE(uint64_t, arena_alloc_both, struct arena *arena, uint64_t bytes);
WRAP_DECLARE(int, socketpair, int domain, int type, int protocol, int fds[2]);
WRAP_DECLARE(int, memfd_create, const char *name, unsigned flags);

static void *counted(void *memory)
{
	if (memory)
		blocks++;
	return memory;
}

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

static int no_descriptor(void)
{
	errno = EMFILE;
	return -1;
}

void *__wrap_malloc(size_t bytes)
{
	return fails_now() ? no_memory() : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails_now() ? no_memory() : counted(__real_calloc(count, bytes));
}

/* Not counted: tables grow by it, and stay. */
void *__wrap_realloc(void *memory, size_t bytes)
{
	return fails_now() ? no_memory() : __real_realloc(memory, bytes);
}

void __wrap_free(void *memory)
{
	if (memory)
		blocks--;
	__real_free(memory);
}

uint64_t __wrap_arena_alloc(struct arena *arena, uint64_t bytes)
{
	return fails_now() ? 0 : __real_arena_alloc(arena, bytes);
}

uint64_t __wrap_arena_alloc_shared(struct arena *arena, uint64_t bytes)
{
	return fails_now() ? 0 : __real_arena_alloc_shared(arena, bytes);
}

uint64_t __wrap_arena_alloc_both(struct arena *arena, uint64_t bytes)
{
	return fails_now() ? 0 : __real_arena_alloc_both(arena, bytes);
}

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
	return fails_now() ? no_descriptor() : __real_socketpair(domain, type, protocol, fds);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	return fails_now() ? no_descriptor() : __real_memfd_create(name, flags);
}

/* --- what objects are built on --- */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_td *td;
static uint8_t *buffer;

/* --- each kind of object --- */

static void *channel_create(void)
{
	return ibv_create_comp_channel(context);
}

static int channel_destroy(void *object)
{
	return ibv_destroy_comp_channel(object);
}

static void *pd_create(void)
{
	return ibv_alloc_pd(context);
}

static int pd_destroy(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *td_create(void)
{
	struct ibv_td_init_attr init = {0};

	return ibv_alloc_td(context, &init);
}

static int td_destroy(void *object)
{
	return ibv_dealloc_td(object);
}

static void *parent_create(void)
{
	struct ibv_parent_domain_init_attr init = {.pd = pd, .td = td};

	return ibv_alloc_parent_domain(context, &init);
}

static void *cq_create(void)
{
	return ibv_create_cq(context, DEPTH, NULL, NULL, 0);
}

static int cq_destroy(void *object)
{
	return ibv_destroy_cq(object);
}

static void *mr_create(void)
{
	return ibv_reg_mr(pd, buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
}

static int mr_destroy(void *object)
{
	return ibv_dereg_mr(object);
}

static void *mw_create(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int mw_destroy(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *dm_create(void)
{
	struct ibv_alloc_dm_attr init = {.length = BUFFER_BYTES};

	return ibv_alloc_dm(context, &init);
}

static int dm_destroy(void *object)
{
	return ibv_free_dm(object);
}

static void *srq_create(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 2}};

	return ibv_create_srq(pd, &init);
}

static int srq_destroy(void *object)
{
	return ibv_destroy_srq(object);
}

static void *xrcd_create(void)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
	};

	return ibv_open_xrcd(context, &init);
}

static int xrcd_destroy(void *object)
{
	return ibv_close_xrcd(object);
}

static void *qp_create(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {DEPTH, DEPTH, 2, 2, 64},
		.qp_type = type,
	};

	return ibv_create_qp(pd, &init);
}

static void *rc_create(void)
{
	return qp_create(IBV_QPT_RC);
}

static void *uc_create(void)
{
	return qp_create(IBV_QPT_UC);
}

static void *ud_create(void)
{
	return qp_create(IBV_QPT_UD);
}

static int qp_destroy(void *object)
{
	return ibv_destroy_qp(object);
}

static void *ah_create(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};

	if (ibv_query_gid(context, 1, 0, &attr.grh.dgid))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

static int ah_destroy(void *object)
{
	return ibv_destroy_ah(object);
}

static const struct kind {
	const char *name;
	void *(*create)(void);
	int (*destroy)(void *object);
} kinds[] = {
	{"completion channel", channel_create, channel_destroy},
	{"protection domain", pd_create, pd_destroy},
	{"thread domain", td_create, td_destroy},
	{"parent domain", parent_create, pd_destroy},
	{"completion queue", cq_create, cq_destroy},
	{"memory region", mr_create, mr_destroy},
	{"memory window", mw_create, mw_destroy},
	{"device memory", dm_create, dm_destroy},
	{"shared receive queue", srq_create, srq_destroy},
	{"XRC domain", xrcd_create, xrcd_destroy},
	{"RC queue pair", rc_create, qp_destroy},
	{"UC queue pair", uc_create, qp_destroy},
	{"UD queue pair", ud_create, qp_destroy},
	{"address handle", ah_create, ah_destroy},
};

/* --- the test --- */

struct usage {
	int64_t blocks;
	uint64_t nic_bytes;
	uint32_t descriptors;
};

static struct usage usage_now(void)
{
	struct usage usage = {.blocks = blocks, .nic_bytes = nic.arena.live_bytes};
	DIR *folder = opendir("/proc/self/fd");

	assert_non_null(folder);
	while (readdir(folder))
		usage.descriptors++;
	closedir(folder);
	return usage;
}

static void *created_with_failure(const struct kind *kind, uint32_t attempt)
{
	void *object;

	has_failed = false;
	fails_in = attempt;
	object = kind->create();
	fails_in = 0;
	return object;
}

/* Fail call after call of the creation. Returns how many failures there were. */
static uint32_t creation_fail(const struct kind *kind)
{
	for (uint32_t attempt = 1; attempt < ATTEMPTS_MAX; attempt++) {
		struct usage before = usage_now(), after;
		void *object = created_with_failure(kind, attempt);
		bool is_over = !has_failed;

		if (object)
			assert_int_equal(kind->destroy(object), 0);
		after = usage_now();
		if (before.blocks != after.blocks || before.nic_bytes != after.nic_bytes ||
			before.descriptors != after.descriptors)
			fail_msg(
				"%s, failure %u: %lld blocks, %lld bytes of NIC memory and %d descriptors are left",
				kind->name, attempt, (long long)(after.blocks - before.blocks),
				(long long)(after.nic_bytes - before.nic_bytes),
				(int)(after.descriptors - before.descriptors));
		if (is_over) {
			assert_non_null(object);
			return attempt - 1;
		}
	}
	fail_msg("%s: the creation never succeeds", kind->name);
	return 0;
}

static void object_that_fails_half_way_leaves_nothing_behind(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		void *object = kinds[i].create(); /* what is made once and stays, such as a path */

		assert_non_null(object);
		assert_int_equal(kinds[i].destroy(object), 0);
		assert_int_not_equal(creation_fail(&kinds[i]), 0);
	}
}

static int bases_create(void **state)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	(void)state;
	if (!devices || !devices[0])
		return -1;
	context = ibv_open_device(devices[0]);
	ibv_free_device_list(devices);
	if (!context)
		return -1;
	pd = pd_create();
	cq = cq_create();
	td = td_create();
	buffer = aligned_alloc(4096, BUFFER_BYTES);
	return pd && cq && td && buffer ? 0 : -1;
}

/* A failed creation that has left a user at one of these makes its end fail (EBUSY). */
static int bases_destroy(void **state)
{
	(void)state;
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
	free(buffer);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(object_that_fails_half_way_leaves_nothing_behind),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, bases_create, bases_destroy);
}

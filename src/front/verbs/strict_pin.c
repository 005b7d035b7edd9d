/* SPDX-License-Identifier: BSD-2-Clause */
/* Pinned pages: counted as the kernel counts them, although this NIC pins nothing. */
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/arith.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"
#include "os/strict.h"

/* The inode of the initial user namespace (the kernel's PROC_USER_INIT_INO). */
#define INITIAL_USER_NAMESPACE 0xeffffffdu

/*
 * The sizes of ring entries of mlx5 (rdma-core, providers/mlx5): blocks of 64 bytes and segments of
 * 16. A send request has a control segment and a remote address segment.
 */
enum { BLOCK_BYTES = 64, SEGMENT_BYTES = 16, SEND_HEADER_SEGMENTS = 2 };

static _Atomic uint64_t pinned_pages;

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t pages_of(const void *address, size_t bytes)
{
	uint64_t first = (uintptr_t)address / page_bytes();

	return bytes ? ((uintptr_t)address + bytes - 1) / page_bytes() - first + 1 : 0;
}

/*
 * Does the kernel let the process pin any number of pages? That requires CAP_IPC_LOCK in the
 * initial user namespace. So root in another user namespace is not exempt.
 */
static bool is_exempt(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
	struct stat space;

	if (stat("/proc/self/ns/user", &space) || space.st_ino != INITIAL_USER_NAMESPACE)
		return false;
	return syscall(SYS_capget, &header, data) == 0 &&
		(data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK));
}

int strict_pin(const void *address, size_t bytes)
{
	uint64_t pages = pages_of(address, bytes), before, allowed;
	struct rlimit limit;

	if (!strict_adapters())
		return 0;
	before = atomic_fetch_add(&pinned_pages, pages);
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	allowed = limit.rlim_cur / page_bytes();
	if (before + pages <= allowed || is_exempt())
		return 0;
	atomic_fetch_sub(&pinned_pages, pages);
	return nic_failure_cause_text(REASON_PINNED, result_cause(REASON_PINNED),
		"%llu and %llu pages are more than %llu (ulimit -l)", (unsigned long long)before,
		(unsigned long long)pages, (unsigned long long)allowed);
}

void strict_unpin(const void *address, size_t bytes)
{
	uint64_t pages = pages_of(address, bytes);
	uint64_t before = atomic_load(&pinned_pages);

	/* A forked child may release what its parent has pinned. */
	while (!atomic_compare_exchange_weak(
		&pinned_pages, &before, before - min_u64(before, pages)))
		;
}

void strict_pins_forget(void)
{
	atomic_store(&pinned_pages, 0);
}

static size_t rounded_up(size_t bytes)
{
	size_t rounded = SEGMENT_BYTES;

	while (rounded < bytes)
		rounded *= 2;
	return rounded;
}

size_t strict_rq_bytes(uint32_t depth, uint32_t sge_count_max)
{
	return depth * rounded_up(sge_count_max * (size_t)SEGMENT_BYTES);
}

size_t strict_qp_bytes(const struct ibv_qp_cap *cap)
{
	size_t data = max_u64(cap->max_send_sge * (size_t)SEGMENT_BYTES, cap->max_inline_data);
	size_t entry = SEND_HEADER_SEGMENTS * (size_t)SEGMENT_BYTES + data;

	return cap->max_send_wr * (div_ceil_u64(entry, BLOCK_BYTES) * BLOCK_BYTES) +
		strict_rq_bytes(cap->max_recv_wr, cap->max_recv_sge);
}

size_t strict_cq_bytes(uint32_t depth)
{
	return depth * (size_t)BLOCK_BYTES;
}

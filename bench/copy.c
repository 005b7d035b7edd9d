/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rates of several ways to copy memory, in GiB/s by way and size. The destination is memory that
 * another process has mapped, too. For process_vm_writev() it is private memory of that process.
 *
 *     copy [ROUNDS [BYTES]]
 *
 * Prints two tables. In the first one all copies have the same destination, which stays in the
 * caches if they have room for it. In the second one the destinations are spread over 512 MiB. A
 * figure is the median of ROUNDS rounds (default 7); in each round the ways take turns. With BYTES
 * it prints only the line of the first table for that size.
 */
#include <errno.h>
#include <immintrin.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory/copy.h"

#define POOL_BYTES     ((size_t)512 << 20)
#define SIZE_BYTES_MAX ((size_t)64 << 20)
#define TURN_BYTES \
	((size_t)128 << 20) /* bytes per way, size and round, in COUNT_MAX copies at most */
enum { COUNT_MAX = 200000, ROUNDS_MAX = 99 };

static pid_t other; /* the other process: `far` is its private memory, and it maps `pool` */
static uint8_t *far;

static void copy_memcpy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static void copy_rep_movsb(uint8_t *to, const uint8_t *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void copy_stream_16(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t head_bytes = bytes < 256 ? bytes : -(uintptr_t)to % 64;

	memcpy(to, from, head_bytes);
	to += head_bytes;
	from += head_bytes;
	bytes -= head_bytes;
	for (; bytes >= 64; bytes -= 64, to += 64, from += 64)
		for (int i = 0; i < 64; i += 16)
			_mm_stream_si128(
				(void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
	_mm_sfence();
	memcpy(to, from, bytes);
}

__attribute__((target("avx2"))) static void copy_stream_32(
	uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t head_bytes = bytes < 256 ? bytes : -(uintptr_t)to % 64;

	memcpy(to, from, head_bytes);
	to += head_bytes;
	from += head_bytes;
	bytes -= head_bytes;
	for (; bytes >= 64; bytes -= 64, to += 64, from += 64) {
		__m256i a = _mm256_loadu_si256((const void *)from);
		__m256i b = _mm256_loadu_si256((const void *)(from + 32));

		_mm256_stream_si256((void *)to, a);
		_mm256_stream_si256((void *)(to + 32), b);
	}
	_mm_sfence();
	memcpy(to, from, bytes);
}

__attribute__((target("avx512f"))) static void copy_stream_64(
	uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t head_bytes = bytes < 256 ? bytes : -(uintptr_t)to % 64;

	memcpy(to, from, head_bytes);
	to += head_bytes;
	from += head_bytes;
	bytes -= head_bytes;
	for (; bytes >= 128; bytes -= 128, to += 128, from += 128) {
		__m512i a = _mm512_loadu_si512(from);
		__m512i b = _mm512_loadu_si512(from + 64);

		_mm512_stream_si512((void *)to, a);
		_mm512_stream_si512((void *)(to + 64), b);
	}
	_mm_sfence();
	memcpy(to, from, bytes);
}

static void copy_urnic(uint8_t *to, const uint8_t *from, size_t bytes)
{
	copy_place_any(to, from, bytes);
}

static uint8_t *pool;

static void copy_by_kernel(uint8_t *to, const uint8_t *from, size_t bytes)
{
	struct iovec local = {(void *)(uintptr_t)from, bytes};
	struct iovec remote = {far + (to - pool), bytes};

	if (process_vm_writev(other, &local, 1, &remote, 1, 0) != (ssize_t)bytes) {
		perror("process_vm_writev");
		exit(1);
	}
}

struct way {
	const char *name;
	void (*copy)(uint8_t *to, const uint8_t *from, size_t bytes);
	bool is_there;
};

static struct way ways[] = {
	{"memcpy", copy_memcpy, true},
	{"rep movsb", copy_rep_movsb, true},
	{"stream 16", copy_stream_16, true},
	{"stream 32", copy_stream_32, false},
	{"stream 64", copy_stream_64, false},
	{"process_vm", copy_by_kernel, true},
	{"urnic", copy_urnic, true},
};

enum { WAY_COUNT = sizeof(ways) / sizeof(*ways) };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Copy TURN_BYTES by one way. Returns GiB/s. */
static double turn(const struct way *way, const uint8_t *from, size_t bytes, bool is_spread)
{
	size_t count = TURN_BYTES / bytes;
	size_t places = is_spread ? POOL_BYTES / bytes : 1;
	double start;

	if (count > COUNT_MAX)
		count = COUNT_MAX;
	way->copy(pool, from, bytes);
	start = now();
	/*
	 * The step is large, so that no prefetcher follows it. It is odd, so that in a power of two
	 * of places each has its turn before any has a second one.
	 */
	for (size_t i = 0; i < count; i++)
		way->copy(pool + i * 40503 % places * bytes, from, bytes);
	return (double)(count * bytes) / (now() - start) / (double)(1 << 30);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void line(const uint8_t *from, int rounds, size_t bytes, bool is_spread)
{
	double figures[WAY_COUNT][ROUNDS_MAX];

	for (int round = 0; round < rounds; round++)
		for (int w = 0; w < WAY_COUNT; w++)
			figures[w][round] =
				ways[w].is_there ? turn(&ways[w], from, bytes, is_spread) : 0;
	printf("%10zu", bytes);
	for (int w = 0; w < WAY_COUNT; w++) {
		qsort(figures[w], (size_t)rounds, sizeof(double), by_size);
		printf(" %12.2f", figures[w][rounds / 2]);
	}
	printf("\n");
	fflush(stdout);
}

static void table(const uint8_t *from, int rounds, bool is_spread)
{
	printf("\n%s\n%10s", is_spread ? "all over 512 MiB" : "the same place", "bytes");
	for (int w = 0; w < WAY_COUNT; w++)
		printf(" %12s", ways[w].is_there ? ways[w].name : "");
	printf("\n");
	for (size_t bytes = 8; bytes <= SIZE_BYTES_MAX; bytes *= bytes < 1 << 18 ? 8 : 2)
		line(from, rounds, bytes, is_spread);
}

static void *memory(size_t bytes, int flags)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return base;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 7;
	size_t only = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	uint8_t *from = memory(SIZE_BYTES_MAX, MAP_PRIVATE);

	if (rounds < 1 || rounds > ROUNDS_MAX || only > SIZE_BYTES_MAX) {
		fprintf(stderr, "copy: rounds are 1 to %d, bytes up to %zu\n", ROUNDS_MAX,
			SIZE_BYTES_MAX);
		return 2;
	}
	ways[3].is_there = __builtin_cpu_supports("avx2");
	ways[4].is_there = __builtin_cpu_supports("avx512f");
	pool = memory(POOL_BYTES, MAP_SHARED);
	far = memory(POOL_BYTES, MAP_PRIVATE);
	other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(far, 1, POOL_BYTES);
		memset(pool, 1, POOL_BYTES);
		kill(getpid(), SIGSTOP);
		pause();
	}
	waitpid(other, NULL, WUNTRACED);
	memset(pool, 2, POOL_BYTES);
	memset(from, 3, SIZE_BYTES_MAX);
	printf("GiB/s, medians of %d rounds\n", rounds);
	if (only) {
		line(from, rounds, only, false);
	} else {
		table(from, rounds, false);
		table(from, rounds, true);
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	return 0;
}

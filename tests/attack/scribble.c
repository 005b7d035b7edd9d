/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of the same user that writes any words into the NIC memory of others.
 *
 *     scribble SEED MS PID...   finds each process's memfds in /proc, maps what it may, and writes
 *                               for MS; prints what it could map
 *                               to write
 *     scribble guard            a third process: registers memory that peers may write, prints a
 *                               line, and says at the end of its input whether a byte of it has
 *                               changed
 *
 * What is written: random words, bits that flip, small numbers, bounds, and words from elsewhere in
 * the same memory. Where: pages that are in use, mostly at words that are not zero.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum {
	MEMORIES_MAX = 64,
	FDS_MAX = 1024,
	PAGE_BYTES = 4096,
	PAGES_MAX = 4096,
	GUARD_BYTES = 1 << 20,
	GUARD_MARK = 0xa5,
	PAUSE_NS = 20000,
};

struct memory {
	uint8_t *base;
	uint64_t bytes;
	uint64_t page[PAGES_MAX]; /* those that are in use */
	uint32_t page_count;
};

static struct memory memories[MEMORIES_MAX];
static uint32_t memory_count;
static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Which of its pages hold something: data follows holes in a sparse file. */
static void pages_find(struct memory *memory, int fd)
{
	off_t at = 0;

	memory->page_count = 0;
	while (memory->page_count < PAGES_MAX) {
		off_t end;

		at = lseek(fd, at, SEEK_DATA);
		if (at < 0)
			return;
		end = lseek(fd, at, SEEK_HOLE);
		for (; at < end && memory->page_count < PAGES_MAX; at += PAGE_BYTES)
			memory->page[memory->page_count++] = (uint64_t)at;
	}
}

/* Map one of the process's descriptors, if it is NIC memory. */
static void memory_add(const char *path, const char *link)
{
	struct memory *memory = &memories[memory_count];
	struct stat status;
	int fd;

	if (memory_count == MEMORIES_MAX || strncmp(link, "/memfd:urnic", 12) != 0)
		return;
	if (strncmp(link, "/memfd:urnic-memory", 19) == 0)
		return; /* what programs have registered: peers may write there anyway */
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &status)) {
		void *base = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, fd, 0);

		if (base != MAP_FAILED) {
			memory->base = base;
			memory->bytes = (uint64_t)status.st_size;
			pages_find(memory, fd);
			printf("%s: %u pages can be written\n", link, memory->page_count);
			memory_count++;
		}
	}
	close(fd);
}

static void process_add(const char *pid)
{
	for (int i = 0; i < FDS_MAX; i++) {
		char path[64], link[256];
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/%s/fd/%d", pid, i);
		bytes = readlink(path, link, sizeof(link) - 1);
		if (bytes <= 0)
			continue;
		link[bytes] = '\0';
		memory_add(path, link);
	}
}

static uint64_t *any_word(const struct memory *memory)
{
	uint64_t page = memory->page[draw() % memory->page_count];
	uint64_t *words = (uint64_t *)(void *)(memory->base + page);
	uint64_t *word = NULL;

	for (int tries = 0; tries < 8; tries++) {
		word = &words[draw() % (PAGE_BYTES / sizeof(uint64_t))];
		if (*(volatile uint64_t *)word)
			break;
	}
	return word;
}

static void scribble(const struct memory *memory)
{
	volatile uint64_t *word = any_word(memory);

	switch (draw() % 8) {
	case 0:
		*word = draw();
		break;
	case 1:
		*word ^= 1ull << draw() % 64;
		break;
	case 2:
		*word = draw() % 300;
		break;
	case 3:
		*word += draw() % 5 - 2;
		break;
	case 4:
		*word = *any_word(memory);
		break;
	case 5:
		*word = (draw() % (memory->bytes / 64)) * 64; /* as an offset */
		break;
	case 6:
		*word = memory->page[draw() % memory->page_count] + draw() % 64 * 64;
		break;
	default:
		*(volatile uint32_t *)word = (uint32_t)draw();
		break;
	}
}

static void scribble_for(uint64_t ms)
{
	uint64_t until_ms = now_ms() + ms;
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	while (now_ms() < until_ms) {
		for (int i = 0; i < 4; i++) {
			const struct memory *memory = &memories[draw() % memory_count];

			if (memory->page_count)
				scribble(memory);
		}
		nanosleep(&pause, NULL);
	}
}

/* The third process. */
static int guard(void)
{
	static uint8_t memory[GUARD_BYTES];
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	char line[8];

	memset(memory, GUARD_MARK, sizeof(memory));
	if (!pd ||
		!ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC))
		return 2;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	for (uint32_t i = 0; i < sizeof(memory); i++)
		if (memory[i] != GUARD_MARK) {
			printf("byte %u of a third process has changed\n", i);
			return 1;
		}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "guard") == 0)
		return guard();
	if (argc < 4)
		return 2;
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15 | 1;
	for (int i = 3; i < argc; i++)
		process_add(argv[i]);
	if (!memory_count)
		return 3;
	scribble_for(strtoull(argv[2], NULL, 10));
	return 0;
}

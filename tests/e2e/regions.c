/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is registered, deregistered, written, allocated, freed, discarded and forked at the
 * same time.
 *
 * Registering may move pages into memory that other processes can map; deregistering and forking
 * move them back. No thread of the program may notice. A board of counters shares its pages with
 * other allocations. Each writing thread has a counter in every line of the board and knows what it
 * wrote last. Other threads allocate and free. The main thread registers and deregisters parts of
 * the board and blocks of its own, while the others run and while they do not, and forks. A child's
 * memory has the bytes of the fork, and no other process sees what the child writes.
 *
 * -n is the seconds that it runs. The last line says how often memory had been moved.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

enum {
	LINE_BYTES = 64,
	LINES = 8192, /* of the board: 128 pages */
	WRITERS = 3,
	CHURNERS = 2,
	BLOCKS = 24,
	HEAP_SLOTS = 64, /* of each churner */
	ROUND_MS = 40,
};

static struct peer peer;
static atomic_bool is_stopping;
static uint64_t random_state = 1;

static uint64_t now_random(uint64_t limit)
{
	return peer_random(&random_state) % limit;
}

/* --- the board ---------------------------------------------------------------------------- */

static _Atomic uint64_t *board;
static uint64_t written[WRITERS][LINES]; /* by each writer, last */

static _Atomic uint64_t *cell(uint32_t line, int writer)
{
	return &board[line * (LINE_BYTES / sizeof(*board)) + (uint32_t)writer];
}

static void *write_on(void *argument)
{
	int writer = (int)(intptr_t)argument;
	uint64_t state = (uint64_t)writer + 100;

	while (!is_stopping) {
		uint32_t line = (uint32_t)(peer_random(&state) % LINES);
		uint64_t found = *cell(line, writer);

		CHECK(found == written[writer][line], "line %u of writer %d has %llu, not %llu",
			line, writer, (unsigned long long)found,
			(unsigned long long)written[writer][line]);
		*cell(line, writer) = ++written[writer][line];
	}
	return NULL;
}

/* The writers are at rest. */
static void board_check(const char *when)
{
	for (int writer = 0; writer < WRITERS; writer++)
		for (uint32_t line = 0; line < LINES; line++)
			CHECK(*cell(line, writer) == written[writer][line],
				"%s: line %u of writer %d", when, line, writer);
}

/* --- the heap ----------------------------------------------------------------------------- */

struct piece {
	uint8_t *bytes;
	size_t count;
	uint8_t tag;
};

static void piece_check(const struct piece *piece, size_t count)
{
	for (size_t i = 0; i < count; i++)
		CHECK(piece->bytes[i] == piece->tag, "byte %zu of %zu is 0x%02x, not 0x%02x", i,
			count, piece->bytes[i], piece->tag);
}

static void zeros_check(const uint8_t *bytes, size_t count, const char *of)
{
	for (size_t i = 0; i < count; i++)
		CHECK(!bytes[i], "byte %zu of %zu of %s is 0x%02x", i, count, of, bytes[i]);
}

static size_t some_bytes(uint64_t *state)
{
	size_t limit = (size_t)1 << (4 + peer_random(state) % 15);

	return 1 + peer_random(state) % limit;
}

static void piece_make(struct piece *piece, uint64_t *state)
{
	piece->count = some_bytes(state);
	piece->tag = (uint8_t)peer_random(state);
	if (peer_random(state) % 2) {
		piece->bytes = calloc(1, piece->count);
		CHECK(piece->bytes, "no memory");
		zeros_check(piece->bytes, piece->count, "calloc()");
	} else {
		piece->bytes = malloc(piece->count);
		CHECK(piece->bytes, "no memory");
	}
	memset(piece->bytes, piece->tag, piece->count);
}

static void piece_resize(struct piece *piece, uint64_t *state)
{
	size_t count = some_bytes(state);

	piece->bytes = realloc(piece->bytes, count);
	CHECK(piece->bytes, "no memory");
	piece_check(piece, count < piece->count ? count : piece->count);
	piece->count = count;
	memset(piece->bytes, piece->tag, count);
}

static void *churn(void *argument)
{
	uint64_t state = (uint64_t)(intptr_t)argument + 200;
	struct piece pieces[HEAP_SLOTS] = {{0}};

	while (!is_stopping) {
		struct piece *piece = &pieces[peer_random(&state) % HEAP_SLOTS];

		if (!piece->bytes) {
			piece_make(piece, &state);
			continue;
		}
		piece_check(piece, piece->count);
		if (peer_random(&state) % 4 == 0) {
			piece_resize(piece, &state);
			continue;
		}
		free(piece->bytes);
		piece->bytes = NULL;
	}
	for (int i = 0; i < HEAP_SLOTS; i++)
		free(pieces[i].bytes);
	return NULL;
}

/* --- blocks of the main thread ------------------------------------------------------------ */

struct block {
	struct piece piece; /* bytes NULL: none; of the board: none of its own */
	bool is_mapped; /* by mmap(), whole pages */
	struct ibv_mr *mr;
	struct ibv_mr *second; /* of a part of it, or NULL */
};

static struct block blocks[BLOCKS];

static size_t align_down(size_t bytes)
{
	return bytes & ~(size_t)4095;
}

static struct ibv_mr *registered(void *address, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(peer.pd, address, bytes, peer_link_full.access);

	CHECK(mr, "no region: %s", strerror(errno));
	return mr;
}

/* A part of the board, with whatever is beside it on the same pages left alone. */
static void block_on_board(struct block *block)
{
	size_t count = 1 + now_random(LINES / 16), first = now_random(LINES - count);

	block->mr = registered((uint8_t *)board + first * LINE_BYTES, count * LINE_BYTES);
}

static void block_of_memory(struct block *block)
{
	struct piece *piece = &block->piece;

	block->is_mapped = now_random(3) == 0;
	if (block->is_mapped) {
		piece->count = 4096 * (1 + now_random(64));
		piece->bytes = mmap(NULL, piece->count, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(piece->bytes != MAP_FAILED, "no memory");
	} else {
		piece->count = 1 + now_random(300000);
		piece->bytes = malloc(piece->count);
		CHECK(piece->bytes, "no memory");
	}
	piece->tag = (uint8_t)now_random(256);
	memset(piece->bytes, piece->tag, piece->count);
	block->mr = registered(piece->bytes, piece->count);
	if (now_random(3) == 0)
		block->second = registered(
			piece->bytes + piece->count / 4, piece->count - piece->count / 4);
	piece_check(piece, piece->count);
}

static void block_make(struct block *block)
{
	*block = (struct block){.mr = NULL};
	if (now_random(4) == 0)
		block_on_board(block);
	else
		block_of_memory(block);
}

/* It is private memory as any other: discarded it is zeros, and it can grow and move. */
static void block_give_back(struct block *block)
{
	struct piece *piece = &block->piece;

	piece_check(piece, piece->count);
	if (!block->is_mapped) {
		if (now_random(2) == 0)
			piece_resize(piece, &random_state);
		free(piece->bytes);
		return;
	}
	if (now_random(2) == 0) {
		void *moved = mremap(piece->bytes, piece->count, 4 * piece->count, MREMAP_MAYMOVE);

		/* Pieces of several mappings do not grow. */
		if (moved != MAP_FAILED) {
			piece->bytes = moved;
			piece_check(piece, piece->count);
			zeros_check(piece->bytes + piece->count, 3 * piece->count, "new memory");
			piece->count *= 4;
		}
	}
	CHECK(!madvise(piece->bytes, piece->count, MADV_DONTNEED), "madvise: %s", strerror(errno));
	zeros_check(piece->bytes, piece->count, "discarded memory");
	memset(piece->bytes, piece->tag, piece->count);
	piece_check(piece, piece->count);
	munmap(piece->bytes, piece->count);
}

/*
 * While a block is registered, the program changes its mapping in any way it can. At deregistration
 * other memory may be at that address.
 */
static void block_disturb(struct block *block)
{
	struct piece *piece = &block->piece;
	uint8_t *half = piece->bytes + align_down(piece->count / 2);

	CHECK(piece->bytes, "no block");
	switch (now_random(4)) {
	case 0:
		mprotect(half, 4096, PROT_READ);
		break;
	case 1:
		mprotect(half, 4096, PROT_NONE);
		break;
	case 2:
		CHECK(!munmap(half, 4096), "munmap: %s", strerror(errno));
		CHECK(mmap(half, 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == half,
			"mmap: %s", strerror(errno));
		memset(half, piece->tag, 4096);
		break;
	default:
		break;
	}
}

static void block_end(struct block *block)
{
	if (!block->mr)
		return;
	if (block->piece.bytes) {
		block->piece.tag++;
		memset(block->piece.bytes, block->piece.tag, block->piece.count);
	}
	if (block->is_mapped)
		block_disturb(block);
	CHECK(!ibv_dereg_mr(block->mr), "the region stays");
	if (block->second)
		CHECK(!ibv_dereg_mr(block->second), "the region stays");
	block->mr = NULL;
	if (block->is_mapped)
		CHECK(!mprotect(block->piece.bytes, block->piece.count, PROT_READ | PROT_WRITE),
			"mprotect: %s", strerror(errno));
	if (block->piece.bytes)
		block_give_back(block);
}

static void blocks_step(void)
{
	struct block *block = &blocks[now_random(BLOCKS)];

	if (block->mr)
		block_end(block);
	else
		block_make(block);
	if (now_random(8) == 0)
		malloc_trim(0);
}

/* --- forks -------------------------------------------------------------------------------- */

static uint64_t snapshot[LINES * LINE_BYTES / sizeof(uint64_t)];
static uint64_t again[LINES * LINE_BYTES / sizeof(uint64_t)];

static void blocks_check(void)
{
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].mr && blocks[i].piece.bytes)
			piece_check(&blocks[i].piece, blocks[i].piece.count);
}

/* Calls nothing that could wait for a lock which another thread had when its process was copied. */
__attribute__((noreturn)) static void child(void)
{
	memcpy(snapshot, board, sizeof(snapshot));
	for (int i = 0; i < 20; i++) {
		usleep(100);
		memcpy(again, board, sizeof(again));
		if (memcmp(snapshot, again, sizeof(snapshot)) != 0)
			_exit(2); /* somebody else writes */
	}
	blocks_check();
	memset(board, 0xee, sizeof(snapshot));
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].mr && blocks[i].piece.bytes)
			memset(blocks[i].piece.bytes, 0xee, blocks[i].piece.count);
	_exit(0);
}

static void fork_once(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0, "no fork: %s", strerror(errno));
	if (!pid)
		child();
	CHECK(waitpid(pid, &status, 0) == pid && !status, "a child ends with 0x%x", status);
	blocks_check();
}

/* --- rounds ------------------------------------------------------------------------------- */

/* How many mappings of moved memory are there? */
static uint32_t moved_count(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	uint32_t count = 0;

	CHECK(maps, "no /proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "rw-s") && strstr(line, "memfd:urnic-memory");
	fclose(maps);
	return count;
}

static void steps(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		blocks_step();
	blocks_check();
}

static void with_threads(void)
{
	pthread_t threads[WRITERS + CHURNERS];
	uint64_t end_ms = peer_now_ms() + ROUND_MS;

	is_stopping = false;
	for (int i = 0; i < WRITERS + CHURNERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, i < WRITERS ? write_on : churn,
			      (void *)(intptr_t)i),
			"no thread");
	while (peer_now_ms() < end_ms) {
		steps(6);
		if (now_random(6) == 0)
			fork_once();
	}
	is_stopping = true;
	for (int i = 0; i < WRITERS + CHURNERS; i++)
		pthread_join(threads[i], NULL);
	board_check("after a round");
}

/* A thread that was joined is the kernel's for another moment. */
static void await_solitude(nlink_t links)
{
	struct stat task;

	for (int i = 0; i < 1000; i++) {
		CHECK(!stat("/proc/self/task", &task), "no /proc/self/task");
		if (task.st_nlink <= links)
			return;
		usleep(100);
	}
}

static void blocks_end(void)
{
	for (int i = 0; i < BLOCKS; i++)
		block_end(&blocks[i]);
	board_check("after the last region");
	CHECK(!moved_count(), "%u mappings stay shared", moved_count());
}

int main(int argc, char **argv)
{
	struct peer_options options;
	uint64_t end_ms, moved = 0, rounds = 0;
	struct stat task;

	peer_parse(&options, argc, argv);
	peer_open(&peer, &options);
	CHECK(!stat("/proc/self/task", &task), "no /proc/self/task");
	board = calloc(LINES, LINE_BYTES);
	CHECK(board, "no memory");
	end_ms = peer_now_ms() + 1000ull * (options.count ? options.count : 5);
	for (; peer_now_ms() < end_ms; rounds++) {
		random_state = rounds + 1;
		steps(40);
		moved += moved_count();
		if (now_random(2) == 0)
			fork_once();
		steps(10);
		board_check("alone");
		with_threads();
		await_solitude(task.st_nlink);
		steps(10);
		if (now_random(4) == 0)
			blocks_end();
	}
	blocks_end();
	free(board);
	peer_close(&peer);
	printf("%llu rounds, %llu times moved\n", (unsigned long long)rounds,
		(unsigned long long)moved);
	return 0;
}

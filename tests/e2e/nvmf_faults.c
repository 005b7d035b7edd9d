/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verified I/O by liburnic-nvmf, for a test that kills this program, its target and the network.
 *
 * Each logical block that is written carries its number and a sequence number. A log in a file that
 * is mapped keeps two sequence numbers per block: what was acknowledged last, and what was sent
 * last. The mapping survives kill -9 of the program. A block that is read must be whole, and have a
 * sequence number from the acknowledged one to the sent one. What was read once counts as
 * acknowledged: nothing older or newer may come back.
 *
 * A run with the log of a killed run overwrites half of the writes that were in flight at once, so
 * that it finds late writes of the dead run. Then it reads all blocks. After SIGTERM it does
 * AFTER_TERM more requests, reads all blocks, and ends.
 *
 * Usage: nvmf_faults LOG run SEED TRANSPORT ADDRESS NQN
 *        nvmf_faults LOG check FILE
 */
#include <urnic/nvmf.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOG_MAGIC 0x73746c7561666d76u

enum {
	BLOCKS = 4096,
	SPAN_MAX = 64, /* blocks of a request */
	DEPTH_MAX = 64,
	BLOCK_BYTES_MAX = 4096,
	RECORD_WORDS = 4,
	AFTER_TERM = 300, /* requests */
};

struct block_log {
	uint32_t acknowledged; /* 0: zeroes */
	uint32_t sent; /* the newest that a read may find */
	uint32_t used; /* the newest that a write ever had */
};

struct faults_log {
	uint64_t magic;
	uint64_t block_bytes;
	struct block_log blocks[BLOCKS];
};

enum phase {
	PHASE_OVERWRITE, /* what a killed run has not settled */
	PHASE_READ_ALL,
	PHASE_RANDOM,
};

struct slot {
	struct urnic_nvmf_io io;
	uint32_t block;
	uint32_t count; /* 0: idle */
	bool is_after_term;
	uint8_t *data;
};

static struct faults_log *faults_log;
static struct urnic_nvmf *faults_ns;
static struct slot slots[DEPTH_MAX];
static bool is_busy[BLOCKS];
static enum phase phase;
static uint32_t phase_next; /* block, while the phase goes through all of them */
static uint32_t depth, span;
static uint64_t random_state;
static uint64_t writes, reads;
static uint64_t term_ns; /* 0: not yet */
static uint64_t back_ns; /* the first request that was submitted after `term_ns` has ended */
static uint32_t after_term;
static volatile sig_atomic_t has_term;

static void faults_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void faults_fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t draw(uint32_t count)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16) % count;
}

static void block_fill(uint32_t block, uint32_t sequence, uint8_t *data)
{
	for (uint32_t i = 0; i < faults_log->block_bytes; i += RECORD_WORDS * 4) {
		const uint32_t record[RECORD_WORDS] = {block + 1, sequence, i, ~sequence};

		memcpy(data + i, record, sizeof(record));
	}
}

/* The sequence number of a block that was read. */
static uint32_t block_sequence(uint32_t block, const uint8_t *data)
{
	static const uint8_t zeroes[BLOCK_BYTES_MAX];
	uint8_t expected[BLOCK_BYTES_MAX];
	uint32_t sequence;

	if (!memcmp(data, zeroes, faults_log->block_bytes))
		return 0;
	memcpy(&sequence, data + 4, sizeof(sequence));
	block_fill(block, sequence, expected);
	for (uint32_t i = 0; i < faults_log->block_bytes; i += RECORD_WORDS * 4) {
		uint32_t record[RECORD_WORDS];

		memcpy(record, data + i, sizeof(record));
		if (memcmp(data + i, expected + i, sizeof(record)) != 0)
			faults_fail("block %u is mixed or foreign at byte %u: %x %x %x %x after "
				    "sequence number %u",
				block, i, record[0], record[1], record[2], record[3], sequence);
	}
	return sequence;
}

static void block_check(uint32_t block, const uint8_t *data)
{
	struct block_log *log = &faults_log->blocks[block];
	uint32_t sequence = block_sequence(block, data);

	if (sequence < log->acknowledged)
		faults_fail("block %u is stale: it has %u, but %u was acknowledged, %u sent", block,
			sequence, log->acknowledged, log->sent);
	if (sequence > log->sent)
		faults_fail("block %u has a late write: %u, after %u was read or acknowledged",
			block, sequence, log->sent);
	log->acknowledged = log->sent = sequence;
}

static bool is_range_free(uint32_t block, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (is_busy[block + i])
			return false;
	}
	return true;
}

/* Choose blocks; no other request has them. False: there is nothing to do now. */
static bool range_choose(struct slot *slot)
{
	if (phase == PHASE_RANDOM) {
		slot->count = 1 + draw(span);
		slot->block = draw(BLOCKS - slot->count + 1);
		return is_range_free(slot->block, slot->count);
	}
	if (phase == PHASE_OVERWRITE) {
		while (phase_next < BLOCKS &&
			(faults_log->blocks[phase_next].acknowledged ==
					faults_log->blocks[phase_next].sent ||
				draw(2)))
			phase_next++;
	}
	slot->block = phase_next;
	slot->count = 1;
	if (phase == PHASE_READ_ALL)
		slot->count = BLOCKS - phase_next < span ? BLOCKS - phase_next : span;
	if (phase_next == BLOCKS || !is_range_free(slot->block, slot->count))
		return false;
	phase_next += slot->count;
	return true;
}

static void slot_done(struct urnic_nvmf_io *io, int error)
{
	struct slot *slot = io->user;

	if (error)
		faults_fail("%s of %u blocks from %u failed: %s",
			io->op == URNIC_NVMF_READ ? "a read" : "a write", slot->count, slot->block,
			strerror(-error));
	for (uint32_t i = 0; i < slot->count; i++) {
		uint32_t block = slot->block + i;

		is_busy[block] = false;
		if (io->op == URNIC_NVMF_READ)
			block_check(block, slot->data + i * faults_log->block_bytes);
		else
			__atomic_store_n(&faults_log->blocks[block].acknowledged,
				faults_log->blocks[block].sent, __ATOMIC_RELEASE);
	}
	*(io->op == URNIC_NVMF_READ ? &reads : &writes) += 1;
	if (slot->is_after_term && back_ns == 0)
		back_ns = now_ns();
	slot->count = 0;
}

static void slot_start(struct slot *slot)
{
	bool is_write = phase == PHASE_OVERWRITE || (phase == PHASE_RANDOM && draw(3));

	if (!range_choose(slot)) {
		slot->count = 0;
		return;
	}
	slot->io = (struct urnic_nvmf_io){.op = is_write ? URNIC_NVMF_WRITE : URNIC_NVMF_READ,
		.flags = is_write && draw(16) == 0 ? URNIC_NVMF_FUA : 0,
		.offset_bytes = slot->block * faults_log->block_bytes,
		.length_bytes = slot->count * faults_log->block_bytes,
		.data = slot->data,
		.done = slot_done,
		.user = slot};
	slot->is_after_term = term_ns != 0;
	for (uint32_t i = 0; i < slot->count; i++) {
		struct block_log *log = &faults_log->blocks[slot->block + i];

		is_busy[slot->block + i] = true;
		if (!is_write)
			continue;
		block_fill(
			slot->block + i, log->used + 1, slot->data + i * faults_log->block_bytes);
		/* Before the target can have it. */
		__atomic_store_n(&log->used, log->used + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&log->sent, log->used, __ATOMIC_RELEASE);
	}
	urnic_nvmf_submit(faults_ns, &slot->io);
}

/* Keep all slots at work, until the phase is over. */
static void phase_run(enum phase now)
{
	uint32_t pending;

	phase = now;
	phase_next = 0;
	do {
		for (uint32_t i = 0; i < depth; i++) {
			if (slots[i].count == 0 && after_term < AFTER_TERM) {
				slot_start(&slots[i]);
				after_term += phase == PHASE_RANDOM && term_ns != 0;
			}
		}
		pending = urnic_nvmf_process(faults_ns, 20000000);
		if (has_term && term_ns == 0)
			term_ns = now_ns();
	} while (pending > 0 || (phase == PHASE_RANDOM && after_term < AFTER_TERM));
}

static void term_handle(int number)
{
	(void)number;
	has_term = 1;
}

/* Until the target answers: it may be starting. */
static void faults_connect(const struct urnic_nvmf_settings *settings)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	char reason[URNIC_NVMF_REASON_BYTES];

	for (int attempt = 0; urnic_nvmf_open(settings, &faults_ns, reason); attempt++) {
		if (attempt == 1000)
			faults_fail("no connection: %s", reason);
		nanosleep(&pause, NULL);
	}
	faults_log->block_bytes = urnic_nvmf_block_bytes(faults_ns);
	if (faults_log->block_bytes > BLOCK_BYTES_MAX ||
		urnic_nvmf_size_bytes(faults_ns) < BLOCKS * faults_log->block_bytes)
		faults_fail("the namespace has the wrong size");
}

static void faults_run(char **arguments)
{
	static const uint8_t hostid[16] = {1};
	static const uint8_t depths[] = {1, 2, 8, 32, 64};
	static const uint8_t spans[] = {1, 4, 16, 64};
	struct urnic_nvmf_settings settings = {.transport = arguments[1],
		.traddr = arguments[2],
		.subnqn = arguments[3],
		.hostid = hostid};
	bool is_tcp = !strcmp(arguments[1], "tcp");

	random_state = strtoull(arguments[0], NULL, 10) * 0x9e3779b97f4a7c15u | 1;
	for (int i = 0; i < 8; i++)
		draw(2);
	depth = depths[draw(sizeof(depths))];
	span = spans[draw(sizeof(spans))];
	settings.io_queues = 1 + draw(3);
	settings.header_digest = is_tcp && draw(3) == 0;
	settings.data_digest = is_tcp && draw(3) == 0;
	faults_connect(&settings);
	for (uint32_t i = 0; i < depth; i++) {
		slots[i].data = malloc(span * faults_log->block_bytes);
		if (!slots[i].data)
			faults_fail("no memory");
	}
	phase_run(PHASE_OVERWRITE);
	phase_run(PHASE_READ_ALL);
	fprintf(stderr, "I/O runs\n");
	phase_run(PHASE_RANDOM);
	after_term = 0;
	phase_run(PHASE_READ_ALL);
	printf("depth %u, span %u, %u queues: %" PRIu64 " writes, %" PRIu64 " reads, %" PRIu64
	       " reconnects, back after %" PRIu64 " ms\n",
		depth, span, settings.io_queues, writes, reads, urnic_nvmf_reconnects(faults_ns),
		(back_ns - term_ns) / 1000000);
	urnic_nvmf_close(faults_ns);
}

/* What is in the target's file, when nothing is in flight. */
static void faults_check(const char *path)
{
	uint8_t data[BLOCK_BYTES_MAX];
	uint64_t bytes = faults_log->block_bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		faults_fail("cannot open %s", path);
	for (uint32_t block = 0; block < BLOCKS; block++) {
		if (pread(fd, data, bytes, (off_t)(block * bytes)) != (ssize_t)bytes)
			faults_fail("cannot read block %u", block);
		block_check(block, data);
	}
	close(fd);
}

static void log_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *memory = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(*faults_log)) == 0)
		memory = mmap(NULL, sizeof(*faults_log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		faults_fail("cannot map %s: %s", path, strerror(errno));
	faults_log = memory;
	if (faults_log->magic != 0 && faults_log->magic != LOG_MAGIC)
		faults_fail("%s is no log", path);
	faults_log->magic = LOG_MAGIC;
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = term_handle};

	if (argc < 3)
		return 2;
	sigaction(SIGTERM, &action, NULL);
	log_open(argv[1]);
	if (!strcmp(argv[2], "run") && argc == 7)
		faults_run(argv + 3);
	else if (!strcmp(argv[2], "check") && argc == 4)
		faults_check(argv[3]);
	else
		return 2;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: several random writes and reads are pending at the same time. Each read must return the
 * data of the last acknowledged write of its block.
 *
 * A write fills its block with records of the block's number, a generation and the job's seed. For
 * each block the program keeps two generations: of the last write that it sent, and of the last
 * write that was acknowledged. A block has one pending request at most, so a read must find the
 * acknowledged generation.
 *
 * With --state FILE both generations are in a file that outlives the program. If the program was
 * killed, a block may have any generation from the acknowledged one to the one that was sent. The
 * next run begins by reading all blocks, so it finds each lost write of the killed run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nvmf.h"
#include "nvmf/common/bytes.h"

#define VERIFY_MAGIC 0x796669726576726eu

enum { RUNTIME_SECONDS = 10, RECORD_BYTES = 32 };

struct block_state {
	uint32_t acknowledged; /* 0: no write of this job has been acknowledged */
	uint32_t sent;
};

/* The head of the state file. A struct block_state for each block follows. */
struct state_head {
	uint64_t magic;
	uint64_t seed;
	uint64_t blocks;
	uint64_t block_bytes;
};

struct verify {
	const struct nvmf_options *options;
	struct session session;
	uint64_t blocks;
	uint64_t random;
	uint64_t seed;
	struct state_head *head;
	struct block_state *states;
	size_t state_bytes;
	bool *is_busy;
	bool is_over;
	bool reads_all; /* all requests are reads, of each block once, in order */
	uint64_t next; /* the next block while `reads_all` is set */
	unsigned pending;
	uint64_t reads, writes;
	int error;
	char reason[NVMF_TEXT_BYTES];
};

struct slot {
	struct verify *verify;
	struct block_request request;
	uint64_t block;
};

static uint64_t verify_draw(struct verify *verify)
{
	verify->random ^= verify->random << 13;
	verify->random ^= verify->random >> 7;
	verify->random ^= verify->random << 17;
	return verify->random;
}

static void block_fill(
	const struct verify *verify, uint64_t block, uint32_t generation, uint8_t *data)
{
	for (uint32_t i = 0; i < verify->options->block_bytes; i += RECORD_BYTES) {
		le64_put(data + i, VERIFY_MAGIC);
		le64_put(data + i + 8, verify->seed);
		le64_put(data + i + 16, block);
		le32_put(data + i + 24, generation);
		le32_put(data + i + 28, i);
	}
}

static void verify_fail(struct verify *verify, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void verify_fail(struct verify *verify, const char *format, ...)
{
	va_list arguments;

	verify->is_over = true;
	if (verify->error)
		return;
	verify->error = -EILSEQ;
	va_start(arguments, format);
	vsnprintf(verify->reason, sizeof(verify->reason), format, arguments);
	va_end(arguments);
}

/*
 * Check the data of a block that was read. Each record must have a generation from `acknowledged`
 * to `sent`. The two differ only if a run was killed, which may have left a write executed in part.
 */
static void block_check(struct verify *verify, uint64_t block, const uint8_t *data)
{
	struct block_state *state = &verify->states[block];
	uint32_t first = le32_get(data + 24);
	bool is_whole = true;

	if (state->acknowledged == 0)
		return;
	for (uint32_t i = 0; i < verify->options->block_bytes; i += RECORD_BYTES) {
		uint32_t generation = le32_get(data + i + 24);

		if (le64_get(data + i) != VERIFY_MAGIC || le64_get(data + i + 8) != verify->seed ||
			le64_get(data + i + 16) != block || le32_get(data + i + 28) != i) {
			verify_fail(
				verify, "block %" PRIu64 " has foreign data at byte %u", block, i);
			return;
		}
		if (generation < state->acknowledged || generation > state->sent) {
			verify_fail(verify,
				"block %" PRIu64
				" has generation %u at byte %u, but %u was acknowledged and %u sent",
				block, generation, i, state->acknowledged, state->sent);
			return;
		}
		is_whole &= generation == first;
	}
	if (is_whole)
		state->acknowledged = state->sent = first;
}

static bool slot_start(struct slot *slot)
{
	struct verify *verify = slot->verify;
	struct block_request *request = &slot->request;
	uint64_t block;

	if (verify->reads_all && verify->next == verify->blocks)
		return false;
	do {
		block = verify->reads_all ? verify->next++ : verify_draw(verify) % verify->blocks;
	} while (verify->is_busy[block]);
	slot->block = block;
	verify->is_busy[block] = true;
	request->offset_bytes =
		verify->options->offset_bytes + block * verify->options->block_bytes;
	request->length_bytes = verify->options->block_bytes;
	request->op = verify->reads_all || verify_draw(verify) % 100 < verify->options->rwmixread
		? BLOCK_READ
		: BLOCK_WRITE;
	if (request->op == BLOCK_WRITE)
		block_fill(verify, block, ++verify->states[block].sent, request->data);
	verify->pending++;
	block_submit(remote_device(verify->session.remote), request);
	return true;
}

static void slot_done(struct block_request *request, int error)
{
	struct slot *slot = container_of(request, struct slot, request);
	struct verify *verify = slot->verify;

	verify->pending--;
	verify->is_busy[slot->block] = false;
	if (error) {
		verify_fail(verify, "%s of block %" PRIu64 " failed: %s",
			request->op == BLOCK_READ ? "reading" : "writing", slot->block,
			strerror(-error));
	} else if (request->op == BLOCK_READ) {
		verify->reads++;
		block_check(verify, slot->block, request->data);
	} else {
		verify->writes++;
		verify->states[slot->block].acknowledged = verify->states[slot->block].sent;
	}
	if (!verify->is_over)
		slot_start(slot);
}

static void verify_run(struct verify *verify, struct slot *slots, uint64_t runtime_ns)
{
	struct loop *loop = verify->session.loop;
	uint64_t begun_ns = loop_now_ns(loop);

	for (unsigned i = 0; i < verify->options->iodepth && !verify->is_over; i++) {
		if (!slot_start(&slots[i]))
			break;
	}
	while (verify->pending > 0) {
		loop_step(loop, 100000000u);
		verify->is_over |= loop_now_ns(loop) - begun_ns >= runtime_ns;
	}
}

static void read_all(struct verify *verify, struct slot *slots)
{
	verify->next = 0;
	verify->reads_all = true;
	verify_run(verify, slots, UINT64_MAX);
	verify->reads_all = false;
}

/*
 * Map memory for the generations: the state file if --state is given, else anonymous memory.
 * Returns false after a sentence on standard error.
 */
static bool states_open(struct verify *verify)
{
	const char *path = verify->options->metadata_file;
	int fd = -1;
	void *memory;

	verify->state_bytes = sizeof(*verify->head) + verify->blocks * sizeof(*verify->states);
	if (path) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)verify->state_bytes) != 0) {
			complain("cannot use '%s': %s", path, strerror(errno));
			if (fd >= 0)
				close(fd);
			return false;
		}
	}
	memory = mmap(NULL, verify->state_bytes, PROT_READ | PROT_WRITE,
		path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (fd >= 0)
		close(fd);
	if (memory == MAP_FAILED) {
		complain("no memory");
		return false;
	}
	verify->head = memory;
	verify->states = (struct block_state *)(verify->head + 1);
	if (verify->head->magic == 0)
		*verify->head = (struct state_head){
			VERIFY_MAGIC, verify->seed, verify->blocks, verify->options->block_bytes};
	if (verify->head->magic != VERIFY_MAGIC || verify->head->blocks != verify->blocks ||
		verify->head->block_bytes != verify->options->block_bytes) {
		complain("'%s' is of another job; remove it, or give the same --size and --bs",
			path);
		return false;
	}
	verify->seed = verify->head->seed;
	return true;
}

static int verify_all(struct verify *verify)
{
	unsigned depth = verify->options->iodepth;
	uint32_t seconds = verify->options->runtime_seconds;
	uint8_t *data = calloc(depth, verify->options->block_bytes);
	struct slot *slots = calloc(depth, sizeof(*slots));

	verify->is_busy = calloc(verify->blocks, sizeof(*verify->is_busy));
	if (!data || !slots || !verify->is_busy) {
		verify_fail(verify, "no memory");
	} else {
		for (unsigned i = 0; i < depth; i++) {
			slots[i].verify = verify;
			slots[i].request.data = data + (size_t)i * verify->options->block_bytes;
			slots[i].request.done = slot_done;
		}
		/*
		 * Read all blocks before and after the job, to find lost writes of a killed run and
		 * of the present run.
		 */
		read_all(verify, slots);
		verify_run(verify, slots, (seconds ? seconds : RUNTIME_SECONDS) * 1000000000ull);
		verify->is_over = verify->error != 0;
		read_all(verify, slots);
	}
	free(verify->is_busy);
	free(slots);
	free(data);
	if (verify->error)
		return complain("%s", verify->reason);
	printf("verified: %" PRIu64 " writes, %" PRIu64 " reads, %" PRIu64 " reconnects\n",
		verify->writes, verify->reads,
		host_controller_reconnects(verify->session.controller));
	return 0;
}

int command_verify(const struct nvmf_options *options)
{
	static struct verify verify;
	int status = 1;

	verify.options = options;
	if (options->iodepth == 0)
		return complain("--iodepth takes a number from 1 to %d", HOST_DEPTH_MAX);
	if (session_open(&verify.session, NULL, options, options->nqn, true))
		return 1;
	verify.random = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	verify.seed = options->seed ? options->seed : verify.random;
	if (session_blocks(&verify.session, options, options->iodepth,
		    "a block for each of --iodepth requests", &verify.blocks) &&
		states_open(&verify))
		status = verify_all(&verify);
	if (verify.head)
		munmap(verify.head, verify.state_bytes);
	session_close(&verify.session);
	return status;
}

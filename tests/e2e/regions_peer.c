/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer writes to a region while the region's owner registers, deregisters and forks.
 *
 * Both share a board of counters, the server's memory. The client counts in two words of each line:
 * in one by RDMA WRITE and READ, in the other by atomics. The server's main thread counts in a
 * third word, and now and then another thread of the server in a fourth. Meanwhile the server
 * forks, and registers and deregisters parts of the same pages. Each writer knows what it wrote
 * last. In each round the region is registered anew, while the server is alone, and deregistered
 * while its thread writes. -n is the number of rounds.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

enum {
	LINES = 1024,
	LINE_WORDS = 8,
	BOARD_WORDS = LINES * LINE_WORDS,
	OPERATIONS = 2000, /* of the client, a round */
	ROUNDS_DEFAULT = 20,
};

/* Whose word of each line is whose. */
enum column { MAIN, WRITE, ATOMIC, THREAD, COLUMNS };

static struct peer peer;
static uint64_t random_state = 1;

static uint32_t some_line(uint64_t *state)
{
	return (uint32_t)(peer_random(state) % LINES);
}

/* --- the server --------------------------------------------------------------------------- */

static _Atomic uint64_t *board;
static uint64_t written[COLUMNS][LINES];

static void count(enum column column, uint64_t *state)
{
	uint32_t line = some_line(state);
	_Atomic uint64_t *word = &board[line * LINE_WORDS + column];

	CHECK(*word == written[column][line], "line %u of column %d has %llu, not %llu", line,
		column, (unsigned long long)*word, (unsigned long long)written[column][line]);
	*word = ++written[column][line];
}

static void column_check(enum column column, const char *when)
{
	for (uint32_t line = 0; line < LINES; line++)
		CHECK(board[line * LINE_WORDS + column] == written[column][line],
			"%s, line %u of column %d has %llu, not %llu", when, line, column,
			(unsigned long long)board[line * LINE_WORDS + column],
			(unsigned long long)written[column][line]);
}

static atomic_bool is_stopping;

static void *count_on(void *argument)
{
	uint64_t state = 77;

	while (!is_stopping)
		count(THREAD, &state);
	return argument;
}

static void fork_once(void)
{
	static uint64_t snapshot[BOARD_WORDS], again[BOARD_WORDS];
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0, "no fork: %s", strerror(errno));
	if (pid == 0) {
		memcpy(snapshot, board, sizeof(snapshot));
		for (int i = 0; i < 10; i++) {
			usleep(100);
			memcpy(again, board, sizeof(again));
			if (memcmp(snapshot, again, sizeof(snapshot)) != 0)
				_exit(2); /* somebody else writes */
		}
		memset(board, 0xee, sizeof(snapshot));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status, "a child ends with 0x%x", status);
}

static void part_register(void)
{
	size_t first = some_line(&random_state), lines = 1 + some_line(&random_state);
	struct ibv_mr *mr;

	if (lines > LINES - first)
		lines = LINES - first;
	mr = ibv_reg_mr(
		peer.pd, &board[first * LINE_WORDS], lines * LINE_WORDS * 8, peer_link_full.access);
	CHECK(mr, "no region: %s", strerror(errno));
	for (int i = 0; i < 50; i++)
		count(MAIN, &random_state);
	CHECK(!ibv_dereg_mr(mr), "the region stays");
}

static bool board_is_moved(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	bool is_moved = false;

	CHECK(maps, "no /proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		is_moved |= strstr(line, "rw-s") && strstr(line, "memfd:urnic-memory");
	fclose(maps);
	return is_moved;
}

static bool serve_round(uint32_t round)
{
	struct ibv_mr *mr = ibv_reg_mr(
		peer.pd, (void *)(uintptr_t)board, BOARD_WORDS * 8, peer_link_full.access);
	bool is_moved = board_is_moved();
	struct peer_buffer buffer;
	pthread_t thread;

	CHECK(mr, "no region: %s", strerror(errno));
	buffer = peer_buffer_of(mr);
	peer_tell(&peer, &buffer, sizeof(buffer));
	while (!peer_has_told(&peer)) {
		count(MAIN, &random_state);
		if (peer_random(&random_state) % 100 == 0)
			part_register();
		/*
		 * In some rounds the client connects after the region was moved, in others after a
		 * fork.
		 */
		if (round % 3 && peer_random(&random_state) % 300 == 0)
			fork_once();
	}
	is_stopping = false;
	CHECK(!pthread_create(&thread, NULL, count_on, NULL), "no thread");
	peer_hear(&peer, written[WRITE], sizeof(written[WRITE]));
	peer_hear(&peer, written[ATOMIC], sizeof(written[ATOMIC]));
	column_check(WRITE, "before the end");
	column_check(ATOMIC, "before the end");
	fork_once();
	CHECK(!ibv_dereg_mr(mr), "the region stays");
	is_stopping = true;
	pthread_join(thread, NULL);
	usleep(500); /* until the kernel has forgotten the thread */
	for (int column = 0; column < COLUMNS; column++)
		column_check((enum column)column, "at the end");
	return is_moved;
}

static void serve(uint32_t rounds)
{
	uint32_t moved = 0;

	board = calloc(BOARD_WORDS, 8);
	CHECK(board, "no memory");
	for (uint32_t round = 0; round < rounds; round++)
		moved += serve_round(round);
	free(board);
	printf("%u rounds, %u times moved\n", rounds, moved);
}

/* --- the client --------------------------------------------------------------------------- */

struct client {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct peer_buffer board;
};

static uint64_t *word_of(struct client *client)
{
	return client->mr->addr;
}

/* One request about one word of the board; the word here is what is sent, or what came back. */
static void execute(
	struct client *client, enum ibv_wr_opcode opcode, uint32_t line, enum column column)
{
	struct ibv_sge sge = peer_sge(client->mr, 0, 8);
	uint64_t address = client->board.address + (line * LINE_WORDS + column) * 8;
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = client->board.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = client->board.rkey;
	}
	peer_post_send(client->qp, &wr);
	peer_success(client->cq);
}

static void expect(struct client *client, uint64_t value, uint32_t line, const char *what)
{
	CHECK(*word_of(client) == value, "%s line %u: %llu, not %llu", what, line,
		(unsigned long long)*word_of(client), (unsigned long long)value);
}

static void operate(struct client *client)
{
	uint32_t line = some_line(&random_state);

	execute(client, IBV_WR_RDMA_READ, line, WRITE);
	expect(client, written[WRITE][line], line, "READ of");
	*word_of(client) = ++written[WRITE][line];
	execute(client, IBV_WR_RDMA_WRITE, line, WRITE);
	/* Memory that is not mapped has its atomics by packets, which wait for their turn. */
	if (line % 16 == 0) {
		execute(client, IBV_WR_ATOMIC_FETCH_AND_ADD, line, ATOMIC);
		expect(client, written[ATOMIC][line]++, line, "atomic on");
	}
}

static void work(struct client *client, uint32_t rounds)
{
	for (uint32_t round = 0; round < rounds; round++) {
		peer_hear(&peer, &client->board, sizeof(client->board));
		for (int i = 0; i < OPERATIONS; i++)
			operate(client);
		peer_tell(&peer, written[WRITE], sizeof(written[WRITE]));
		peer_tell(&peer, written[ATOMIC], sizeof(written[ATOMIC]));
	}
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct client client;
	uint32_t rounds;

	peer_parse(&options, argc, argv);
	rounds = options.count ? options.count : ROUNDS_DEFAULT;
	peer_open(&peer, &options);
	peer_meet(&peer);
	client.cq = peer_cq_create(&peer, 16, NULL);
	client.qp = peer_qp_create(&peer, client.cq, 4, 1, 0);
	client.mr = peer_memory(&peer, 4096);
	peer_qp_connect(&peer, client.qp, &peer_link_full);
	if (peer_is_server(&peer))
		serve(rounds);
	else
		work(&client, rounds);
	peer_barrier(&peer);
	CHECK(!ibv_destroy_qp(client.qp) && !ibv_destroy_cq(client.cq), "objects stay");
	peer_memory_free(client.mr);
	peer_close(&peer);
	return 0;
}

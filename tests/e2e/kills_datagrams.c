/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three processes of one host that send datagrams to each other, one of which is killed or stopped at a random moment, again and again:
 * COUNT rounds from the seed that -w names. The other two check every byte of every completion, go on sending to all, and
 * must hear each other; in the end their queues give back every request but the one, at most, that the dead one had taken.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum {
	PROCESSES = 3,
	SENDS = 8,
	RECEIVES = 64,
	HEADER_BYTES = 40, /* before a datagram */
	DATAGRAM_BYTES = 2048,
	SLOT_BYTES = HEADER_BYTES + DATAGRAM_BYTES,
	WR_RECEIVE = 1 << 20, /* added to a receive request's number */
	QKEY = 0x1234,
	OVERTAKEN_MAX = 8, /* in a round: mostly who is stopped or killed has one of each other's */
	HEARD_AFTER = 50, /* datagrams of the other survivor's, after all that */
	HANG_MS = 10000,
	SEND_MS = 2000, /* a datagram is sent by then, whoever it is for */
	WORK_US_MAX = 40000, /* before the moment comes */
	STOP_US_MAX = 20000,
};

/* What happens to the victim. */
enum fate {
	KILLED,
	STOPPED_AND_KILLED, /* after a short while */
	STOPPED_AND_CONTINUED, /* after a short while; and killed later */
	STOPPED_FOR_LONG, /* until the others have heard enough of each other */
	FATES
};

/* What the processes know of each other. */
struct board {
	_Atomic uint32_t qpn[PROCESSES];
	_Atomic uint32_t heard[PROCESSES][PROCESSES]; /* datagrams of whom, by whom */
	_Atomic uint32_t skipped; /* requests that completed after younger ones, or never */
	_Atomic bool is_over;
};

struct head {
	uint32_t sender;
	uint32_t bytes; /* of pattern, behind it */
	uint64_t seed;
};

struct end {
	struct peer peer;
	struct board *board;
	uint32_t number;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mr *out, *in;
	uint64_t random;
	uint64_t sent_ms[SENDS]; /* 0: not under way */
	uint32_t order[RECEIVES]; /* receive requests as they were posted, a ring */
	uint64_t posted, completed;
	uint32_t missing; /* that were overtaken, and are not back yet */
	bool is_missing[RECEIVES];
};

/* --- one of the three --- */

static void receive_post(struct end *end, uint32_t slot)
{
	end->order[end->posted++ % RECEIVES] = slot;
	peer_post_recv(end->qp, WR_RECEIVE + slot, end->in, (size_t)slot * SLOT_BYTES, SLOT_BYTES);
}

/* Those before it that have not completed were overtaken. */
static void receive_complete(struct end *end, uint32_t slot)
{
	if (end->is_missing[slot]) {
		end->is_missing[slot] = false;
		end->missing--;
		return;
	}
	for (; end->order[end->completed % RECEIVES] != slot; end->completed++) {
		CHECK(end->completed < end->posted, "request %u completes twice", slot);
		end->is_missing[end->order[end->completed % RECEIVES]] = true;
		end->missing++;
		atomic_fetch_add(&end->board->skipped, 1);
	}
	end->completed++;
}

static void received(struct end *end, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id - WR_RECEIVE;
	const uint8_t *datagram =
		(uint8_t *)end->in->addr + (size_t)slot * SLOT_BYTES + HEADER_BYTES;
	struct head head;

	receive_complete(end, slot);
	memcpy(&head, datagram, sizeof(head));
	CHECK(head.sender < PROCESSES && head.sender != end->number, "it is of %u", head.sender);
	CHECK(wc->src_qp == end->board->qpn[head.sender], "it is of another queue pair");
	CHECK(wc->byte_len == HEADER_BYTES + sizeof(head) + head.bytes, "%u bytes come of %u",
		wc->byte_len, head.bytes);
	peer_pattern_check(datagram + sizeof(head), head.bytes, head.seed, "received");
	atomic_fetch_add(&end->board->heard[end->number][head.sender], 1);
	receive_post(end, slot);
}

/* False when there was nothing. */
static bool poll_one(struct end *end)
{
	struct ibv_wc wc;

	if (!ibv_poll_cq(end->cq, 1, &wc))
		return false;
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	if (wc.wr_id >= WR_RECEIVE)
		received(end, &wc);
	else
		end->sent_ms[wc.wr_id] = 0;
	return true;
}

static void send_one(struct end *end, uint32_t slot)
{
	uint64_t random = peer_random(&end->random);
	uint32_t to = (end->number + 1 + (uint32_t)(random & 1)) % PROCESSES;
	struct head head = {end->number,
		(uint32_t)(random >> 8) % (DATAGRAM_BYTES - (uint32_t)sizeof(head)), random};
	size_t offset = (size_t)slot * DATAGRAM_BYTES;
	uint8_t *datagram = (uint8_t *)end->out->addr + offset;
	struct ibv_sge sge = peer_sge(end->out, offset, sizeof(head) + head.bytes);
	struct ibv_send_wr wr = {
		.wr_id = slot,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {end->ah, end->board->qpn[to], QKEY},
	};

	memcpy(datagram, &head, sizeof(head));
	peer_pattern_fill(datagram + sizeof(head), head.bytes, head.seed);
	end->sent_ms[slot] = peer_now_ms();
	peer_post_send(end->qp, &wr);
}

/* Send what may be sent; what was sent is not to take long. */
static void send_all(struct end *end)
{
	uint64_t now_ms = peer_now_ms();

	for (uint32_t i = 0; i < SENDS; i++)
		if (!end->sent_ms[i])
			send_one(end, i);
		else
			CHECK(now_ms < end->sent_ms[i] + SEND_MS, "a datagram is not sent");
}

static void to_state(struct end *end, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qkey = QKEY};

	CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | mask), "no state %d", state);
}

static void end_open(struct end *end, const struct peer_options *options)
{
	struct ibv_qp_init_attr init = {.cap = {SENDS, RECEIVES, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};

	peer_open(&end->peer, options);
	end->cq = init.send_cq = init.recv_cq = peer_cq_create(&end->peer, SENDS + RECEIVES, NULL);
	CHECK(end->qp = ibv_create_qp(end->peer.pd, &init), "no queue pair");
	end->out = peer_memory(&end->peer, (size_t)SENDS * DATAGRAM_BYTES);
	end->in = peer_memory(&end->peer, (size_t)RECEIVES * SLOT_BYTES);
	attr.grh.dgid = end->peer.gid;
	CHECK(end->ah = ibv_create_ah(end->peer.pd, &attr), "no address handle");
	to_state(end, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	for (uint32_t i = 0; i < RECEIVES; i++)
		receive_post(end, i);
	to_state(end, IBV_QPS_RTR, 0);
	to_state(end, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

/* All receive requests come back, but one that a dead process may have taken. */
static void end_close(struct end *end)
{
	struct ibv_wc wc;

	to_state(end, IBV_QPS_ERR, 0);
	while (ibv_poll_cq(end->cq, 1, &wc))
		if (wc.wr_id >= WR_RECEIVE)
			receive_complete(end, (uint32_t)wc.wr_id - WR_RECEIVE);
	CHECK(end->posted - end->completed + end->missing <= 1, "%u receive requests are lost",
		(uint32_t)(end->posted - end->completed) + end->missing);
	CHECK(!ibv_destroy_qp(end->qp) && !ibv_destroy_ah(end->ah) && !ibv_destroy_cq(end->cq),
		"something does not go");
	peer_memory_free(end->in);
	peer_memory_free(end->out);
	peer_close(&end->peer);
}

static void end_run(struct board *board, const struct peer_options *options, uint32_t number)
{
	struct end end = {.board = board, .number = number, .random = number + 1};

	end_open(&end, options);
	atomic_store(&board->qpn[number], end.qp->qp_num);
	for (uint32_t i = 0; i < PROCESSES; i++)
		while (!atomic_load(&board->qpn[i]))
			peer_sleep_ms(1);
	while (!atomic_load(&board->is_over)) {
		send_all(&end);
		while (poll_one(&end))
			;
	}
	end_close(&end);
	exit(EXIT_SUCCESS);
}

/* --- who watches them --- */

static void sleep_us(uint64_t us)
{
	const struct timespec time = {0, (long)us * 1000};

	nanosleep(&time, NULL);
}

static pid_t end_start(struct board *board, const struct peer_options *options, uint32_t number)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0, "no process");
	if (pid == 0)
		end_run(board, options, number);
	return pid;
}

/* Until this one has heard so many more of that one. */
static void wait_to_hear(struct board *board, uint32_t who, uint32_t of, uint32_t more)
{
	uint32_t before = atomic_load(&board->heard[who][of]);
	uint64_t until_ms = peer_now_ms() + HANG_MS;

	while (atomic_load(&board->heard[who][of]) - before < more) {
		CHECK(peer_now_ms() < until_ms, "%u hears nothing of %u", who, of);
		sleep_us(200);
	}
}

static void expect_success(pid_t pid, const char *who)
{
	uint64_t until_ms = peer_now_ms() + HANG_MS;
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		CHECK(peer_now_ms() < until_ms, "%s does not end", who);
		sleep_us(500);
	}
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%s ends with %x", who, status);
}

static void strike(pid_t victim, uint64_t *random, enum fate fate)
{
	if (fate != KILLED)
		kill(victim, SIGSTOP);
	if (fate == STOPPED_AND_KILLED || fate == STOPPED_AND_CONTINUED)
		sleep_us(peer_random(random) % STOP_US_MAX);
	if (fate == STOPPED_AND_CONTINUED) {
		kill(victim, SIGCONT);
		sleep_us(peer_random(random) % STOP_US_MAX);
	}
	if (fate != STOPPED_FOR_LONG) {
		kill(victim, SIGKILL);
		waitpid(victim, NULL, 0);
	}
}

/* Returns how long it took until the survivors had heard enough of each other. */
static uint64_t round_run(
	struct board *board, const struct peer_options *options, uint64_t *random, enum fate fate)
{
	uint32_t victim = (uint32_t)(peer_random(random) >> 40) % PROCESSES;
	uint32_t one = (victim + 1) % PROCESSES, other = (victim + 2) % PROCESSES;
	pid_t pid[PROCESSES];
	uint64_t struck_ms;

	*board = (struct board){.skipped = atomic_load(&board->skipped)};
	for (uint32_t i = 0; i < PROCESSES; i++)
		pid[i] = end_start(board, options, i);
	for (uint32_t i = 0; i < PROCESSES; i++)
		wait_to_hear(board, i, (i + 1) % PROCESSES, 1);
	sleep_us(peer_random(random) % WORK_US_MAX);
	strike(pid[victim], random, fate);
	struck_ms = peer_now_ms();
	wait_to_hear(board, one, other, HEARD_AFTER);
	wait_to_hear(board, other, one, HEARD_AFTER);
	struck_ms = peer_now_ms() - struck_ms;
	atomic_store(&board->is_over, true);
	/* Memory that somebody was stopped in is deregistered when he goes on. */
	if (fate == STOPPED_FOR_LONG)
		kill(pid[victim], SIGCONT);
	expect_success(pid[one], "a survivor");
	expect_success(pid[other], "a survivor");
	if (fate == STOPPED_FOR_LONG)
		expect_success(pid[victim], "who was stopped");
	return struck_ms;
}

int main(int argc, char **argv)
{
	struct peer_options options;
	uint64_t random, took_ms, sum_ms = 0, most_ms = 0;
	struct board *board = mmap(
		NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t rounds;

	peer_parse(&options, argc, argv);
	random = options.what ? strtoull(options.what, NULL, 0) : 1;
	rounds = options.count ? options.count : 20;
	for (uint32_t i = 0; i < rounds; i++) {
		took_ms = round_run(board, &options, &random, (enum fate)(i % FATES));
		sum_ms += took_ms;
		most_ms = took_ms > most_ms ? took_ms : most_ms;
	}
	printf("%u rounds of datagrams: went on after %" PRIu64 " ms on average, %" PRIu64
	       " at most; %u requests were overtaken\n",
		rounds, sum_ms / rounds, most_ms, atomic_load(&board->skipped));
	CHECK(atomic_load(&board->skipped) <= rounds * OVERTAKEN_MAX,
		"requests complete out of their order");
	return EXIT_SUCCESS;
}

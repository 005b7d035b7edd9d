/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three processes of one host send each other unacknowledged messages, and one of them is killed or
 * stopped at a random moment. This repeats for COUNT rounds from the seed that -w names. The rounds
 * alternate between datagrams and unreliable connections, and the latter between receive queues of
 * their own and shared ones. The other two processes check every byte of every completion, go on
 * sending to all, and must receive from each other. At the end each receive queue has flushed every
 * request. One request may be missing if other processes take from the queue: the one that the dead
 * process had taken.
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
	RECEIVES = 64, /* of a queue */
	WINDOWS = 16, /* for WRITEs of one process at another one */
	HEADER_BYTES = 40, /* before a datagram */
	DATAGRAM_BYTES = 2048,
	MESSAGE_BYTES = 20000, /* over connections */
	SLOT_BYTES = HEADER_BYTES + MESSAGE_BYTES,
	WR_RECEIVE = 1 << 20, /* added to a receive request's number */
	QKEY = 0x1234,
	OVERTAKEN_MAX = 8, /* in a round: mostly who is stopped or killed has one of each other's */
	HEARD_AFTER = 50, /* messages from the other survivor, after the death */
	HANG_MS = 60000,
	SEND_MS = 30000, /* limit for sending a message to any process */
	WORK_US_MAX = 40000, /* before the victim is stopped or killed */
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

/* What they send by. */
enum kind { DATAGRAMS, CONNECTIONS, CONNECTIONS_SHARED, KINDS };

/* What the processes know of each other. */
struct board {
	enum kind kind;
	enum ibv_mtu mtu;
	struct peer_buffer windows[PROCESSES];
	_Atomic uint32_t qpn[PROCESSES][PROCESSES]; /* whose, for whom */
	_Atomic uint32_t is_ready[PROCESSES];
	_Atomic uint32_t heard[PROCESSES][PROCESSES]; /* by whom, messages of whom */
	_Atomic uint32_t
		seen[PROCESSES]
		    [PROCESSES]; /* by whom, of whom: all before this number, or they are lost */
	_Atomic uint32_t skipped; /* requests that completed after younger ones, or never */
	_Atomic bool is_over;
};

struct head {
	uint32_t sender;
	uint32_t number; /* of those to this receiver */
	uint32_t bytes; /* of pattern, behind it */
	uint32_t reserved;
	uint64_t seed;
};

struct queue {
	uint32_t number;
	struct ibv_qp *qp; /* one that receives from it */
	uint32_t order[RECEIVES]; /* receive requests as they were posted, a ring */
	uint64_t posted, completed;
	uint32_t missing; /* that were overtaken, and are not back yet */
	bool is_missing[RECEIVES];
};

struct end {
	struct peer peer;
	struct board *board;
	uint32_t number;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t srq_depth;
	struct ibv_qp *qp[PROCESSES]; /* for whom; datagrams have one for all */
	struct ibv_qp *all[PROCESSES];
	uint32_t count; /* of them */
	struct ibv_ah *ah;
	struct ibv_mr *out, *in, *windows;
	struct queue queues[PROCESSES];
	uint32_t queue_count;
	uint32_t sent[PROCESSES]; /* to whom */
	uint64_t random;
	uint64_t sent_ms[SENDS]; /* 0: not under way */
};

static bool has_connections(const struct end *end)
{
	return end->board->kind != DATAGRAMS;
}

/* --- one of the three: receiving --- */

static void receive_post(struct end *end, struct queue *queue, uint32_t slot)
{
	uint32_t number = queue->number * RECEIVES + slot;

	queue->order[queue->posted++ % RECEIVES] = slot;
	peer_post_recv(
		queue->qp, WR_RECEIVE + number, end->in, (size_t)number * SLOT_BYTES, SLOT_BYTES);
}

/* Those before it that have not completed were overtaken. */
static void receive_complete(struct end *end, struct queue *queue, uint32_t slot)
{
	if (queue->is_missing[slot]) {
		queue->is_missing[slot] = false;
		queue->missing--;
		return;
	}
	for (; queue->order[queue->completed % RECEIVES] != slot; queue->completed++) {
		CHECK(queue->completed < queue->posted, "request %u completes twice", slot);
		queue->is_missing[queue->order[queue->completed % RECEIVES]] = true;
		queue->missing++;
		if (end->board->kind != CONNECTIONS_SHARED)
			atomic_fetch_add(&end->board->skipped, 1);
	}
	queue->completed++;
}

/* Where the message lies that this is about. */
static const uint8_t *message_of(const struct end *end, const struct ibv_wc *wc)
{
	size_t slot = wc->wr_id - WR_RECEIVE;

	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return (uint8_t *)end->windows->addr + (size_t)wc->imm_data * SLOT_BYTES;
	return (uint8_t *)end->in->addr + slot * SLOT_BYTES +
		(has_connections(end) ? 0 : HEADER_BYTES);
}

static void message_check(struct end *end, const struct ibv_wc *wc)
{
	const uint8_t *message = message_of(end, wc);
	struct board *board = end->board;
	_Atomic uint32_t *seen;
	struct head head;

	memcpy(&head, message, sizeof(head));
	CHECK(head.sender < PROCESSES && head.sender != end->number, "it is of %u", head.sender);
	seen = &board->seen[end->number][head.sender];
	if (has_connections(end))
		CHECK(end->qp[head.sender]->qp_num == wc->qp_num &&
				head.number >= atomic_load(seen),
			"%u of %u comes again, or by another queue pair", head.number, head.sender);
	else
		CHECK(wc->src_qp == board->qpn[head.sender][end->number],
			"it is of another queue pair");
	CHECK(wc->byte_len == (has_connections(end) ? 0 : HEADER_BYTES) + sizeof(head) + head.bytes,
		"%u bytes come of %u", wc->byte_len, head.bytes);
	peer_pattern_check(message + sizeof(head), head.bytes, head.seed, "received");
	atomic_store(seen, head.number + 1);
	atomic_fetch_add(&board->heard[end->number][head.sender], 1);
}

static void received(struct end *end, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)wc->wr_id - WR_RECEIVE;
	struct queue *queue = &end->queues[number / RECEIVES];

	receive_complete(end, queue, number % RECEIVES);
	message_check(end, wc);
	receive_post(end, queue, number % RECEIVES);
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

/* --- sending --- */

/* Into a window of the receiver's that has nothing in it any more, or into a receive buffer. */
static void choose(struct end *end, uint32_t to, uint64_t random, struct ibv_send_wr *wr)
{
	const struct peer_buffer *buffer = &end->board->windows[to];
	uint32_t number = end->sent[to], window = end->number * WINDOWS + number % WINDOWS;

	wr->opcode = IBV_WR_SEND;
	if (!has_connections(end)) {
		wr->wr.ud.ah = end->ah;
		wr->wr.ud.remote_qpn = end->board->qpn[to][end->number];
		wr->wr.ud.remote_qkey = QKEY;
	} else if (random >> 1 & 1 &&
		number - atomic_load(&end->board->seen[to][end->number]) < WINDOWS) {
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->imm_data = window;
		wr->wr.rdma.remote_addr = buffer->address + (uint64_t)window * SLOT_BYTES;
		wr->wr.rdma.rkey = buffer->rkey;
	}
}

static void send_one(struct end *end, uint32_t slot)
{
	uint64_t random = peer_random(&end->random);
	uint32_t to = (end->number + 1 + (uint32_t)(random & 1)) % PROCESSES;
	uint32_t bytes_max = has_connections(end) ? MESSAGE_BYTES : DATAGRAM_BYTES;
	struct head head = {
		.sender = end->number,
		.number = end->sent[to],
		.bytes = (uint32_t)(random >> 8) % (bytes_max - (uint32_t)sizeof(head)),
		.seed = random,
	};
	size_t offset = (size_t)slot * MESSAGE_BYTES;
	uint8_t *message = (uint8_t *)end->out->addr + offset;
	struct ibv_sge sge = peer_sge(end->out, offset, sizeof(head) + head.bytes);
	struct ibv_send_wr wr = {
		.wr_id = slot,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	memcpy(message, &head, sizeof(head));
	peer_pattern_fill(message + sizeof(head), head.bytes, head.seed);
	choose(end, to, random, &wr);
	end->sent[to]++;
	end->sent_ms[slot] = peer_now_ms();
	peer_post_send(end->qp[to], &wr);
}

/* Send what may be sent; what was sent is not to take long. */
static void send_all(struct end *end)
{
	uint64_t now_ms = peer_now_ms();

	for (uint32_t i = 0; i < SENDS; i++)
		if (!end->sent_ms[i])
			send_one(end, i);
		else
			CHECK(now_ms < end->sent_ms[i] + SEND_MS, "a message is not sent");
}

/* --- coming and going --- */

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	CHECK(!ibv_modify_qp(qp, attr, IBV_QP_STATE | mask), "no state %d", attr->qp_state);
}

static void to_init(const struct end *end, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = (unsigned)peer_link_full.access,
	};

	modify(qp, &attr,
		IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(has_connections(end) ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY));
}

/* The number of a queue pair is as good a start as any. */
static void to_ready(const struct end *end, struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64},
		.path_mtu = end->board->mtu,
		.dest_qp_num = dest_qpn,
		.rq_psn = dest_qpn,
		.sq_psn = qp->qp_num,
	};

	attr.ah_attr.grh.dgid = end->peer.gid;
	modify(qp, &attr,
		has_connections(end) ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
				     : 0);
	attr.qp_state = IBV_QPS_RTS;
	modify(qp, &attr, IBV_QP_SQ_PSN);
}

static void queue_pairs_open(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.srq = end->srq,
		.cap = {SENDS, RECEIVES, 1, 1, 0},
		.qp_type = has_connections(end) ? IBV_QPT_UC : IBV_QPT_UD,
	};
	struct queue *queue = NULL;

	for (uint32_t i = 0; i < PROCESSES; i++) {
		if (i == end->number)
			continue;
		if (has_connections(end) || !end->all[0]) {
			CHECK(end->qp[i] = ibv_create_qp(end->peer.pd, &init), "no queue pair");
			end->all[end->count++] = end->qp[i];
			to_init(end, end->qp[i]);
		}
		end->qp[i] = end->all[end->count - 1];
		end->board->qpn[end->number][i] = end->qp[i]->qp_num;
		if (queue && end->board->kind != CONNECTIONS)
			continue;
		queue = &end->queues[end->queue_count];
		*queue = (struct queue){.number = end->queue_count++, .qp = end->qp[i]};
		for (uint32_t slot = 0; slot < RECEIVES; slot++)
			receive_post(end, queue, slot);
	}
}

static void connect(struct end *end)
{
	for (uint32_t i = 0, done = 0; i < PROCESSES; i++)
		if (done < end->count && end->qp[i] == end->all[done]) {
			to_ready(end, end->qp[i], end->board->qpn[i][end->number]);
			done++;
		}
}

static void end_open(struct end *end, const struct peer_options *options)
{
	struct ibv_srq_init_attr shared = {.attr = {RECEIVES, 1, 0}};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};

	peer_open(&end->peer, options);
	end->board->mtu = end->peer.port.active_mtu;
	end->cq = peer_cq_create(&end->peer, 2 * SENDS + PROCESSES * RECEIVES, NULL);
	end->out = peer_memory(&end->peer, (size_t)SENDS * MESSAGE_BYTES);
	end->in = peer_memory(&end->peer, (size_t)PROCESSES * RECEIVES * SLOT_BYTES);
	end->windows = peer_memory(&end->peer, (size_t)PROCESSES * WINDOWS * SLOT_BYTES);
	end->board->windows[end->number] = peer_buffer_of(end->windows);
	attr.grh.dgid = end->peer.gid;
	CHECK(end->ah = ibv_create_ah(end->peer.pd, &attr), "no address handle");
	if (end->board->kind == CONNECTIONS_SHARED)
		CHECK(end->srq = ibv_create_srq(end->peer.pd, &shared), "no shared queue");
	end->srq_depth = shared.attr.max_wr;
	queue_pairs_open(end);
}

/* Receive requests that lie in the shared queue: it takes as many as are missing to its depth. */
static uint32_t shared_count(const struct end *end)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 0};
	uint32_t count = end->srq ? end->srq_depth : 0;

	while (count && !ibv_post_srq_recv(end->srq, &wr, &bad))
		count--;
	return count;
}

/* All receive requests come back, but one that a dead process may have taken. */
static void queues_check(const struct end *end)
{
	uint32_t lost_max = end->board->kind != CONNECTIONS;
	uint32_t shared = shared_count(end);

	for (uint32_t i = 0; i < end->queue_count; i++) {
		const struct queue *queue = &end->queues[i];
		uint64_t count = queue->posted - queue->completed + queue->missing;

		CHECK(count - shared <= lost_max,
			"%" PRIu64 " receive requests are missing, %u are there", count, shared);
	}
}

static void end_close(struct end *end)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	for (uint32_t i = 0; i < end->count; i++)
		modify(end->all[i], &attr, 0);
	while (ibv_poll_cq(end->cq, 1, &wc))
		if (wc.wr_id >= WR_RECEIVE) {
			uint32_t number = (uint32_t)wc.wr_id - WR_RECEIVE;

			receive_complete(end, &end->queues[number / RECEIVES], number % RECEIVES);
		}
	queues_check(end);
	for (uint32_t i = 0; i < end->count; i++)
		CHECK(!ibv_destroy_qp(end->all[i]), "a queue pair stays");
	CHECK(!end->srq || !ibv_destroy_srq(end->srq), "the shared queue stays");
	CHECK(!ibv_destroy_ah(end->ah) && !ibv_destroy_cq(end->cq), "something does not go");
	peer_memory_free(end->in);
	peer_memory_free(end->windows);
	peer_memory_free(end->out);
	peer_close(&end->peer);
}

static void await_all(_Atomic uint32_t *is_ready, uint32_t number)
{
	atomic_fetch_add(&is_ready[number], 1);
	for (uint32_t i = 0; i < PROCESSES; i++)
		while (atomic_load(&is_ready[i]) < atomic_load(&is_ready[number]))
			peer_sleep_ms(1);
}

static void end_run(struct board *board, const struct peer_options *options, uint32_t number)
{
	struct end end = {.board = board, .number = number, .random = number + 1};

	end_open(&end, options);
	await_all(board->is_ready, number);
	connect(&end);
	await_all(board->is_ready, number);
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
static uint64_t round_run(struct board *board, const struct peer_options *options, uint64_t *random,
	enum kind kind, enum fate fate)
{
	uint32_t victim = (uint32_t)(peer_random(random) >> 40) % PROCESSES;
	uint32_t one = (victim + 1) % PROCESSES, other = (victim + 2) % PROCESSES;
	pid_t pid[PROCESSES];
	uint64_t struck_ms;

	*board = (struct board){.kind = kind, .skipped = atomic_load(&board->skipped)};
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
	/* Memory in which a process was stopped is deregistered when it continues. */
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
	uint32_t rounds, first;

	peer_parse(&options, argc, argv);
	random = options.what ? strtoull(options.what, NULL, 0) : 1;
	rounds = options.count ? options.count : 20;
	first = (uint32_t)(peer_random(&random) >> 40) %
		(KINDS * FATES); /* if not all get their turn */
	for (uint32_t i = first; i < first + rounds; i++) {
		took_ms = round_run(board, &options, &random, (enum kind)(i % KINDS),
			(enum fate)(i / KINDS % FATES));
		sum_ms += took_ms;
		most_ms = took_ms > most_ms ? took_ms : most_ms;
	}
	printf("%u rounds of what nobody acknowledges: went on after %" PRIu64
	       " ms on average, %" PRIu64 " at most; %u requests were overtaken\n",
		rounds, sum_ms / rounds, most_ms, atomic_load(&board->skipped));
	CHECK(atomic_load(&board->skipped) <= rounds * OVERTAKEN_MAX,
		"requests complete out of their order");
	return EXIT_SUCCESS;
}

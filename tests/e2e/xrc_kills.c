/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three processes: a sender, the target, which has the queue pair that the sender sends to, and the
 * owner of the shared receive queue that the messages name. One of them is killed or stopped at a
 * random moment. This repeats for COUNT rounds from the seed that -w names. The owner checks that
 * every message is whole, and that none is missing or arrives twice. The sender gets an error or
 * event in the time that its settings promise, and each survivor can destroy all of its objects.
 * The program prints how long it took the sender to notice.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "xrc_halves.h"

enum {
	MESSAGE_BYTES = 16384, /* at most: a number, and a pattern of that */
	SENDER_DEPTH = 4,
	HOST_DEPTH = 32,
	TIMEOUT = 12, /* 16.8 ms, */
	RETRIES = 3, /* four times */
	PROMISE_MS = 68,
	MARGIN_MS = 1500, /* all share the processors with other programs */
	HANG_MS = 60000,
	WORK_US_MAX = 40000, /* before the moment comes */
	STOP_US_MAX = 20000,
};

#define LATE_MAX(rounds) (1 + (rounds) / 16)

enum role { SENDER, TARGET, HOST, ROLES };
enum fate { KILLED, STOPPED_AND_KILLED, STOPPED_AND_CONTINUED, FATES };

static const char *const names[ROLES] = {"sender", "target", "host"};

/* What they tell each other, and the test. */
struct board {
	union ibv_gid gid;
	enum ibv_mtu mtu;
	_Atomic uint32_t number[ROLES]; /* of queue pairs and queue */
	_Atomic uint32_t is_connected;
	_Atomic uint64_t received;
	_Atomic uint32_t status; /* of the sender's request that failed */
	_Atomic uint64_t failed_ms;
	_Atomic bool is_over; /* everybody gives back what he has */
};

static struct board *board;
static int domain_file;

static uint32_t bytes_of(uint64_t number)
{
	uint64_t random = number;

	return (uint32_t)(sizeof(number) + peer_random(&random) % (MESSAGE_BYTES - 8));
}

static uint32_t await(_Atomic uint32_t *number)
{
	uint64_t until_ms = peer_now_ms() + HANG_MS;

	while (!atomic_load(number)) {
		CHECK(peer_now_ms() < until_ms, "nobody comes");
		peer_sleep_ms(1);
	}
	return atomic_load(number);
}

static struct xrc_link link_to(uint32_t qpn)
{
	return (struct xrc_link){
		.gid = board->gid,
		.mtu = board->mtu,
		.dest_qpn = qpn,
		.rq_psn = 77,
		.sq_psn = 77,
		.rd_atomic = 4,
	};
}

/* --- the three --- */

static void sender_post(struct ibv_qp *qp, const struct ibv_mr *mr, uint64_t number)
{
	size_t offset = number % SENDER_DEPTH * MESSAGE_BYTES;
	uint8_t *bytes = (uint8_t *)mr->addr + offset;
	struct ibv_sge sge = peer_sge(mr, offset, bytes_of(number));
	struct ibv_send_wr wr = {
		.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = atomic_load(&board->number[HOST]),
	};

	memcpy(bytes, &number, sizeof(number));
	peer_pattern_fill(bytes + sizeof(number), sge.length - sizeof(number), number);
	peer_post_send(qp, &wr);
}

static void sender_run(struct peer *peer)
{
	const struct ibv_qp_cap cap = {.max_send_wr = SENDER_DEPTH, .max_send_sge = 1};
	struct ibv_cq *cq = peer_cq_create(peer, SENDER_DEPTH, NULL);
	struct ibv_mr *mr = peer_memory(peer, SENDER_DEPTH * MESSAGE_BYTES);
	struct ibv_qp *qp = xrc_sender(peer, cq, cap, false);
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	uint64_t posted = 0, done = 0;
	struct xrc_link link;

	atomic_store(&board->number[SENDER], qp->qp_num);
	link = link_to(await(&board->number[TARGET]));
	await(&board->number[HOST]);
	await(&board->is_connected);
	xrc_sender_connect(peer, qp, &link);
	while (!atomic_load(&board->is_over) && wc.status == IBV_WC_SUCCESS) {
		if (posted - done < SENDER_DEPTH)
			sender_post(qp, mr, posted++);
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			CHECK(wc.wr_id == done++, "request %" PRIu64 " completes", wc.wr_id);
	}
	if (wc.status != IBV_WC_SUCCESS) {
		atomic_store(&board->failed_ms, peer_now_ms());
		atomic_store(&board->status, wc.status);
	}
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "the sender's objects stay");
	peer_memory_free(mr);
}

static void target_run(struct peer *peer, struct ibv_xrcd *domain)
{
	struct ibv_qp *qp = xrc_receiver(peer, domain);
	struct xrc_link link;

	atomic_store(&board->number[TARGET], qp->qp_num);
	link = link_to(await(&board->number[SENDER]));
	xrc_receiver_connect(peer, qp, &link);
	atomic_store(&board->is_connected, 1);
	while (!atomic_load(&board->is_over))
		peer_sleep_ms(1);
	CHECK(!ibv_destroy_qp(qp), "the target's queue pair stays");
}

static void host_post(struct ibv_srq *srq, const struct ibv_mr *mr, uint64_t index)
{
	struct ibv_sge sge = peer_sge(mr, index * MESSAGE_BYTES, MESSAGE_BYTES);
	struct ibv_recv_wr *bad, wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad), "a receive request is refused");
}

/* The queue pair may have failed in the middle of a message. */
static void host_check(const struct ibv_mr *mr, const struct ibv_wc *wc)
{
	const uint8_t *bytes = (const uint8_t *)mr->addr + wc->wr_id * MESSAGE_BYTES;
	uint64_t number, expected = atomic_load(&board->received);

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	CHECK(wc->status == IBV_WC_SUCCESS, "a message comes with %s",
		ibv_wc_status_str(wc->status));
	CHECK(wc->qp_num == atomic_load(&board->number[TARGET]), "by another queue pair");
	memcpy(&number, bytes, sizeof(number));
	CHECK(number == expected, "message %" PRIu64 " comes, and not %" PRIu64, number, expected);
	CHECK(wc->byte_len == bytes_of(number), "message %" PRIu64 " has %u bytes", number,
		wc->byte_len);
	peer_pattern_check(
		bytes + sizeof(number), wc->byte_len - sizeof(number), number, "a message");
	atomic_store(&board->received, number + 1);
}

static void host_run(struct peer *peer, struct ibv_xrcd *domain)
{
	struct ibv_cq *cq = peer_cq_create(peer, 2 * HOST_DEPTH, NULL);
	struct ibv_mr *mr = peer_memory(peer, HOST_DEPTH * MESSAGE_BYTES);
	struct ibv_srq *srq = xrc_queue(peer, domain, cq, (struct ibv_srq_attr){HOST_DEPTH, 1, 0});
	struct ibv_wc wc;

	for (uint64_t i = 0; i < HOST_DEPTH; i++)
		host_post(srq, mr, i);
	atomic_store(&board->number[HOST], xrc_queue_number(srq));
	while (!atomic_load(&board->is_over))
		while (ibv_poll_cq(cq, 1, &wc) == 1) {
			host_check(mr, &wc);
			host_post(srq, mr, wc.wr_id);
		}
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_cq(cq), "the host's objects stay");
	peer_memory_free(mr);
}

_Noreturn static void child_run(const struct peer_options *options, enum role role)
{
	struct ibv_xrcd *domain;
	struct peer peer;

	peer_open(&peer, options);
	board->gid = peer.gid;
	board->mtu = peer.port.active_mtu;
	domain = xrc_domain(&peer, domain_file);
	if (role == SENDER)
		sender_run(&peer);
	else if (role == TARGET)
		target_run(&peer, domain);
	else
		host_run(&peer, domain);
	CHECK(!ibv_close_xrcd(domain) && !ibv_dealloc_pd(peer.pd), "the %s's domains stay",
		names[role]);
	CHECK(!ibv_close_device(peer.context), "the %s's device stays", names[role]);
	exit(EXIT_SUCCESS);
}

/* --- the test --- */

static void sleep_us(uint64_t us)
{
	const struct timespec time = {0, (long)us * 1000};

	nanosleep(&time, NULL);
}

/* Until a message has come. */
static void work_await(const pid_t pids[ROLES])
{
	uint64_t until_ms = peer_now_ms() + HANG_MS;

	while (!atomic_load(&board->received)) {
		CHECK(peer_now_ms() < until_ms, "no message comes");
		for (int i = 0; i < ROLES; i++)
			CHECK(!waitpid(pids[i], NULL, WNOHANG), "the %s ends at once", names[i]);
		sleep_us(500);
	}
}

static void victim_end(pid_t pid, enum fate fate, uint64_t *random)
{
	int status;

	if (fate != KILLED) {
		kill(pid, SIGSTOP);
		sleep_us(peer_random(random) % STOP_US_MAX);
	}
	if (fate == STOPPED_AND_CONTINUED) {
		kill(pid, SIGCONT);
		sleep_us(peer_random(random) % STOP_US_MAX);
	}
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid, "the victim is gone");
	/* A sender that was stopped for longer than its retries last has given up by itself. */
	CHECK(WIFSIGNALED(status) ||
			(fate == STOPPED_AND_CONTINUED && status == 0 &&
				atomic_load(&board->status) == IBV_WC_RETRY_EXC_ERR),
		"the victim has ended before: %d", status);
}

static bool is_expected(uint32_t status, enum role victim)
{
	if (status == IBV_WC_RETRY_EXC_ERR) /* stopped for too long */
		return true;
	return victim == HOST && (status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
}

/* Returns how long the sender took to hear of it. */
static uint64_t sender_hears(enum role victim, uint64_t killed_ms)
{
	uint64_t until_ms = peer_now_ms() + HANG_MS, took_ms;

	while (!atomic_load(&board->status)) {
		CHECK(peer_now_ms() < until_ms, "the sender hangs when the %s has died",
			names[victim]);
		sleep_us(500);
	}
	CHECK(is_expected(atomic_load(&board->status), victim),
		"the sender hears %u when the %s has died", atomic_load(&board->status),
		names[victim]);
	took_ms = atomic_load(&board->failed_ms);
	took_ms = took_ms > killed_ms ? took_ms - killed_ms : 0;
	return took_ms;
}

/* Everybody who lives gives back what he has, and has seen nothing wrong. */
static void others_end(const pid_t pids[ROLES], enum role victim)
{
	uint64_t until_ms = peer_now_ms() + HANG_MS;
	int status;

	atomic_store(&board->is_over, true);
	for (int i = 0; i < ROLES; i++) {
		if (i == (int)victim)
			continue;
		while (!waitpid(pids[i], &status, WNOHANG)) {
			CHECK(peer_now_ms() < until_ms, "the %s hangs when the %s has died",
				names[i], names[victim]);
			sleep_us(500);
		}
		CHECK(status == 0, "the %s ends with %d when the %s has died", names[i], status,
			names[victim]);
	}
}

static uint64_t round_run(const struct peer_options *options, uint64_t *random, enum fate fate)
{
	enum role victim = (enum role)(peer_random(random) % ROLES);
	uint64_t took_ms = 0, killed_ms;
	pid_t pids[ROLES];

	memset(board, 0, sizeof(*board));
	fflush(stdout);
	for (int i = 0; i < ROLES; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0, "no process");
		if (!pids[i])
			child_run(options, (enum role)i);
	}
	work_await(pids);
	sleep_us(peer_random(random) % WORK_US_MAX);
	victim_end(pids[victim], fate, random);
	killed_ms = peer_now_ms();
	if (victim != SENDER)
		took_ms = sender_hears(victim, killed_ms);
	others_end(pids, victim);
	return took_ms;
}

int main(int argc, char **argv)
{
	struct peer_options options;
	uint64_t random, took_ms, sum_ms = 0, most_ms = 0;
	uint32_t rounds, late = 0;

	peer_parse(&options, argc, argv);
	options.timeout = TIMEOUT;
	options.retry_cnt = RETRIES;
	options.rnr_retry = 7;
	random = options.what ? strtoull(options.what, NULL, 0) : 1;
	rounds = options.count ? options.count : 20;
	domain_file = memfd_create("domain", MFD_CLOEXEC);
	board = mmap(
		NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(domain_file >= 0 && board != MAP_FAILED, "no memory");
	for (uint32_t i = 0; i < rounds; i++) {
		took_ms = round_run(&options, &random, (enum fate)(i % FATES));
		sum_ms += took_ms;
		late += took_ms > PROMISE_MS + MARGIN_MS;
		most_ms = took_ms > most_ms ? took_ms : most_ms;
	}
	printf("%u rounds: heard of after %" PRIu64 " ms on average, %" PRIu64 " at most\n", rounds,
		sum_ms / rounds, most_ms);
	/* On a busy machine one may be late by itself. */
	CHECK(late <= LATE_MAX(rounds), "%u of %u are late", late, rounds);
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer on the same host is stopped in the middle of a copy, and goes on later.
 *
 *   stand_still [OPTIONS] -w write|read|fork [-n ROUNDS] [SERVER]
 *
 * The client WRITEs to, or READs from, memory of the server's without a pause. The server stops the
 * client at a random moment, mostly in the middle of a copy. Then it deregisters the memory and
 * fills it anew (write, read), or forks (fork), and lets the client go on. What is checked:
 * deregistering and forking return in time; a WRITE changes nothing of deregistered memory; a READ
 * that succeeds has the bytes of the region; after a fork the client's requests succeed, and
 * arrive.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/peer.h"

enum {
	ROUNDS = 12,
	BYTES = 32 << 20,
	PAGE = 4096,
	STOP_AFTER_MS_MAX = 12,
	WAIT_MS = 20, /* deregistering or forking that takes longer, has waited for the client */
	/* 10 ms are promised, and 100; moving memory back, and a busy machine, come on top */
	FORK_MS_MAX = 2000,
	DEREGISTER_MS_MAX = 3000,
	HANG_S = 30,
	REGION_BYTE = 0x5a,
	LATER_BYTE = 0x33,
	WRITTEN_BYTE = 0x77,
	LAST_BYTE = 0x11,
};

static bool is_write, is_fork;
static bool is_copying; /* nothing is moved, and a fork waits for nobody */
static pid_t theirs;

/* A client that stays stopped would keep the test from ending. */
static void let_go(void)
{
	kill(theirs, SIGCONT);
}

static bool has_only(const uint8_t *bytes, size_t count, uint8_t value)
{
	return bytes[0] == value && !memcmp(bytes, bytes + 1, count - 1);
}

static void transfer(struct ibv_qp *qp, struct ibv_mr *mr, const struct peer_buffer *remote)
{
	struct ibv_sge sge = peer_sge(mr, 0, BYTES);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = is_write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {remote->address, remote->rkey},
	};

	peer_post_send(qp, &wr);
}

/* --- the client, which is stopped --- */

/* Transfers until the region is gone, or the server has forked. */
static void client_round(struct peer *peer, struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct peer_buffer remote;
	struct ibv_wc wc;
	char go = 1;

	peer_hear(peer, &remote, sizeof(remote));
	memset(mr->addr, WRITTEN_BYTE, BYTES);
	peer_tell(peer, &go, 1);
	for (;;) {
		bool is_last = is_fork && peer_has_told(peer);

		if (is_last)
			memset(mr->addr, LAST_BYTE, BYTES);
		transfer(qp, mr, &remote);
		wc = peer_completion(cq);
		CHECK(!is_fork || wc.status == IBV_WC_SUCCESS, "after a fork: %s",
			ibv_wc_status_str(wc.status));
		if (wc.status != IBV_WC_SUCCESS || is_last)
			break;
		if (!is_write)
			CHECK(has_only(mr->addr, BYTES, REGION_BYTE),
				"a READ succeeded without the region's bytes");
	}
	CHECK(is_fork || wc.status == IBV_WC_REM_ACCESS_ERR, "%s", ibv_wc_status_str(wc.status));
	if (is_fork)
		peer_hear(peer, &go, 1);
	peer_tell(peer, &go, 1);
}

/* --- the server, whose memory it is --- */

static void await_stopped(pid_t pid)
{
	char name[64], text[256], state = '?';

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	for (int i = 0; i < 1000 && state != 'T'; i++) {
		FILE *file = fopen(name, "re");

		CHECK(file && fgets(text, sizeof(text), file), "no %s", name);
		fclose(file);
		state = strrchr(text, ')')[2];
		peer_sleep_ms(state != 'T');
	}
	CHECK(state == 'T', "the client is not stopped");
}

static uint64_t fork_ms(void)
{
	uint64_t since_ms = peer_now_ms();
	pid_t child = fork();

	if (!child)
		_exit(0);
	since_ms = peer_now_ms() - since_ms;
	CHECK(child > 0 && waitpid(child, NULL, 0) == child, "no child");
	CHECK(since_ms <= FORK_MS_MAX, "a fork took %u ms", (unsigned)since_ms);
	return since_ms;
}

static uint64_t deregister_ms(struct ibv_mr *mr)
{
	uint64_t since_ms = peer_now_ms();

	CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	since_ms = peer_now_ms() - since_ms;
	CHECK(since_ms <= DEREGISTER_MS_MAX, "ibv_dereg_mr took %u ms", (unsigned)since_ms);
	return since_ms;
}

/* Returns how long it took. */
static uint64_t server_round(struct peer *peer, pid_t client, uint64_t *random)
{
	uint8_t *memory =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct peer_buffer buffer;
	struct ibv_mr *mr;
	uint64_t ms;
	char go = 1;

	CHECK(memory != MAP_FAILED, "memory");
	memset(memory, REGION_BYTE, BYTES);
	mr = ibv_reg_mr(peer->pd, memory, BYTES, peer_link_full.access);
	CHECK(mr, "a region");
	buffer = peer_buffer_of(mr);
	peer_tell(peer, &buffer, sizeof(buffer));
	peer_hear(peer, &go, 1);
	peer_sleep_ms(4 + (unsigned)(peer_random(random) % STOP_AFTER_MS_MAX));
	CHECK(!kill(client, SIGSTOP), "SIGSTOP: %s", strerror(errno));
	await_stopped(client);
	if (is_fork) {
		ms = fork_ms();
	} else {
		ms = deregister_ms(mr);
		memset(memory, LATER_BYTE, BYTES);
	}
	CHECK(!kill(client, SIGCONT), "SIGCONT");
	if (is_fork)
		peer_tell(peer, &go, 1);
	peer_hear(peer, &go, 1);
	CHECK(has_only(memory, BYTES, is_fork ? LAST_BYTE : LATER_BYTE),
		is_fork ? "a WRITE after a fork is not there" : "a late WRITE is in freed memory");
	if (is_fork)
		CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	munmap(memory, BYTES);
	return ms;
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer peer;
	struct ibv_mr *mr = NULL;
	const char *registration = getenv("URNIC_MR");
	pid_t own = getpid();
	uint64_t random = 1;
	unsigned waited = 0, most_ms = 0;
	bool is_server;

	peer_parse(&options, argc, argv);
	CHECK(options.what, "-w says what");
	is_fork = !strcmp(options.what, "fork");
	is_write = is_fork || !strcmp(options.what, "write");
	is_copying = registration && !strcmp(registration, "copy");
	peer_open(&peer, &options);
	is_server = peer_is_server(&peer);
	peer_meet(&peer);
	peer_exchange(&peer, &own, &theirs, sizeof(own));
	if (is_server)
		atexit(let_go);
	else
		mr = peer_memory(&peer, BYTES);
	uint32_t rounds = options.count ? options.count : ROUNDS;
	for (uint32_t i = 0; i < rounds; i++) {
		struct ibv_cq *cq = peer_cq_create(&peer, 16, NULL);
		struct ibv_qp *qp = peer_qp_create(&peer, cq, 8, 1, 0);

		alarm(HANG_S);
		peer_qp_connect(&peer, qp, &peer_link_full);
		if (is_server) {
			unsigned ms = (unsigned)server_round(&peer, theirs, &random);

			waited += ms > WAIT_MS || (is_fork && ms >= 5);
			most_ms = ms > most_ms ? ms : most_ms;
		} else {
			client_round(&peer, qp, cq, mr);
		}
		peer_barrier(&peer);
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "queues");
	}
	if (is_server) {
		printf("%s: %u of %u rounds met a client in the middle of a copy, %u ms at most\n",
			options.what, waited, rounds, most_ms);
		CHECK(waited || (is_fork && is_copying),
			"no round met a client in the middle of a copy");
	}
	return 0;
}

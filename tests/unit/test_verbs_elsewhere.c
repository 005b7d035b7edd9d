/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer in another network namespace, which needs no packets. It dies, and another process gets
 * its slot and has invalid NIC memory; urnic trusts none of that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/namespace_lookup.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum { TIMEOUT_17_MS = 12, BYTES = 4096, ATTEMPTS = 1000, PAUSE_US = 10000 };

static const union ibv_gid address_there = {.raw = {[10] = 0xff, [11] = 0xff, 10, 99, 0, 2}};
static const union ibv_gid address_here = {.raw = {[10] = 0xff, [11] = 0xff, 10, 99, 0, 1}};

static int here, there; /* network namespaces */
static struct ibv_context *context;

/* --- processes there ------------------------------------------------------------------------ */

struct process {
	pid_t pid;
	int socket;
};

/* What the peer reports before the test tells it the queue pair to connect to. */
struct hello {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t address;
};

static struct process process_start(void (*run)(int socket, void *context), void *argument)
{
	struct process process;
	int sockets[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	process.pid = fork();
	MUST(process.pid >= 0);
	if (process.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		netns_switch(there);
		run(sockets[1], argument);
		MUST(write(sockets[1], "", 1) == 1);
		pause();
		_exit(EXIT_FAILURE);
	}
	close(sockets[1]);
	process.socket = sockets[0];
	return process;
}

static void process_wait_until_ready(const struct process *process)
{
	char byte;

	MUST(read(process->socket, &byte, 1) == 1);
}

static void process_kill(const struct process *process)
{
	MUST(!kill(process->pid, SIGKILL));
	MUST(waitpid(process->pid, NULL, 0) == process->pid);
	close(process->socket);
}

static void peer_run(int socket, void *argument)
{
	struct verbs_end end;
	uint32_t qpn;

	(void)argument;
	verbs_end_make(&end, verbs_pair_open(), NULL);
	struct hello hello = {end.qp->qp_num, end.mr->rkey, (uintptr_t)end.buffer};
	MUST(write(socket, &hello, sizeof(hello)) == sizeof(hello));
	MUST(read(socket, &qpn, sizeof(qpn)) == sizeof(qpn));
	verbs_qp_connect_to(end.qp, &address_here, qpn, TIMEOUT_17_MS);
}

/* A process that leases the peer's slot next, with this NIC memory. */
struct successor {
	uint8_t slot;
	int memory;
};

static void successor_run(int socket, void *argument)
{
	const struct successor *successor = argument;
	struct agent_client client;
	uint8_t slot = 0;

	(void)socket;
	MUST(!agent_client_connect(&client));
	/* The slots that were returned last are leased last, after all others. */
	for (int i = 0; slot != successor->slot; i++) {
		int error = agent_client_attach(&client, successor->memory, &slot);

		MUST(!error || (error == -ENOSPC && i < ATTEMPTS));
		if (error)
			usleep(PAUSE_US);
	}
}

/* --- here ----------------------------------------------------------------------------------- */

static enum ibv_wc_status write_status(struct verbs_end *end, const struct hello *to)
{
	struct ibv_mr mr = {.rkey = to->rkey};
	const struct verbs_end far = {.mr = &mr, .buffer = (uint8_t *)(uintptr_t)to->address};

	MUST(!verbs_post(end, IBV_WR_RDMA_WRITE, &far, 0, BYTES));
	return verbs_poll_one(end->cq).status;
}

/* A write succeeds in the dead peer's memory until the control thread has seen the death. */
static enum ibv_wc_status failure_await(struct verbs_end *end, const struct hello *to)
{
	time_t until = time(NULL) + PAIR_TIMEOUT_S;
	enum ibv_wc_status status;

	do
		status = write_status(end, to);
	while (status == IBV_WC_SUCCESS && time(NULL) < until);
	return status;
}

static bool keep_memory(void *argument, const struct agent_process *process)
{
	*(int *)argument = dup(process->memory);
	return true;
}

/* The NIC memory of the process that leases the slot there. */
static int memory_of(uint8_t slot)
{
	const struct namespace_id own = namespace_id_own();
	struct gid gid;
	int memory = -1;

	memcpy(&gid, &address_there, sizeof(gid));
	namespace_lookup(&own, slot, &gid, keep_memory, &memory);
	MUST(memory >= 0);
	return memory;
}

static void set_link(const char *state)
{
	MUST(!netns_run("ip link set va %s", state));
}

/* What the successor shows. */
enum forgery { NO_MEMORY, PREDECESSORS, UNSEALED, TOO_SMALL, ZEROES, NOISE, FORGERY_COUNT };

static int forge(enum forgery forgery, int predecessors)
{
	const off_t bytes = forgery == TOO_SMALL ? 100 : 1 << 20;
	uint64_t noise[512];
	int fd;

	if (forgery == NO_MEMORY)
		return -1;
	if (forgery == PREDECESSORS)
		return dup(predecessors);
	fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(fd >= 0 && !ftruncate(fd, bytes));
	if (forgery == UNSEALED || forgery == NOISE) {
		/* Its beginning is right. */
		MUST(pread(predecessors, noise, sizeof(noise), 0) == sizeof(noise));
		for (unsigned i = 64; forgery == NOISE && i < 512; i++)
			noise[i] = (uint64_t)random() << 32 | (uint64_t)random();
		MUST(pwrite(fd, noise, sizeof(noise), 0) == sizeof(noise));
	}
	if (forgery != UNSEALED)
		MUST(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

static void meet_successor(enum forgery forgery)
{
	struct process peer = process_start(peer_run, NULL);
	struct verbs_end before, after;
	struct successor successor;
	struct process process;
	struct hello hello;
	int memory;

	MUST(read(peer.socket, &hello, sizeof(hello)) == sizeof(hello));
	verbs_end_make(&before, context, NULL);
	verbs_qp_connect_to(before.qp, &address_there, hello.qpn, TIMEOUT_17_MS);
	MUST(write(peer.socket, &before.qp->qp_num, sizeof(uint32_t)) == sizeof(uint32_t));
	process_wait_until_ready(&peer);
	set_link("down"); /* what arrives needs no packets */
	assert_int_equal(write_status(&before, &hello), IBV_WC_SUCCESS);
	set_link("up");
	memory = memory_of((uint8_t)(hello.qpn >> 16));
	successor = (struct successor){(uint8_t)(hello.qpn >> 16), forge(forgery, memory)};
	process_kill(&peer);
	process = process_start(successor_run, &successor);
	process_wait_until_ready(&process);
	assert_int_equal(failure_await(&before, &hello), IBV_WC_RETRY_EXC_ERR);
	verbs_end_make(&after, context, NULL);
	verbs_qp_connect_to(after.qp, &address_there, hello.qpn, TIMEOUT_17_MS);
	assert_int_equal(write_status(&after, &hello), IBV_WC_RETRY_EXC_ERR);
	process_kill(&process);
	verbs_end_unmake(&before);
	verbs_end_unmake(&after);
	if (successor.memory >= 0)
		close(successor.memory);
	close(memory);
}

static void successor_in_the_slot_of_a_dead_peer_gets_nothing(void **state)
{
	(void)state;
	for (enum forgery forgery = NO_MEMORY; forgery < FORGERY_COUNT; forgery++)
		meet_successor(forgery);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(successor_in_the_slot_of_a_dead_peer_gets_nothing),
	};

	if (HAS_THREAD_SANITIZER) {
		printf("skipped: TSan forbids threads in the children of programs with threads\n");
		return 77;
	}
	setenv("URNICD_IDLE_S", "1", 1);
	setenv("URNIC_LOCAL", "on", 1);
	unsetenv("URNIC_HOST_ID");
	settings_read();
	there = netns_enter_new();
	here = there < 0 ? -1 : netns_enter_new();
	if (here < 0 || netns_join(here, there, 1500) != 0)
		return 77;
	context = verbs_pair_open();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

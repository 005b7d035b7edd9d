/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_ATTACK_SYSCALL_ENDS_H
#define URNIC_TESTS_ATTACK_SYSCALL_ENDS_H

/*
 * Two ends, a program each, that do with each other what RDMA programs do: open a device, register,
 * make queues, connect (with ibv_modify_qp() and by rdma_cm), exchange messages, wait for events,
 * destroy everything. System calls of one end, the victim, fail; see syscall_faults.c.
 *
 * The two ends exchange addresses and report their results in shared memory. So the ends make no
 * system calls for it, which might fail.
 */

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { END_SERVER, END_CLIENT, END_COUNT };

enum {
	NAME_BYTES = 48,
	CONNECTIONS = 2, /* by ibv_modify_qp(), and by rdma_cm */
	ROUNDS = 120, /* so that what a round does is done a hundred times */
	CM_ROUNDS = 10,
	LISTENER_NONE = -1,
	TIMEOUT_MS = 5000, /* for a completion or an event; the settings promise 70 ms */
};

/* What one end says of a connection. */
struct card {
	atomic_bool is_filled;
	union ibv_gid gid;
	uint64_t address;
	uint32_t rkey;
	uint32_t qpn;
};

struct end {
	struct card cards[CONNECTIONS];
	atomic_uint phase; /* count of the meetings with the other end */
	atomic_bool is_over; /* it destroys what it has made, or has ended */
	atomic_bool is_done; /* it has destroyed everything */
	char step[NAME_BYTES]; /* the call or wait that it is in */
	/* The first call that failed, or wait that timed out; empty: none */
	char failed[NAME_BYTES];
	int error; /* errno of that call; 0 of a wait */
	/*
	 * The status of the first completion with an error, or of the first rdma_cm event that
	 * reports one
	 */
	int status;
	uint32_t rounds; /* that it has completed */
};

/* Zeros at first. */
struct stage {
	struct end ends[END_COUNT];
	/* The victim's descriptor of its filter, plus 1; LISTENER_NONE: there is no filter. */
	atomic_int listener;
	atomic_uint allocations; /* of the victim's libraries */
	unsigned use; /* which of them fails */
	atomic_bool has_listener; /* the supervisor has it now */
	uint16_t
		port; /* of rdma_cm; each run has another one, as TCP remembers ports for a while */
};

struct end_options {
	int role;
	const char *address; /* the server's */
	bool is_iwarp; /* rdma_cm only */
	bool is_second; /* it begins when the other end has made its first queue pair, or is over */
};

/* Do it all. Returns when everything is destroyed; what failed is on the stage. */
void end_run(struct stage *stage, const struct end_options *options);

#endif

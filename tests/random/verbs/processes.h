/* SPDX-License-Identifier: BSD-2-Clause */
/* What the processes of fuzz_processes share with each other and with who starts them. */
#ifndef URNIC_TESTS_RANDOM_VERBS_PROCESSES_H
#define URNIC_TESTS_RANDOM_VERBS_PROCESSES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/sim_random.h"

enum {
	PROCESSES_MAX = 8,
	OBJECTS_EACH = 4, /* of each kind of object of a process */
};

/* What a process shows to the others; all of it may be out of date. */
struct card {
	_Atomic int pid;
	_Atomic int cmd_fd;
	_Atomic uint32_t pd_handle;
	_Atomic uint32_t mr_handle[OBJECTS_EACH];
	_Atomic uint32_t mr_rkey[OBJECTS_EACH];
	_Atomic uint64_t mr_address[OBJECTS_EACH];
	_Atomic uint32_t srqn[OBJECTS_EACH];
	_Atomic uint32_t receiver[OBJECTS_EACH]; /* numbers of queue pairs */
	_Atomic uint32_t sender[OBJECTS_EACH];
	_Atomic bool shall_end;
	_Atomic uint64_t beats;
	const char *_Atomic call;
};

extern struct card *board; /* PROCESSES_MAX */
extern unsigned process_count;
extern int domain_file;
extern struct sim_random randomness; /* of this process */

static inline uint32_t below(uint32_t limit)
{
	return (uint32_t)sim_random_below(&randomness, limit);
}

/* Make random calls as the process of this card, until it shall end. */
void process_run(struct card *card);

#endif

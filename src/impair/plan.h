/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IMPAIR_PLAN_H
#define URNIC_IMPAIR_PLAN_H

/*
 * What a user wants a process to suffer: the text of URNIC_IMPAIR and URNIC_FAULTS as a struct.
 *
 * URNIC_IMPAIR is a comma-separated list of `name=value` (impair/setting.def). URNIC_FAULTS is a
 * list of faults (impair/verb.def); a line break or a semicolon ends each of them, and a `#` begins
 * a comment. All functions are pure.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	IMPAIR_FAULTS_MAX = 64,
	IMPAIR_WHY_BYTES = 320,
	IMPAIR_PATH_BYTES = 256,
	IMPAIR_SHARE_ALL = 1000000000, /* 100% */
};

enum impair_side { IMPAIR_SIDE_NONE, IMPAIR_SIDE_SERVER, IMPAIR_SIDE_CLIENT };

enum impair_verb {
#define VERB(name, form, syntax) IMPAIR_VERB_##name,
#include "impair/verb.def"
#undef VERB
	IMPAIR_VERB_COUNT
};

struct impair_fault {
	enum impair_verb verb;
	enum impair_side at; /* the side whose process executes the fault; NONE: both sides */
	uint32_t operations; /* which packets count, as bits of enum opcode_operation */
	/* Which of these packets the fault hits, counted from 1 without retransmissions. */
	uint32_t number;
	/*
	 * The fault hits each packet whose number is a multiple of `number`, and no retransmission
	 */
	bool is_periodic;
	/* How often the fault hits this packet; rnr: how many NAKs the fault causes. */
	uint32_t times;
	uint32_t qp; /* the queue pair; 0: any */
	uint64_t amount; /* delay: nanoseconds; kill: bytes */
	enum impair_side victim; /* kill: the side that is killed */
};

struct impair_plan {
	/* Shares of the packets; IMPAIR_SHARE_ALL means every packet */
	uint32_t loss;
	uint32_t duplicate;
	uint32_t corrupt;
	uint32_t reorder;
	uint64_t delay; /* nanoseconds */
	uint64_t rate; /* bits per second; 0: no limit */
	uint32_t seed;
	enum impair_side side; /* the side of this process */
	/* The process groups that a kill fault kills; 0: unknown */
	uint32_t server;
	uint32_t client;
	char report[IMPAIR_PATH_BYTES]; /* path of the file for struct impair_report; "": none */
	uint32_t fault_count;
	struct impair_fault faults[IMPAIR_FAULTS_MAX];
};

/*
 * Set one item of a plan. Returns false when the name or the value is wrong.
 *
 * `ret_why`  On failure: a sentence without a period that quotes the wrong word and says what may
 *            stand in its place.
 */
bool impair_plan_set(struct impair_plan *plan, const char *name, const char *value,
	char ret_why[IMPAIR_WHY_BYTES]);

/* Parse the text of URNIC_IMPAIR into a zeroed plan. Returns as impair_plan_set(). */
bool impair_plan_parse(struct impair_plan *plan, const char *text, char ret_why[IMPAIR_WHY_BYTES]);

/*
 * Parse the text of URNIC_FAULTS, and add its faults to a plan. A fault for the side that is not
 * plan->side is checked, but not added. Returns as impair_plan_set().
 */
bool impair_faults_parse(
	struct impair_plan *plan, const char *text, char ret_why[IMPAIR_WHY_BYTES]);

#endif

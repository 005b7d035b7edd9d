/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `urnic explain` share: the words that it explains, the failures that processes
 * have kept, and captures.
 */
#ifndef TOOLS_EXPLAIN_EXPLAIN_H
#define TOOLS_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/failure_file.h"
#include "common/json.h"
#include "os/failure_text.h"

/* --- words (explain_topic.c) --- */

enum topic_kind {
	TOPIC_QP_COUNTER,
	TOPIC_LANE_COUNTER,
	TOPIC_PORT_COUNTER,
	TOPIC_CM_COUNTER,
	TOPIC_URNICD_COUNTER,
	TOPIC_CC_PARAMETER,
	TOPIC_STATUS,
	TOPIC_FAULT,
	TOPIC_REFUSED,
	TOPIC_CALL,
	TOPIC_CONNECT,
};

struct topic {
	enum topic_kind kind;
	unsigned number; /* of a status or reason */
	unsigned status; /* status that a fault causes */
	const char *name;
	const char *sentence;
	/* Each of these may be NULL: the topic has none. */
	const char *clause;
	const char *look;
	const char *fix;
	const char *unit; /* of a parameter; "" or NULL: it has none */
};

extern const struct topic topics[];
extern const int topic_count;

/* Does the word name exactly this topic, in one of the forms that programs use? */
bool topic_is_named(const struct topic *topic, const char *word);

/* Is the word a part of the topic's name? "" is a part of every name. */
bool topic_has_part(const struct topic *topic, const char *word);

void topic_print(const struct topic *topic);

/*
 * Print a paragraph of at most 96 columns: `label`, then the text, behind `indent` blanks, and two
 * more in its further lines. `text` NULL: print nothing.
 */
void paragraph_print(unsigned indent, const char *label, const char *text);

/* The paragraphs of a reason that say what to do. */
void advice_print(const char *clause, const char *look, const char *fix);

void topic_add(cJSON *list, const struct topic *topic);

/* The name of a completion status, without IBV_WC_; "?" if it is none. */
const char *status_name(unsigned number);

/* --- failures (explain_process.c) --- */

enum { EXPLAIN_PROCESSES_MAX = 256 };

struct explain_processes {
	struct failure_file *file; /* `count` of them, in no order */
	uint32_t count;
};

/* Read the failures of all processes of this user. */
void processes_read(struct explain_processes *ret_processes);

/* Print the process, or add it to a list. */
void process_print(const struct explain_processes *all, const struct failure_file *file);
void process_add(cJSON *list, const struct explain_processes *all, const struct failure_file *file);

/* Print a line for the process. */
void process_print_line(const struct failure_file *file);

/* Does the process still run? */
bool process_is_alive(const struct failure_file *file);

/*
 * The failure of the peer's queue pair that explains this one: both failed at the same time. NULL:
 * none was kept. `ret_file` is the peer's process, which may be that of `failure`.
 */
const struct failure *failure_of_peer(const struct explain_processes *all,
	const struct failure *failure, const struct failure_file **ret_file);

/* Print what the peer's process has kept, or add it to `object` as "peer"; `peer` NULL: null. */
void peer_print(const struct failure *peer, const struct failure_file *file);
void peer_add(cJSON *object, const struct failure *peer, const struct failure_file *file);

/* --- captures (explain_capture.c) --- */

/*
 * Print what went wrong in a capture, or add it to `list`, if that is not NULL. If a process of
 * `all` has refused a request of the capture, say what that process has kept. Returns false if the
 * file is no capture.
 */
bool capture_show(cJSON *list, const struct explain_processes *all, const char *path);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_FAILURE_TEXT_H
#define URNIC_OS_FAILURE_TEXT_H

/*
 * The rows of queue/reason.def and lane/fact.def, and the sentences about a failure that was kept.
 * The log and `urnic explain` print the same ones. All functions are pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lane/failure.h"
#include "qp/reason.h"

enum reason_kind {
	REASON_KIND_FAULT, /* a completion of this process has the number as vendor_err */
	REASON_KIND_REFUSED, /* this process refused a request of its peer */
	REASON_KIND_CALL, /* a call of the program failed */
	REASON_KIND_CONNECT, /* a connection was not made, or a stream has ended with an error */
};

/* A row of the table. A member is NULL if the row has no such text. */
struct reason_row {
	enum reason_kind kind;
	uint32_t number;
	uint32_t status; /* enum wc_status, of a fault */
	int error; /* positive errno, of a call; 0: any */
	const char *name;
	const char *sentence;
	const char *seen;
	const char *clause;
	const char *look;
	const char *fix;
};

extern const struct reason_row reason_rows[];
extern const uint32_t reason_count;

/* The row of a number; NULL: there is none. */
const struct reason_row *reason_find(uint32_t number);

enum fact_format {
	FACT_FORMAT_DECIMAL,
	FACT_FORMAT_HEX,
	FACT_FORMAT_BYTES,
	FACT_FORMAT_TIME, /* nanoseconds */
	FACT_FORMAT_ACCESS, /* enum mr_access */
	FACT_FORMAT_OPCODE, /* enum opcode_operation */
	FACT_FORMAT_STATE, /* enum qp_state */
	FACT_FORMAT_ATTRIBUTE, /* a bit of enum qp_attr_mask */
	FACT_FORMAT_REASON, /* enum reason; 0: no failure */
	FACT_FORMAT_ERRNO,
	FACT_FORMAT_TERMINATE, /* enum rdmap_error */
};

struct fact_row {
	const char *name;
	enum fact_format format;
	const char *sentence; /* NULL: none */
};

extern const struct fact_row fact_rows[FACT_COUNT];

/* The longest sentence that the two functions below write, terminated. */
enum { REASON_SENTENCE_BYTES = 640 };

/* What was seen, as a sentence with the failure's facts. Writes up to `room` bytes. */
void reason_tell(const struct failure *failure, char *ret_text, size_t room);

/*
 * The sentence of the failure's fact number `index`, from 0 to facts.count - 1. Returns false if
 * that fact has none.
 */
bool reason_tell_fact(const struct failure *failure, uint32_t index, char *ret_text, size_t room);

/* A fact's value as text. */
void fact_print(enum fact fact, uint64_t value, char *ret_text, size_t room);

#endif

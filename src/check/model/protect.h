/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full checks: pages of memory that requests use are protected, so that the access itself is
 * reported.
 *
 * Only pages that lie wholly within one entry of a request are protected: memory beside it may be
 * given to system calls, which fail on protected pages. While requests read a page, the program
 * must not write it. While a request of a queue pair writes it, the program must not access it. A
 * page that requests both read and write is not protected.
 *
 * The library accesses such pages, too. Each first access to a page ends in the handler of SIGSEGV,
 * which opens the page until no request uses it. It reports the access if no function of the
 * library is on the stack. A same-host peer's copy through the kernel fails on such a page, and the
 * peer falls back to packets. So no thread may block SIGSEGV: wrappers of sigaction() and
 * pthread_sigmask() see to it, and pass other faults to the program's own handler.
 */
#ifndef URNIC_CHECK_MODEL_PROTECT_H
#define URNIC_CHECK_MODEL_PROTECT_H

#include <stdbool.h>
#include <stdint.h>

#include "check/model/region.h"

struct queue_record;

/* Install the handler. Without this call, the functions below have no effect. */
void protect_start(void);

/* Can the pages be protected and opened again: are all mapped, for reading and writing? */
bool protect_is_possible(uintptr_t start, uint64_t bytes);

/*
 * mprotect() by the checker, past its wrapper of the program's calls. In handlers of signals, too.
 * Returns 0, or -1 with errno.
 */
int protect_pages(uintptr_t start, uint64_t bytes, int protection);

/* A request that was posted at `site` uses this memory, as its target or its source. */
void protect_begin(const struct queue_record *record, uintptr_t start, uint64_t bytes,
	bool is_target, uint32_t site);

/* It uses the memory no longer. Returns true if an access was reported since. */
bool protect_end(uintptr_t start, uint64_t bytes, bool is_target);

/* Open these pages until no request uses them, because the program gives them back. */
void protect_open(uintptr_t start, uint64_t bytes);

/* This process is a forked child: the memory is its own. */
void protect_inherit(void);

#endif

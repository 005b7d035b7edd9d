/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full checks: the checker protects pages of memory that requests use, so that it can report the
 * access itself.
 *
 * Only pages that lie wholly within one entry of a request are protected. The program may pass
 * memory beside the entry to system calls, which fail on protected pages. While requests read a
 * page, the program must not write to the page. While a request of a queue pair writes to a page,
 * the program must not access the page. A page that requests both read and write is not protected.
 *
 * The library accesses such pages, too. The first access to a page causes SIGSEGV. The handler
 * opens the page until no request uses it, and reports the access if no function of the library is
 * on the stack. A same-host peer's copy through the kernel fails on such a page, and the peer falls
 * back to packets. No thread may block SIGSEGV, so wrappers of sigaction() and pthread_sigmask()
 * keep it unblocked and the handler in place. The handler passes other faults to the program's own
 * handler.
 */
#ifndef URNIC_CHECK_MODEL_PROTECT_H
#define URNIC_CHECK_MODEL_PROTECT_H

#include <stdbool.h>
#include <stdint.h>

#include "check/model/region.h"

struct queue_record;

/* Install the handler. Without this call, the functions below have no effect. */
void protect_start(void);

/*
 * Can the pages be protected and opened again? They can if all of them are mapped for reading and
 * writing.
 */
bool protect_is_possible(uintptr_t start, uint64_t bytes);

/*
 * mprotect() that bypasses the checker's wrapper. Handlers of signals may call this. Returns 0; or
 * -1, and sets errno.
 */
int protect_pages(uintptr_t start, uint64_t bytes, int protection);

/* A request that was posted at `site` uses this memory, as its target or its source. */
void protect_begin(const struct queue_record *record, uintptr_t start, uint64_t bytes,
	bool is_target, uint32_t site);

/* The request no longer uses the memory. Returns true if an access to it was reported meanwhile. */
bool protect_end(uintptr_t start, uint64_t bytes, bool is_target);

/* Open these pages until no request uses them, because the program gives them back. */
void protect_open(uintptr_t start, uint64_t bytes);

/* The child of a fork calls this: the parent's requests do not use the child's memory. */
void protect_inherit(void);

#endif

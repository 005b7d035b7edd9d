/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checker of `urnic run --check`: a library that the loader puts before libibverbs.so.1. It
 * watches how a program uses verbs.
 *
 * It defines the calls of libibverbs that make and destroy objects, and passes them on. Posting
 * and polling are inline functions of the public header, which call through the table of a context;
 * the checker replaces the table's entries when the program opens a device. So a program without
 * the checker executes no instruction of it, and the checker works on any verbs library: it
 * includes only public headers.
 *
 * The library knows of a program what the program's calls say:
 *
 *     model/object.h    which objects exist, and which the program has destroyed
 *     model/region.h    which memory is registered
 *     model/request.h   which requests are posted and not yet completed, and their memory
 *     model/rest.h      which of them cheap checks look at
 *     model/protect.h   full checks: which pages may not be accessed
 *     model/watch.h     full checks: which byte of a WRITE the program polls
 *     site.h            where in the program a call was made
 *     report.h          what is told to the user
 *
 * A request uses its memory from the post until the program polls the completion; earlier the
 * program cannot know that the adapter has finished. The checker reports only what the
 * specification forbids. Where it cannot tell, it is silent.
 *
 * `check_lock` guards tables and reports. A queue's lock comes before it.
 */
#ifndef URNIC_CHECK_CHECK_H
#define URNIC_CHECK_CHECK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK_EXPORT __attribute__((visibility("default")))

/* The exit status of a program with reports, as with other sanitizers. */
enum { CHECK_EXIT_STATUS = 66 };

extern pthread_mutex_t check_lock;

/* The settings, read once when the library is loaded. `check_is_full`: URNIC_CHECK=full. */
extern bool check_is_full;

/*
 * Set while this thread executes the checker or the verbs library below it, whose own calls of
 * free() and of verbs are not the program's.
 */
extern __thread unsigned check_depth __attribute__((tls_model("initial-exec")));

/*
 * Zeroed memory that is never freed, also where the program is within its own allocator; NULL: none
 * is left.
 */
void *check_allocate(size_t bytes);

/* This process is a forked child: no thread has check_lock, or is in check_allocate(). */
void check_inherit(void);

/* A clock that is read quickly, in a unit of its own. */
uint64_t check_ticks(void);

/* The function `name` of the next library, for a wrapper; the process ends if there is none. */
void *check_next(const char *name);

/* Define `real` in a wrapper: the function that the wrapper stands before. */
#define CHECK_REAL(function)               \
	static __typeof__(&function) real; \
	if (!real)                         \
	real = (__typeof__(real))check_next(#function)

#endif

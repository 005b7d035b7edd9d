/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checker of `urnic run --check`: a library that the loader puts before libibverbs.so.1. It
 * watches how a program uses verbs.
 *
 * The checker defines the calls of libibverbs that make and destroy objects, and passes them on to
 * libibverbs. Posting and polling are inline functions of the public header, which call through the
 * table of a context; the checker replaces the table's entries when the program opens a device. So
 * a program without the checker executes none of its instructions. The checker includes only public
 * headers, so it works with any verbs library.
 *
 * The checker knows only what the program's calls say:
 *
 *     model/object.h    which objects exist, and which the program has destroyed
 *     model/region.h    which memory is registered
 *     model/request.h   which requests are posted and not yet completed, and their memory
 *     model/rest.h      which of these requests cheap checks look at
 *     model/protect.h   full checks: which pages may not be accessed
 *     model/watch.h     full checks: which byte of a WRITE the program polls
 *     site.h            where in the program a call was made
 *     report.h          what the checker reports to the user
 *
 * A request uses its memory from the post until the program polls the completion. Before the poll,
 * the program cannot know that the adapter has finished. The checker reports only what the
 * specification forbids. If the checker cannot tell, it reports nothing.
 *
 * `check_lock` guards tables and reports. A thread locks a queue before it locks `check_lock`.
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

/*
 * The settings, which are read once when the library is loaded. URNIC_CHECK=full sets
 * `check_is_full`.
 */
extern bool check_is_full;

/*
 * Not 0 while this thread executes the checker, or the verbs library below it. Calls of free() and
 * of verbs that the thread makes then are not the program's.
 */
extern __thread unsigned check_depth __attribute__((tls_model("initial-exec")));

/*
 * Allocate zeroed memory that is never freed. This also works while the program is inside its own
 * allocator. NULL: out of memory.
 */
void *check_allocate(size_t bytes);

/*
 * The child of a fork calls this: no other thread exists, so check_lock and the lock of
 * check_allocate() are free.
 */
void check_inherit(void);

/* The time of a clock that is quick to read. The unit depends on the processor. */
uint64_t check_ticks(void);

/*
 * The function `name` of the next library, for a wrapper. If no library has it, the process ends.
 */
void *check_next(const char *name);

/* Where a wrapper keeps the function that it stands before. */
struct check_real {
	void *place; /* of a pointer to a function, which is NULL at first */
	const char *name;
};

/*
 * Find the functions of the C library for all wrappers. Later this would take the loader's lock,
 * for which urnic's threads must not wait.
 */
void check_find_real(void);

/* Define `real` in a wrapper: the function that the wrapper stands before. */
#define CHECK_REAL(function)                                                            \
	static __typeof__(&function) real;                                              \
	static const struct check_real real_entry                                       \
		__attribute__((section("check_real_list"), used)) = {&real, #function}; \
	if (!real)                                                                      \
	real = (__typeof__(real))check_next(#function)

#endif

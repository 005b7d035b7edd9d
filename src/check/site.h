/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sites: where in the program a call was made.
 *
 * A site is the stack of a call, kept once and named by a number. Cheap checks know a call by its
 * return address alone, so they unwind the stack only at the first call from each address; outer
 * frames are then those of the first call. Full checks unwind at each call.
 */
#ifndef URNIC_CHECK_SITE_H
#define URNIC_CHECK_SITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SITE_NONE = 0 };

/*
 * The site of the caller of a wrapper that programs call often; `address` is the wrapper's return
 * address. Any thread.
 */
uint32_t site_of(const void *address);

/* The site of a call that is not frequent: the whole stack, also in cheap checks. */
uint32_t site_of_stack(const void *address);

/* The site of an instruction that has caused a signal, in the handler of the signal. */
uint32_t site_of_fault(uintptr_t pc);

/*
 * Is this return address one of a library of RDMA? The answer takes the loader's lock, so the
 * caller has locked neither check_lock nor a queue. A thread that loads or unloads a library has
 * the loader's lock first, and locks these when it frees memory.
 */
bool site_address_is_library(uintptr_t address);

/* True if a function of a library of RDMA is on the stack; such a library may be the cause. */
bool site_has_library(uint32_t site);

/* site_of_stack() in a wrapper. */
#define SITE_HERE() site_of_stack(__builtin_return_address(0))

/*
 * True if the call came from another library of RDMA, not from the program. The locks are those of
 * site_address_is_library(). The first answer for a site is kept: later the library may be gone.
 */
bool site_is_library(uint32_t site);

/* What a frame is: file and line need debug information. */
struct site_frame {
	const char *function; /* NULL: unknown */
	const char *file; /* NULL: unknown */
	int line;
	const char *object; /* the program or library, NULL: unknown */
	uintptr_t offset; /* in the object */
};

/*
 * Ask the loader for the frames of a site, before the first site_frames(). The locks are those of
 * site_address_is_library(), and report.c's lock is not locked.
 */
void site_look_up(uint32_t number);

/* Call `each` for the frames of a site from the innermost, with inlined ones. */
void site_frames(uint32_t number, void (*each)(const struct site_frame *frame, void *context),
	void *context);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sites: where in the program a call was made.
 *
 * A site is the stack of a call, stored once and named by a number. Cheap checks identify a call by
 * its return address alone. They unwind the stack only at the first call from each address, so the
 * outer frames are those of the first call. Full checks unwind the stack at each call.
 */
#ifndef URNIC_CHECK_SITE_H
#define URNIC_CHECK_SITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SITE_NONE = 0 };

/*
 * The site of the caller of a wrapper that programs call often; `address` is the wrapper's return
 * address. Any thread may call.
 */
uint32_t site_of(const void *address);

/* The site of a call that is not frequent. Cheap checks unwind the stack here, too. */
uint32_t site_of_stack(const void *address);

/* The site of an instruction that has caused a signal, in the handler of the signal. */
uint32_t site_of_fault(uintptr_t pc);

/*
 * Is this return address one of a library of RDMA? The answer takes no lock, because threads of
 * urnic ask for each system call. These have locked a lane, for which a thread that loads a library
 * may wait.
 */
bool site_address_is_library(uintptr_t address);

/*
 * Is a function of an RDMA library on the stack? If so, that library may be the cause, not the
 * program.
 */
bool site_has_library(uint32_t site);

/* site_of_stack() in a wrapper. */
#define SITE_HERE() site_of_stack(__builtin_return_address(0))

/*
 * True if the call came from another library of RDMA, not from the program. The first answer for a
 * site is kept: later the library may be gone.
 */
bool site_is_library(uint32_t site);

/* A frame of a stack. File and line are known only with debug information. */
struct site_frame {
	const char *function; /* NULL: unknown */
	const char *file; /* NULL: unknown */
	int line;
	const char *object; /* the program or library, NULL: unknown */
	uintptr_t offset; /* offset of the address in the object */
};

/*
 * Ask the loader for the frames of a site, before the first site_frames(). That takes the loader's
 * lock, so the caller has locked neither check_lock nor a queue, nor report.c's lock. A thread that
 * loads or unloads a library has the loader's lock first, and locks these when it frees memory.
 */
void site_look_up(uint32_t number);

/* Call `each` for the frames of a site, the innermost first. Inlined functions have frames, too. */
void site_frames(uint32_t number, void (*each)(const struct site_frame *frame, void *context),
	void *context);

#endif

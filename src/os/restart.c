/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/restart.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

enum {
	KIND_RESTARTS = 1, /* a handler has SA_RESTART */
	KIND_INTERRUPTS = 2, /* a handler does not have SA_RESTART */
	KIND_INTERRUPTS_ONCE = 4, /* such a handler also has SA_RESETHAND */
	KINDS_UNKNOWN = 8,
};

/* The kinds of handlers when they were last read. */
static _Atomic int kinds_seen = KINDS_UNKNOWN;
static _Atomic uint64_t looked_ns; /* when restart_is_certain() last read the handlers */

static bool is_fault(int number)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};

	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i] == number)
			return true;
	return false;
}

static int kinds_read(void)
{
	struct sigaction action;
	int before = errno;
	int kinds = 0;

	for (int number = 1; number < NSIG; number++) {
		/* The C library hides its own signals; their handlers have SA_RESTART. */
		if (is_fault(number) || sigaction(number, NULL, &action) ||
			action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
			continue;
		kinds |= action.sa_flags & SA_RESTART ? KIND_RESTARTS : KIND_INTERRUPTS;
		if ((action.sa_flags & (SA_RESTART | (int)SA_RESETHAND)) == (int)SA_RESETHAND)
			kinds |= KIND_INTERRUPTS_ONCE;
	}
	errno = before;
	return kinds;
}

bool restart_is_certain(uint64_t now_ns)
{
	int kinds = atomic_load(&kinds_seen);

	if (kinds == KINDS_UNKNOWN || now_ns - atomic_load(&looked_ns) >= RESTART_LOOK_NS) {
		atomic_store(&looked_ns, now_ns);
		kinds = kinds_read();
		atomic_store(&kinds_seen, kinds);
	}
	return !(kinds & KIND_RESTARTS) || !(kinds & KIND_INTERRUPTS);
}

/*
 * The kernel removes a handler with SA_RESETHAND when it delivers the signal. Such a handler is
 * missing in `kinds`, and only an earlier reading can have seen it.
 */
bool restart_is_due(void)
{
	int kinds = kinds_read();
	int before = atomic_exchange(&kinds_seen, kinds);

	return !(kinds & KIND_INTERRUPTS) && !(before & KIND_INTERRUPTS_ONCE);
}

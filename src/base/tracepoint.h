/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_TRACEPOINT_H
#define URNIC_BASE_TRACEPOINT_H

/*
 * Static tracepoints (USDT), for perf and bpftrace: a function trace_<name>() for each row of
 * tracepoint.def.
 *
 * Without a tracer a tracepoint is a nop, and a note in the library says where it is. A tracer
 * replaces the nop by a breakpoint. Built without <sys/sdt.h>, the functions do nothing.
 *
 * Any thread may call the functions, also with locks held.
 */

#include <stdint.h>

#ifdef URNIC_HAS_SDT
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define TRACEPOINT_FIRE(...) STAP_PROBEV(__VA_ARGS__)
#else
/*
 * Never defined: only sizeof calls it. So the compiler counts the parameters as used, and makes no
 * code for them.
 */
int tracepoint_nothing(const char *name, ...);
#define TRACEPOINT_FIRE(provider, name, ...) ((void)sizeof(tracepoint_nothing(#name, __VA_ARGS__)))
#endif

#define TRACEPOINT_ARGUMENTS(...) __VA_ARGS__
#define TRACEPOINT(name, parameters, arguments, sentence)                     \
	static inline void trace_##name parameters                            \
	{                                                                     \
		TRACEPOINT_FIRE(urnic, name, TRACEPOINT_ARGUMENTS arguments); \
	}
#include "base/tracepoint.def"
#undef TRACEPOINT

#endif

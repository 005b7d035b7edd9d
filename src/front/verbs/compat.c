/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that always fail: all calls of the ABI of 2006 (name@IBVERBS_1.0). symbols.def has the
 * reason.
 *
 * The functions are defined without arguments, because they read none. That is safe, because in the
 * calling convention the caller removes the arguments.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* `remove` deletes the C name, so only name@version goes into the symbol table. */
#define COMPAT(type, name, version, ...)                                     \
	__attribute__((visibility("default"))) type compat_##name(void);     \
	__asm__(".symver compat_" #name ", " #name "@" #version ", remove"); \
	type compat_##name(void)                                             \
	{                                                                    \
		errno = EOPNOTSUPP;                                          \
		return __VA_ARGS__;                                          \
	}

#define NODE(version)
#define SYMBOL(name)
#define COMPAT_POINTER(name, version) COMPAT(void *, name, version, NULL)
#define COMPAT_INT(name, version)     COMPAT(int, name, version, EOPNOTSUPP)
#define COMPAT_GUID(name, version)    COMPAT(uint64_t, name, version, 0)
#define COMPAT_VOID(name, version)    COMPAT(void, name, version)
#define PRIVATE(release)
#define NODE_END(previous)
#include "front/verbs/symbols.def"

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A vendor's library (libmlx5.so.1, libefa.so.1 ...) for a machine without that vendor's hardware.
 *
 * perftest, UCX, libfabric, pyverbs and DPDK link these libraries directly and ask them whether a
 * device is of their kind. The genuine ones need the private half of libibverbs; these need
 * nothing, say no to everything, and have the same symbols with the same versions, so that programs
 * start. STUB_TABLE, from the build, names the library's table.
 *
 * What a function returns follows from its contract, which its row names:
 *   POINTER   NULL, and errno is EOPNOTSUPP
 *   INT       EOPNOTSUPP, the verbs convention
 *   NEGATIVE  -EOPNOTSUPP, where a number that is not negative would be a result
 *   SSIZE     -1, and errno is EOPNOTSUPP
 *   BOOL      false. UCX tries its mlx5 transport first when mlx5dv_is_supported() says otherwise
 *   VOID      nothing
 * Arguments are not looked at, so each function is defined without any: the calling convention
 * leaves them to the caller.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define STUB(type, name, ...)                                   \
	__attribute__((visibility("default"))) type name(void); \
	type name(void)                                         \
	{                                                       \
		errno = EOPNOTSUPP;                             \
		return __VA_ARGS__;                             \
	}

#define NODE(version)
#define POINTER(name)  STUB(void *, name, NULL)
#define INT(name)      STUB(int, name, EOPNOTSUPP)
#define NEGATIVE(name) STUB(int, name, -EOPNOTSUPP)
#define SSIZE(name)    STUB(ssize_t, name, -1)
#define BOOL(name)     STUB(bool, name, false)
#define VOID(name)     STUB(void, name)
/*
 * A former version of a name that has a newer default. `remove` keeps old_name itself out of the
 * symbol table.
 */
#define OLD_INT(name, version)            \
	STUB(int, old_##name, EOPNOTSUPP) \
	__asm__(".symver old_" #name ", " #name "@" #version ", remove");
#define NODE_END(previous)
#include STUB_TABLE

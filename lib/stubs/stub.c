/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stand-in for a vendor's library (libmlx5.so.1, libefa.so.1 ...), for machines without that
 * vendor's hardware.
 *
 * perftest, UCX, libfabric, pyverbs and DPDK link these libraries directly, and call them to check
 * whether a device is of their kind. The genuine libraries need the private half of libibverbs. The
 * stand-ins need nothing and report every device as foreign. They have the same symbols and
 * versions, so that programs start. The build sets STUB_TABLE to the library's table.
 *
 * The name of a table's row is the contract of its function. The contract determines the result:
 *   POINTER   NULL, and errno is EOPNOTSUPP
 *   INT       EOPNOTSUPP, the verbs convention
 *   NEGATIVE  -EOPNOTSUPP, where a number that is not negative would be a result
 *   SSIZE     -1, and errno is EOPNOTSUPP
 *   BOOL      false. If mlx5dv_is_supported() returned true, UCX would try its mlx5 transport first
 *   VOID      nothing
 *   CAPABILITIES  0, and the attributes say that the device can do nothing. perftest 25.01 calls
 *             the function for every device with the part ID of a ConnectX, and ends if it gets an
 *             error
 *
 * Functions with a contract other than CAPABILITIES read no arguments, so they are defined without
 * any. That is safe, because in the calling convention the caller removes the arguments.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
 * The first members of struct mlx5dv_context. `comp_mask` says which of the later members are
 * valid; 0: none.
 */
struct capabilities {
	uint8_t version;
	uint64_t flags;
	uint64_t comp_mask;
};

#define CAPABILITIES(name)                                                   \
	__attribute__((visibility("default"))) int name(                     \
		const void *context, struct capabilities *ret_capabilities); \
	int name(const void *context, struct capabilities *ret_capabilities) \
	{                                                                    \
		(void)context;                                               \
		*ret_capabilities = (struct capabilities){0};                \
		return 0;                                                    \
	}

/*
 * An earlier version of a symbol that has a newer default version. `remove` keeps the name of the
 * C function, old_##name, out of the symbol table.
 */
#define OLD_INT(name, version)            \
	STUB(int, old_##name, EOPNOTSUPP) \
	__asm__(".symver old_" #name ", " #name "@" #version ", remove");
#define NODE_END(previous)
#include STUB_TABLE

/* SPDX-License-Identifier: BSD-2-Clause */
/* EOPNOTSUPP rather than ENOSYS: test suites skip a test on the first and fail on the second. */
#include "front/verbs/unsupported.h"

/* The table names the parameters for its readers; no function uses them. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define REFUSE_POINTER(name, type, parameters) \
	static type refuse_##name parameters   \
	{                                      \
		errno = EOPNOTSUPP;            \
		return NULL;                   \
	}
#define REFUSE_INT(name, parameters)        \
	static int refuse_##name parameters \
	{                                   \
		return errno = EOPNOTSUPP;  \
	}

#define LEGACY_POINTER   REFUSE_POINTER
#define LEGACY_INT       REFUSE_INT
#define EXTENDED_POINTER REFUSE_POINTER
#define EXTENDED_INT     REFUSE_INT
#include "front/verbs/unsupported.def"
#undef LEGACY_POINTER
#undef LEGACY_INT
#undef EXTENDED_POINTER
#undef EXTENDED_INT

void unsupported_fill(struct verbs_context *context)
{
/* clang-format off */
#define LEGACY_POINTER(name, type, parameters) context->context.ops.name = refuse_##name;
#define LEGACY_INT(name, parameters) context->context.ops.name = refuse_##name;
#define EXTENDED_POINTER(name, type, parameters) context->name = refuse_##name;
#define EXTENDED_INT(name, parameters) context->name = refuse_##name;
#include "front/verbs/unsupported.def"
	/* clang-format on */
}

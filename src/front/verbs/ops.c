/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/ops.h"

#include "front/verbs/unsupported.h"

void ops_fill(struct verbs_context *context)
{
	unsupported_fill(context);
	context->query_device_ex = query_device_ex;
	context->query_port = query_port;
}

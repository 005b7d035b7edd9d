/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes are decoded or refused; a decoded packet encodes to the same bytes.
 */
#include <stdlib.h>

#include "support/roundtrip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!roundtrip_holds(data, size))
		abort();
	return 0;
}

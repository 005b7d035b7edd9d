/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/version.h"

const char *urnic_version(void)
{
	return URNIC_VERSION;
}

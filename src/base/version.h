/* SPDX-License-Identifier: BSD-2-Clause */
/* The version of this build, the same in every library, program and device attribute. */
#ifndef URNIC_BASE_VERSION_H
#define URNIC_BASE_VERSION_H

#include "base/export.h"

/* "major.minor.patch", in static storage. */
URNIC_EXPORT const char *urnic_version(void);

#endif

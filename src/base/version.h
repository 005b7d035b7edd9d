/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The version of this build. Every library, every program and the device attributes report this
 * version.
 */
#ifndef URNIC_BASE_VERSION_H
#define URNIC_BASE_VERSION_H

#include "base/export.h"

/* Returns "major.minor.patch", a string in static storage. */
URNIC_EXPORT const char *urnic_version(void);

#endif

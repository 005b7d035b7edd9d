/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FRONT_VERBS_SYSFS_IB_H
#define URNIC_FRONT_VERBS_SYSFS_IB_H

#include "front/verbs/device.h"

/*
 * Write the value of an attribute `file` of a port of an InfiniBand device, such as
 * "ports/1/state". Returns its length, as snprintf(3) does; -1 if there is no such file.
 */
int sysfs_ib_value(struct device *device, const char *file, char *buf, size_t size);

#endif

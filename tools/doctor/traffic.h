/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_TRAFFIC_H
#define TOOLS_TRAFFIC_H

#include "doctor/findings.h"

/*
 * Let a queue pair of the device write to itself, by packets, in a child. On an iWARP device the
 * child only creates the queue pair, which would need a connection to write.
 */
void check_traffic(struct findings *findings, const char *device);

#endif

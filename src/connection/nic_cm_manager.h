/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONNECTION_NIC_CM_MANAGER_H
#define URNIC_CONNECTION_NIC_CM_MANAGER_H

/*
 * The lock of RoCE's connection manager, for the files of this room. nic_cm.c has the manager, its
 * thread and its sockets; nic_cm_calls.c the program's calls.
 */

#include "cm/cm.h"

/* Lock the manager, and disable cancellation. Pass *ret_cancel to nic_cm_leave(). */
struct cm *nic_cm_enter(int *ret_cancel);

/* Call nic_cm_pump(), unlock the manager, and restore cancellation. */
void nic_cm_leave(int cancel);

/* Deliver the events and packets that a call of cm/cm.h has caused. The manager is locked. */
void nic_cm_pump(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_READY_H
#define URNIC_URNICD_READY_H

/*
 * Tell the service manager that started urnicd that urnicd listens, by sd_notify(3)'s protocol:
 * one datagram to the socket that NOTIFY_SOCKET names. Without that variable, or if the socket
 * cannot be reached, nothing happens; a manager that waits for the datagram then ends urnicd when
 * its limit on the start time has passed.
 */
void ready_tell(void);

#endif

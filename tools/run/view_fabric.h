/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_VIEW_FABRIC_H
#define TOOLS_VIEW_FABRIC_H

/*
 * Show the adapter of the fabric that URNIC_FABRIC names, if there is one, in the view's
 * /sys/class/infiniband. Returns 0 or -errno.
 */
int view_fabric_write(void);

#endif

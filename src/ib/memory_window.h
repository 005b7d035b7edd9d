/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows in a send queue: work requests that the NIC executes when their turn comes (IBTA
 * 10.6.7.2, 10.8.3).
 */
#ifndef URNIC_IB_MEMORY_WINDOW_H
#define URNIC_IB_MEMORY_WINDOW_H

#include "qp/qp.h"

/*
 * Execute a BIND_MW or LOCAL_INV. Returns FAULT_NONE or the fault. After a fault nothing has
 * changed.
 */
enum fault window_execute(struct qp *qp, const struct send_wqe *wqe);

#endif

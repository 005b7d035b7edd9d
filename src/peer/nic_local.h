/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_LOCAL_H
#define URNIC_PEER_NIC_LOCAL_H

/* Connections within this host: whom queue pairs meet by src/local. */

#include <stdbool.h>
#include <stdint.h>

/* borrower_wait_fn: `who` is the name of a process that has our NIC memory mapped. Any thread. */
bool nic_local_wait(uint32_t who, uint32_t round);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_LOCATOR_H
#define URNIC_PEER_NIC_LOCATOR_H

#include <stdint.h>

/* Where a process is to be found by others (nic_import.h). Plain data. */
struct nic_locator {
	uint32_t pid;
	uint32_t reserved;
	uint64_t address; /* in its address space */
	uint64_t nonce; /* that is found there */
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_LOCATOR_H
#define URNIC_PEER_NIC_LOCATOR_H

#include <stdint.h>

/* Where other processes find a process (nic_import.h). Plain data. */
struct nic_locator {
	uint32_t pid;
	uint32_t reserved;
	uint64_t address; /* where process `pid` has its struct location */
	uint64_t nonce; /* the nonce that the struct at `address` has */
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONNECTION_NIC_CM_IB_H
#define URNIC_CONNECTION_NIC_CM_IB_H

/*
 * The messages of the connection manager over InfiniBand: MADs of QP1, on a channel of its own to
 * the subnet. Each has a GRH, so a message's ends are GIDs, as over RoCE. For files of this room.
 *
 * The manager's lock guards these functions, except where they say otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"
#include "cm/cm.h"

/*
 * Open the channel. Returns 0 and its lease, or -errno. The NIC is locked; the manager may be, too.
 */
int nic_cm_ib_open(uint8_t *ret_slot);

/* The descriptor that is readable when messages may have come. -1: the channel is not open. */
int nic_cm_ib_fd(void);

/* Send a message. A message that cannot be sent counts as lost. */
void nic_cm_ib_send(const struct cm_path *path, const uint8_t packet[GSI_PACKET_BYTES]);

/* Pass each message that has come to `cm`, and call `pump` after each. */
void nic_cm_ib_receive(struct cm *cm, void (*pump)(void));

/*
 * nic_cm_claim() and nic_cm_unclaim(). Only a listener's service ID is claimed at the subnet; other
 * claims get a port that this process does not use. The manager is not locked.
 */
int nic_cm_ib_claim(struct agent_claim *claim);
void nic_cm_ib_unclaim(struct agent_claim *claim);

/* In the child of a fork. */
void nic_cm_ib_forget(void);

#endif

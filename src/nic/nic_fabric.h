/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_FABRIC_H
#define URNIC_NIC_NIC_FABRIC_H

/*
 * The process as the user of a node of an InfiniBand subnet (`urnic fabric up`).
 *
 * URNIC_FABRIC names the node. A process with a node has no device on a network interface: its
 * lanes have ports of InfiniBand (port/infiniband/ib.h), and it does not connect to urnicd. Each
 * lane has a channel of frames, whose lease is the lane's slot.
 *
 * The ports follow the subnet manager: a thread waits for events of the node, gives the lanes the
 * new state of the port, and calls the watcher.
 *
 * Any thread may call these functions.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "fabricd/attach_protocol.h"

struct fabric_client;
struct gid;
struct port_ib;
struct worker;

/* Does URNIC_FABRIC name a node? If so, the process has no other device. */
bool nic_fabric_is_wanted(void) URNIC_EXPORT_AS(nic_fabric_is_wanted);

/*
 * Connect to the subnet, unless the process is connected already. Returns 0, or -errno with the
 * reason in the log. *ret_node is the process's node, which lives as long as the process.
 */
int nic_fabric_open(const struct attach_node **ret_node) URNIC_EXPORT_AS(nic_fabric_open);

/* Get the present state of port `number`, which counts from 1. Returns 0 or -errno. */
int nic_fabric_port(uint32_t number, struct attach_port *ret_port) URNIC_EXPORT_AS(nic_fabric_port);

/* The GID at `index` of a port's table. Returns false if the table has no GID there. */
bool nic_fabric_gid(const struct attach_port *port, uint32_t index, struct gid *ret_gid)
	URNIC_EXPORT_AS(nic_fabric_gid);

/*
 * The function that gets the events of ports, whose numbers count from 1. `event` is a value of
 * enum attach_event_type; 0: the subnet's process has ended, so the device is gone.
 */
typedef void nic_fabric_event_fn(uint32_t port, uint32_t event);

/*
 * Call `on_event` for each event from now on. The thread starts with the first call; a later call
 * with the same function has no effect. Returns 0 or -errno.
 */
int nic_fabric_watch(nic_fabric_event_fn *on_event) URNIC_EXPORT_AS(nic_fabric_watch);

/*
 * A lane is being created: open its channel of frames. Returns 0, or -errno with the reason in the
 * log. The NIC is locked.
 */
int nic_fabric_lane_open(uint32_t index, uint8_t *ret_slot);

/* Give the lane's worker, which has not started, its port. Returns 0 or -errno. */
int nic_fabric_lane_begin(struct worker *worker);

/* The lane could not be created. */
void nic_fabric_lane_close(uint32_t index);

/*
 * nic_fabric_join(): let the lane receive the packets of a multicast LID. Returns 0 or -errno.
 * nic_fabric_leave() ends that.
 */
int nic_fabric_join(uint32_t lane, uint32_t port, uint16_t mlid, const struct gid *mgid);
void nic_fabric_leave(uint32_t lane, uint32_t port, uint16_t mlid, const struct gid *mgid);

/* --- the general services interface, for the process's connection manager --- */

/*
 * Open a channel for QP1 and its port. Returns 0 and the lease, which is the top byte of the
 * manager's communication IDs; or -errno, with the reason in the log. The caller serializes calls
 * on the port.
 */
int nic_fabric_gsi_open(struct port_ib **ret_port, uint8_t *ret_lease);

/* Give the port of nic_fabric_gsi_open() the present state of the node's ports. */
void nic_fabric_gsi_refresh(struct port_ib *gsi);

/*
 * nic_fabric_gsi_claim(): have the requests for a service ID sent to this process. Returns 0 or
 * -errno. nic_fabric_gsi_release() ends that.
 */
int nic_fabric_gsi_claim(uint64_t service_id);
void nic_fabric_gsi_release(uint64_t service_id);

/*
 * Have the fabric's process send the last messages (cm/cm.h) at `offset` of the NIC memory when
 * this process has ended.
 */
void nic_fabric_gsi_keep_last_messages(uint64_t offset);

/* The connection to the subnet; NULL: none. */
struct fabric_client *nic_fabric_client(void);

/* In the child of a fork: forget the connection, which is the parent's. */
void nic_fabric_forget(void);

#endif

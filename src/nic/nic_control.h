/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_CONTROL_H
#define URNIC_NIC_NIC_CONTROL_H

/*
 * The control thread does work of the NIC that may have to wait for urnicd, another process or a
 * set-up call. A lane never waits; it leaves such work to this thread. Each process has one control
 * thread, which starts with the first lane.
 *
 * The thread takes the NIC's lock and nic_agent_lock. It never waits with a lane locked.
 */

#include <stdint.h>

#include "port/udp/udp.h"

struct worker;

/*
 * Start the thread, if it does not run yet. The NIC is locked, and has a connection to urnicd.
 * Returns 0 or -errno.
 */
int nic_control_start(void);

/*
 * Have the control thread call the `work` hook of each part (nic_part.h) soon. Any thread may call,
 * with any lock held.
 */
void nic_control_wake(void);

/*
 * From now on the control thread calls the `work` hooks when `fd` is readable. A hook has to make
 * `fd` unreadable again. Any thread may call. Returns 0 or -errno.
 */
int nic_control_watch_work(int fd);

/*
 * From now on the control thread calls the `peers_check` hooks when `fd` breaks. `fd` is a pipe of
 * a peer process, and breaks when the process ends. Any thread may call. Returns 0 or -errno.
 */
int nic_control_watch_peer(int fd);

/*
 * The worker has received a packet for another slot: pass the packet through urnicd to the process
 * that leases that slot. If no thread uses the connection to urnicd, this function sends the packet
 * at once. Otherwise the control thread sends it later. The worker is locked.
 */
void nic_control_forward(struct worker *worker, uint8_t slot, const struct port_udp_packet *packet);

/*
 * A thread has ended its turn at urnicd: have the control thread send the packets that waited for
 * the end of the turn.
 */
void nic_control_send_strays(void);

/* In the child of a fork, where the thread does not exist: release its resources. */
void nic_control_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_CONTROL_H
#define URNIC_NIC_NIC_CONTROL_H

/*
 * The control thread: work of the NIC that may have to wait for urnicd, another process or a set-up
 * call. There is one per process, made with the first lane. Lanes never wait; they leave such work
 * here.
 *
 * The thread takes the NIC's lock and nic_agent_lock. It never waits with a lane locked.
 */

#include <stdint.h>

#include "port/udp.h"

struct worker;

/*
 * Make the thread, if there is none. The NIC is locked, and has a connection to urnicd. Returns 0
 * or -errno.
 */
int nic_control_start(void);

/*
 * Have the control thread call the `work` hook of each part (nic_part.h) soon. Any thread, with any
 * lock.
 */
void nic_control_wake(void);

/*
 * Call the `work` hooks, which empty the descriptor, when `fd` is readable. Any thread. Returns 0
 * or -errno.
 */
int nic_control_watch_work(int fd);

/*
 * Call the `peers_check` hooks when `fd`, a pipe of a peer process, breaks, because the process has
 * ended. Any thread. Returns 0 or -errno.
 */
int nic_control_watch_peer(int fd);

/*
 * A packet for another slot reached the worker: pass it to that slot's owner through urnicd. It is
 * sent at once when no thread uses the connection, else by the control thread. The worker is
 * locked.
 */
void nic_control_forward(struct worker *worker, uint8_t slot, const struct port_udp_packet *packet);

/* A thread has ended its turn at urnicd: send the packets that waited for that. */
void nic_control_send_strays(void);

/* In the child of a fork: there is no thread. */
void nic_control_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_CONTROL_H
#define URNIC_NIC_NIC_CONTROL_H

/*
 * The control thread: what the NIC does by itself and may have to wait for urnicd, another process
 * or a set-up call. One per process, made with the first lane. Lanes never wait: they leave work
 * here.
 *
 * It takes the NIC's lock and nic_agent_lock. It takes a lane's lock only while it waits for
 * nobody.
 */

#include <stdint.h>

#include "port/udp.h"

struct worker;

/*
 * Make the thread, if there is none. The NIC is locked, and has a connection to urnicd. 0 or
 * -errno.
 */
int nic_control_start(void);

/*
 * Have the control thread call the `work` of each part (nic_part.h) soon. Any thread, with any
 * lock.
 */
void nic_control_wake(void);

/*
 * Watch a descriptor, which the `work` of a part (nic_part.h) empties. Any thread. Returns 0 or
 * -errno.
 */
int nic_control_watch_work(int fd);

/* Watch one that breaks, once: the life of a peer on this host. Any thread. Returns 0 or -errno. */
int nic_control_watch_peer(int fd);

/*
 * A packet for another slot reached the worker: its owner gets it by way of urnicd. It is sent at
 * once when nobody talks to urnicd, else by the control thread. The worker is locked.
 */
void nic_control_forward(struct worker *worker, uint8_t slot, const struct port_udp_packet *packet);

/* A thread has ended its turn to ask urnicd: packets may have waited for that. */
void nic_control_send_strays(void);

/* In the child of a fork: there is no thread. */
void nic_control_forget(void);

#endif

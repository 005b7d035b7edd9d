/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread watches the interfaces for all identifiers. Listeners at the zero address also listen at
 * addresses that appear later. An identifier gets an event when the interface of its device is
 * removed (RDMA_CM_EVENT_DEVICE_REMOVAL) or gets another hardware address
 * (RDMA_CM_EVENT_ADDR_CHANGE).
 */
#ifndef URNIC_FRONT_RDMACM_ID_WATCH_H
#define URNIC_FRONT_RDMACM_ID_WATCH_H

#include "front/rdmacm/id/id.h"

/* Watch until the process ends. Repeated calls do no harm. */
void watch_start(void);

/* Add an identifier of the program; watch_remove() takes it out. */
void watch_add(struct id *id);
void watch_remove(struct id *id);

/* The forking thread locks this before a fork; the child then calls watch_fork_child(). */
extern pthread_mutex_t watch_lock;
void watch_fork_child(void);

#endif

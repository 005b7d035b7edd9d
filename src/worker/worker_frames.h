/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_FRAMES_H
#define URNIC_WORKER_WORKER_FRAMES_H

/*
 * The raw packet queue pairs of a lane. Each has an Ethernet port (port/af_packet.h), which the
 * holder of the lane's lock drives together with the lane's UDP port.
 *
 * All lanes of the process share the flow table. A reader holds any lane's lock; a writer holds the
 * locks of all lanes.
 */

#include "base/list.h"
#include "ether/raw.h"
#include "port/af_packet.h"
#include "worker/worker.h"

struct worker_frames {
	struct list link; /* in worker->frames */
	struct port_packet *port;
	struct raw_qp *raw;
	uint32_t flow_count;
};

extern struct flow_table *worker_flows;

/* Start and stop serving a queue pair. The worker is locked. */
void worker_frames_add(struct worker *worker, struct worker_frames *frames);
void worker_frames_remove(struct worker *worker, struct worker_frames *frames);

/* In the child of a fork: close all ports. */
void worker_frames_forget(struct worker *worker);

/* Let arriving frames wake the worker's thread, or not. The worker is locked. */
void worker_frames_watch(struct worker *worker, bool shall_watch);

/* Read the errors of all sockets, so that they no longer wake the thread. The worker is locked. */
void worker_frames_clear_errors(struct worker *worker);

/* Receive frames. The worker is locked. Returns the number of received frames. */
unsigned worker_frames_receive(struct worker *worker);

/* Send the queue pairs' frames. The worker is locked. */
void worker_frames_send(struct worker *worker);

#endif

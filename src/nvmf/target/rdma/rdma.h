/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_RDMA_H
#define URNIC_NVMF_TARGET_RDMA_H

/*
 * The target's RDMA transport, over librdmacm and libibverbs.
 *
 * An object of it serves one target, on the target's loop: it has the event channel of rdma_cm, a
 * listener for each port, and the queues. A host beyond its share of connections is refused with
 * "no resources". All calls are on the loop's thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "nvmf/common/loop.h"
#include "nvmf/target/core/transport.h"

struct target_rdma;
struct target_rdma_listener;

enum {
	TARGET_RDMA_SENTENCE_BYTES = 256,
};

/* 0 or -errno: -ENODEV without librdmacm's support on this machine. */
int target_rdma_create(struct target *target, struct loop *loop, struct target_rdma **ret_rdma);

/* All listeners are closed, and all queues have ended. NULL is fine. */
void target_rdma_destroy(struct target_rdma *rdma);

/*
 * Listen.
 *
 * `port`              Of the queues that connect here.
 * `address`           With the port number; the address may be 0.0.0.0 or ::.
 * `in_capsule_bytes`  Data in the capsules of I/O commands.
 * `entries_max`       Of an I/O queue; at most TARGET_IO_ENTRIES_MAX.
 * `sentence`          TARGET_RDMA_SENTENCE_BYTES; on failure what is wrong, and what to do.
 *
 * 0 or -errno.
 */
int target_rdma_listen(struct target_rdma *rdma, struct target_port *port,
	const struct sockaddr *address, uint32_t in_capsule_bytes, uint32_t entries_max,
	struct target_rdma_listener **ret_listener, char *sentence);

/* Accept no more. Queues that have connected stay. NULL is fine. */
void target_rdma_unlisten(struct target_rdma_listener *listener);

/* Queues that have not been released. */
unsigned target_rdma_queue_count(const struct target_rdma *rdma);

/*
 * Poll the queues all the time, instead of sleeping until there is something to do: for the least
 * latency, at the price of a processor.
 */
void target_rdma_set_busy(struct target_rdma *rdma, bool is_busy);

#endif

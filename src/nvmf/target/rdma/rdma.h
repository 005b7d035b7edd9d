/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_RDMA_H
#define URNIC_NVMF_TARGET_RDMA_H

/*
 * The target's RDMA transport, over librdmacm and libibverbs.
 *
 * A `struct target_rdma` serves one target, on the target's loop. It has the event channel of
 * rdma_cm, a listener for each port, and the queues. If a host has its share of connections
 * (target_admit()), further ones are rejected with "no resources". All calls are on the loop's
 * thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "nvmf/common/loop.h"
#include "nvmf/target/command/dispatch.h"

struct target_rdma;
struct target_rdma_listener;

enum {
	TARGET_RDMA_SENTENCE_BYTES = 256,
};

/* Returns 0 or -errno; -ENODEV if librdmacm does not work on this machine. */
int target_rdma_create(struct target *target, struct loop *loop, struct target_rdma **ret_rdma);

/* The caller has closed all listeners, and all queues have ended. `rdma` may be NULL. */
void target_rdma_destroy(struct target_rdma *rdma);

/*
 * Listen.
 *
 * `port`              The target's port, to which queues connect by this listener.
 * `address`           An address and a port number; the address may be 0.0.0.0 or ::.
 * `in_capsule_bytes`  The most data in the capsule of an I/O command.
 * `entries_max`       The most entries of an I/O queue; at most TARGET_IO_ENTRIES_MAX.
 * `sentence`          TARGET_RDMA_SENTENCE_BYTES bytes; on failure what is wrong, and what to do.
 *
 * Returns 0 or -errno.
 */
int target_rdma_listen(struct target_rdma *rdma, struct target_port *port,
	const struct sockaddr *address, uint32_t in_capsule_bytes, uint32_t entries_max,
	struct target_rdma_listener **ret_listener, char *sentence);

/* Close a listener. Its connected queues stay. `listener` may be NULL. */
void target_rdma_unlisten(struct target_rdma_listener *listener);

/* The number of queues that have not been freed. */
unsigned target_rdma_queue_count(const struct target_rdma *rdma);

/*
 * Poll the queues all the time, instead of sleeping while there is nothing to do. This gives the
 * lowest latency, but uses a whole processor.
 */
void target_rdma_set_busy(struct target_rdma *rdma, bool is_busy);

#endif

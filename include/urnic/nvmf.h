/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburnic-nvmf: namespaces of NVMe over Fabrics as arrays of blocks.
 *
 * A program opens a namespace, reads and writes it, and closes it:
 *
 *     struct urnic_nvmf_settings settings = {.traddr = "192.0.2.1", .subnqn = "nqn..."};
 *     char reason[URNIC_NVMF_REASON_BYTES];
 *     struct urnic_nvmf *ns;
 *
 *     if (urnic_nvmf_open(&settings, &ns, reason))
 *             errx(1, "%s", reason);
 *     urnic_nvmf_write(ns, 0, data, bytes, 0);
 *     urnic_nvmf_flush(ns);
 *     urnic_nvmf_close(ns);
 *
 * A synchronous call waits until its request has ended. For many requests at once, fill a struct
 * urnic_nvmf_io for each, hand it to urnic_nvmf_submit(), and call urnic_nvmf_process(), which
 * calls done() of the requests that have ended. A program may mix both ways: a synchronous call
 * also processes submitted requests while it waits.
 *
 * The library has no threads, and works only inside its calls. So a program calls
 * urnic_nvmf_process() at least every two seconds. Otherwise the Keep Alive Timeout ends the
 * connection, and the next call connects anew. A namespace and all of its requests belong to one
 * thread. Different namespaces may be used by different threads at the same time.
 *
 * When the connection is lost, requests wait until the library has connected again. The library
 * then repeats the requests that the target has not answered. Before that, it compares the
 * namespace's NGUID, EUI64, UUID and block size with those of the first connection. If they differ,
 * the target has another namespace under the same number. Then all requests end with -EIO, and none
 * is sent, until the target has the first namespace again. After `loss_seconds` without a
 * connection all requests end with -ENOTCONN.
 *
 * Errors are negative errnos. A read or write that failed may have been executed in part. Data is
 * durable after urnic_nvmf_flush(), or when a write with URNIC_NVMF_FUA is done.
 */
#ifndef URNIC_NVMF_H
#define URNIC_NVMF_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { URNIC_NVMF_REASON_BYTES = 256 };

struct urnic_nvmf;

/* A member that is NULL or 0 has the default in parentheses. */
struct urnic_nvmf_settings {
	const char *transport; /* "tcp" or "rdma" ("tcp") */
	const char *traddr; /* the target's address or name; no default */
	const char *trsvcid; /* the target's port ("4420") */
	const char *subnqn; /* the subsystem; no default */
	const char *hostnqn; /* the NQN of this host (made from `hostid`) */
	const uint8_t *hostid; /* the identity of this host: 16 bytes, not all zero; no default */
	uint32_t nsid; /* the namespace (the first active one) */
	uint32_t io_queues; /* connections for data, at most 64 (1) */
	uint32_t queue_depth; /* pending commands of each connection, at most 1,024 (128) */
	uint32_t loss_seconds; /* seconds without a connection after which requests fail (600) */
	uint32_t header_digest; /* 1: digests protect the headers over TCP (0) */
	uint32_t data_digest; /* 1: digests protect the data over TCP (0) */
	uint64_t reserved[8]; /* to be set to 0 */
};

/*
 * Connect, and wait until the namespace can be used.
 *
 * `ret_reason`  NULL, or URNIC_NVMF_REASON_BYTES bytes. After a failure it has a sentence that says
 *               what to do.
 *
 * Returns 0 or a negative errno, for example -EINVAL: the settings are wrong; -ECONNREFUSED;
 * -ETIMEDOUT; -ENXIO: the namespace does not exist.
 */
int urnic_nvmf_open(
	const struct urnic_nvmf_settings *settings, struct urnic_nvmf **ret_ns, char *ret_reason);

/*
 * End the connection. Pending requests end with -ENOTCONN: done() is called before this call
 * returns. `ns` may be NULL.
 */
void urnic_nvmf_close(struct urnic_nvmf *ns);

/* The size of the namespace may change while it is open; the size of its blocks may not. */
uint64_t urnic_nvmf_size_bytes(const struct urnic_nvmf *ns);
uint32_t urnic_nvmf_block_bytes(const struct urnic_nvmf *ns);

/* How often the library has lost the connection and connected again. */
uint64_t urnic_nvmf_reconnects(const struct urnic_nvmf *ns);

enum urnic_nvmf_op {
	URNIC_NVMF_READ = 0,
	URNIC_NVMF_WRITE = 1,
	URNIC_NVMF_FLUSH = 2,
	URNIC_NVMF_TRIM = 3, /* the content may become undefined */
	URNIC_NVMF_WRITE_ZEROES = 4,
};

enum { URNIC_NVMF_FUA = 1 };

/*
 * A request. From urnic_nvmf_submit() to done() the caller touches neither the request nor its
 * data.
 */
struct urnic_nvmf_io {
	uint32_t op; /* enum urnic_nvmf_op */
	uint32_t flags; /* URNIC_NVMF_FUA or 0 */
	uint64_t offset_bytes; /* whole blocks; unused by a flush */
	uint64_t length_bytes; /* one or more whole blocks; unused by a flush */
	void *data; /* for reads and writes: length_bytes bytes */
	/*
	 * The library calls done() once, inside one of the program's calls of the library. done()
	 * may submit requests, also this one. `error` is 0 or a negative errno: -EINVAL for a range
	 * that is not whole blocks; for a range beyond the end, -EINVAL for a read and -ENOSPC for
	 * other requests; -EROFS, -EOPNOTSUPP, -EIO or -ENOTCONN.
	 */
	void (*done)(struct urnic_nvmf_io *io, int error);
	void *user; /* the caller's */
	uint64_t reserved[16]; /* the library's, until done() */
};

/* Start a request; done() may run within this call. Requests may end in any order. */
void urnic_nvmf_submit(struct urnic_nvmf *ns, struct urnic_nvmf_io *io);

/*
 * Call done() for requests that have ended.
 *
 * `wait_ns`  The call sleeps until something happens, but at most for this time; 0: it does not
 *            sleep.
 *
 * Returns the number of requests that are still pending.
 */
uint32_t urnic_nvmf_process(struct urnic_nvmf *ns, uint64_t wait_ns);

/* Synchronous calls. Each returns 0, or a negative errno as for done(). */
int urnic_nvmf_read(struct urnic_nvmf *ns, uint64_t offset_bytes, void *data, uint64_t bytes);
int urnic_nvmf_write(struct urnic_nvmf *ns, uint64_t offset_bytes, const void *data, uint64_t bytes,
	uint32_t flags);
int urnic_nvmf_flush(struct urnic_nvmf *ns);

#ifdef __cplusplus
}
#endif

#endif

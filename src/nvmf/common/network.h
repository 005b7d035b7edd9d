/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_NETWORK_H
#define URNIC_NVMF_COMMON_NETWORK_H

/*
 * Byte streams between machines: TCP sockets of the kernel, or streams of a simulator.
 *
 * A loop has a network (loop_network()). The network chooses the numbers of its descriptors, so a
 * simulator's descriptors are unknown to the kernel. A loop_watch() of a descriptor reports when
 * that descriptor is ready. No call blocks. Each call returns -errno if it fails. send() returns
 * -EAGAIN while the stream has no room, receive() while it has no bytes.
 *
 * One thread at a time uses a descriptor.
 */

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct loop_watch;

struct network {
	/*
	 * Start to connect. The descriptor becomes writable when the connection is made or has
	 * failed. close() of such a stream drops the bytes that have not been sent yet.
	 *
	 * `local`  The local address; any address if its ss_family is 0.
	 *
	 * Returns a descriptor or -errno.
	 */
	int (*connect)(struct network *network, const struct sockaddr_storage *local,
		const struct sockaddr_storage *remote);
	/* The result of connect(), once the descriptor is writable: 0 or -errno. */
	int (*connected)(struct network *network, int fd);

	/* Returns a descriptor, readable while a connection waits for accept(), or -errno. */
	int (*listen)(struct network *network, const struct sockaddr_storage *address);
	/* Returns a descriptor; -EAGAIN if no connection waits; or another -errno. */
	int (*accept)(struct network *network, int fd, struct sockaddr_storage *ret_peer);

	/* Send a part of the bytes, at least one. Returns the number of bytes sent, or -errno. */
	ssize_t (*send)(
		struct network *network, int fd, const struct iovec *parts, size_t part_count);
	/* Returns the number of bytes received; 0 if the peer has closed the stream; or -errno. */
	ssize_t (*receive)(
		struct network *network, int fd, const struct iovec *parts, size_t part_count);
	void (*close)(struct network *network, int fd);

	/*
	 * The network of a virtual loop reports watch->events of the descriptor watch->fd from now
	 * on: it calls loop_report() while some of these events are true. If watch->events is 0,
	 * the network ends its reports. This member is NULL in network_sockets.
	 */
	void (*watch)(struct network *network, struct loop_watch *watch);
};

extern struct network network_sockets;

/* Write an address and its port: 10.0.0.1:4420 or [fd00::1]:4420. */
void network_address_text(const struct sockaddr_storage *address, char *text, size_t text_bytes);

#endif

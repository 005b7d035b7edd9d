/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_NETWORK_H
#define URNIC_NVMF_COMMON_NETWORK_H

/*
 * Byte streams between machines: TCP sockets of the kernel, or streams of a simulator.
 *
 * A loop has a network (loop_network()). The descriptors of its streams are the network's own, and
 * loop_watch() tells when they are ready, as for sockets. No call blocks. Each returns -errno if it
 * fails; send() and receive() return -EAGAIN while the stream has no room, or no bytes.
 *
 * One thread at a time uses a descriptor.
 */

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct loop_watch;

struct network {
	/*
	 * Start to connect. The descriptor is writable once the connection is made or has failed.
	 * close() of such a stream drops what the peer has not got yet.
	 *
	 * `local`  ss_family 0: any address.
	 *
	 * A descriptor or -errno.
	 */
	int (*connect)(struct network *network, const struct sockaddr_storage *local,
		const struct sockaddr_storage *remote);
	/* After connect(), when the descriptor is writable: 0 or -errno. */
	int (*connected)(struct network *network, int fd);

	/* A descriptor that is readable when accept() has something to return; or -errno. */
	int (*listen)(struct network *network, const struct sockaddr_storage *address);
	/* A descriptor, -EAGAIN, or another -errno. */
	int (*accept)(struct network *network, int fd, struct sockaddr_storage *ret_peer);

	/* At least 1 byte of at least 1, or -errno. */
	ssize_t (*send)(
		struct network *network, int fd, const struct iovec *parts, size_t part_count);
	/* The same; 0: the peer has closed. */
	ssize_t (*receive)(
		struct network *network, int fd, const struct iovec *parts, size_t part_count);
	void (*close)(struct network *network, int fd);

	/*
	 * For the network of a virtual loop: `watch`, whose descriptor is watch->fd, wants
	 * watch->events from now on; 0 ends the watch. The network calls loop_report() while some
	 * of these events are true.
	 */
	void (*watch)(struct network *network, struct loop_watch *watch);
};

extern struct network network_sockets;

#endif

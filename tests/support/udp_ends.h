/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two UDP ports over real sockets, `udp_a` that sends and `udp_b` that receives, in network
 * namespaces of their own: one with nothing but loopback, and a veth pair with an MTU of 1500. A
 * packet's tag determines its contents, so that the receiver can check them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "port/udp/udp.h"

enum { UDP_BTH = 12, UDP_RECEIVED_MAX = 4096, UDP_WAIT_MS = 60000 };

struct udp_end {
	int netns;
	struct port_udp *port;
	struct port_udp_counters counters;
	struct gid gid;
};

extern struct udp_end udp_a, udp_b;

/* What has come to `udp_b` since the ends were opened, in its order. */
extern struct udp_received {
	uint32_t count;
	uint32_t bytes[UDP_RECEIVED_MAX];
	uint32_t tag[UDP_RECEIVED_MAX];
	uint8_t tos;
} udp_received;

/* Make the namespaces, once. False where this process may not. */
bool udp_ends_enter(void);

/* Both in the namespace that has loopback only. */
void udp_ends_open(const char *address_a, const char *address_b);

/*
 * Open one port at each end of the veth pair (10.99.0.1, fd00:99::1; ...2); skips the test if there
 * is no veth pair.
 */
void udp_ends_open_veth(const char *address_a, const char *address_b);

/* As a teardown of cmocka. */
int udp_ends_close(void **state);

struct gid udp_gid(const char *text);

/* A socket of the caller's in the namespace that it is in, bound to `port`. */
int udp_bound_socket(const struct gid *gid, uint16_t port);

uint32_t udp_path_to(
	struct udp_end *from, const struct udp_end *to, uint8_t dscp, uint8_t hop_limit);

/* The packet of `bytes`, at least 12, that `tag` stands for. */
void udp_fill(uint8_t *data, uint32_t bytes, uint32_t tag);

void udp_stage(struct udp_end *end, uint32_t path, uint32_t bytes, uint32_t tag);

/*
 * Send a run of packets. Their bytes from `from` on are not in the port's buffer, but in `borrowed`
 * (UDP_BORROWED_BYTES_MAX), one packet's behind the other's.
 */
enum { UDP_BORROWED_BYTES_MAX = 8192 };
void udp_stage_borrowed(struct udp_end *end, uint32_t path, uint32_t bytes, uint32_t from,
	uint32_t tag, uint32_t packets, void *borrowed);

/* Receive at `udp_b` what is there. Returns the datagrams. */
int udp_receive_some(void);

/* Receive at `udp_b` until `count` packets have come since it was opened, each as its tag says. */
void udp_receive(uint32_t count);

/* The first `count` packets had the tags 0, 1, 2 ... */
void udp_assert_in_order(uint32_t count);

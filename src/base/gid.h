/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_GID_H
#define URNIC_BASE_GID_H

/*
 * A global identifier: 16 bytes in network order, as in a GRH (IBTA 4.1).
 *
 * In RoCEv2 a GID is an IP address (IBTA annex A17): an IPv6 address unchanged, an IPv4 address
 * a.b.c.d as ::ffff:a.b.c.d. A link-local GID does not say on which interface it is valid, so code
 * that stores a GID also stores an interface index.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct gid {
	uint8_t raw[16];
};

static inline bool gid_is_equal(const struct gid *a, const struct gid *b)
{
	return memcmp(a->raw, b->raw, sizeof(a->raw)) == 0;
}

static inline bool gid_is_zero(const struct gid *gid)
{
	static const struct gid zero;

	return gid_is_equal(gid, &zero);
}

static inline bool gid_is_ipv4(const struct gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

/* fe80::/10: every interface of a machine may have the same address of this range. */
static inline bool gid_is_link_local(const struct gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* 127.0.0.0/8 or ::1. */
static inline bool gid_is_loopback(const struct gid *gid)
{
	static const struct gid loopback = {{[15] = 1}};

	return gid_is_ipv4(gid) ? gid->raw[12] == 127 : gid_is_equal(gid, &loopback);
}

static inline bool gid_is_multicast(const struct gid *gid)
{
	return gid_is_ipv4(gid) ? (gid->raw[12] & 0xf0) == 0xe0 : gid->raw[0] == 0xff;
}

/*
 * An IPv6 group whose packets stay within an interface (RFC 4291 section 2.7: scope 1, and the
 * reserved 0). Kernels neither send nor receive them.
 */
static inline bool gid_is_interface_local(const struct gid *gid)
{
	return gid->raw[0] == 0xff && (gid->raw[1] & 0x0f) <= 1;
}

/*
 * The IP address that a GID stands for. It differs from the GID only for an IPv4 multicast address
 * in RoCEv1's form ff0e::ffff:a.b.c.d, which older programs use.
 */
static inline struct gid gid_ip_address(const struct gid *gid)
{
	static const uint8_t prefix[12] = {0xff, 0x0e, [10] = 0xff, [11] = 0xff};
	struct gid address = *gid;

	if (memcmp(gid->raw, prefix, sizeof(prefix)) == 0)
		address.raw[0] = address.raw[1] = 0;
	return address;
}

/* `address` is four bytes in network order. */
static inline struct gid gid_from_ipv4(const uint8_t address[4])
{
	struct gid gid = {{[10] = 0xff, [11] = 0xff}};

	memcpy(gid.raw + 12, address, 4);
	return gid;
}

#endif

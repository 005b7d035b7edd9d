/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_PSN_H
#define URNIC_WIRE_PSN_H

/*
 * The 24-bit numbers of the transport: packet sequence numbers, message sequence numbers and queue
 * pair numbers.
 *
 * Each is a one-member struct. So a PSN cannot be passed as a QPN, and `a < b`, which is wrong for
 * numbers that wrap, does not compile. Invariant: value < 2^24; the functions here keep it.
 * psn_from(), msn_from() and qpn_from() take the low 24 bits of any integer.
 */

#include <stdbool.h>
#include <stdint.h>

/* PSNs, MSNs and queue pair numbers have 24 bits. */
#define U24_BITS 24
#define U24_MASK ((1u << U24_BITS) - 1)

struct psn {
	uint32_t value;
};

struct msn {
	uint32_t value;
};

struct qpn {
	uint32_t value;
};

/* The queue pair number of the destination of multicast datagrams. */
#define QPN_MULTICAST ((struct qpn){0xffffff})

/* Distance from `from` to `to`, in the shorter direction: -2^23 .. 2^23 - 1. */
static inline int32_t u24_distance(uint32_t to, uint32_t from)
{
	return (int32_t)((to - from) << (32 - U24_BITS)) >> (32 - U24_BITS);
}

static inline struct psn psn_from(uint32_t value)
{
	return (struct psn){value & U24_MASK};
}

/* The PSN `count` packets after `psn`, modulo 2^24. psn_add(p, -1u) is the PSN before p. */
static inline struct psn psn_add(struct psn psn, uint32_t count)
{
	return psn_from(psn.value + count);
}

/* How many packets `a` is after `b`; negative when `a` is before `b`. */
static inline int32_t psn_diff(struct psn a, struct psn b)
{
	return u24_distance(a.value, b.value);
}

static inline bool psn_before(struct psn a, struct psn b)
{
	return psn_diff(a, b) < 0;
}

static inline bool psn_equal(struct psn a, struct psn b)
{
	return a.value == b.value;
}

static inline struct msn msn_from(uint32_t value)
{
	return (struct msn){value & U24_MASK};
}

static inline struct msn msn_add(struct msn msn, uint32_t count)
{
	return msn_from(msn.value + count);
}

/* How many messages `a` is after `b`; negative when `a` is before `b`. */
static inline int32_t msn_diff(struct msn a, struct msn b)
{
	return u24_distance(a.value, b.value);
}

static inline struct qpn qpn_from(uint32_t value)
{
	return (struct qpn){value & U24_MASK};
}

static inline bool qpn_equal(struct qpn a, struct qpn b)
{
	return a.value == b.value;
}

#endif

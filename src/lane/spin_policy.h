/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_SPIN_POLICY_H
#define URNIC_LANE_SPIN_POLICY_H

/*
 * How long a lane's thread spins after packets that only it can answer, before it sleeps.
 *
 * A peer's READs and atomics need nothing of a program that sleeps: the lane's thread answers them.
 * If that thread sleeps between two requests, each request waits for a wake-up. If it spins, it
 * takes a processor. `struct spin_policy` decides between both, from the gaps between arrivals. A
 * gap is the time from one turn with packets to the next turn with packets.
 *
 * - A gap is short if the thread has slept for SPIN_PROBE_NS at most. Each short gap doubles the
 *   window, which is how long the thread spins after packets. Each longer gap halves it.
 * - If packets arrive while the thread spins, the gap is bridged. The window is then four times
 *   the mean of bridged gaps.
 * - If the longest window bridges no gap, the flow is too slow for spinning. The thread then only
 *   sleeps for SPIN_REST_MIN arrivals. Each further failure doubles that, up to SPIN_REST_MAX.
 * - The time of spinning is paid from a credit. The credit grows by one SPIN_SHARE-th of the time
 *   that passes, up to the share of SPIN_PERIOD_NS. A bridged gap costs SPIN_WAKE_NS less, because
 *   a sleep and a wake-up would have taken that much of a processor. So spinning takes at most a
 *   quarter of one processor more than sleeping, averaged over 100 ms.
 * - If two looks at the sockets are SPIN_STOLEN_NS apart, another thread has got the processor
 *   meanwhile. The end of a turn with packets counts as a look. The lane's thread then only sleeps
 *   for SPIN_STOLEN_REST_NS: a packet wakes it in time, and the other thread keeps the processor
 *   between packets.
 *
 * The module is pure, as is poll_policy.h: the worker passes times, and does what the functions
 * return. The lane's thread owns the policy. At first all fields are 0, and `is_off` is as the user
 * wants it (URNIC_POLL).
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	/* The shortest window. A peer that polls sends its next request within 5 to 10 us. */
	SPIN_NS_MIN = 16000,
	/*
	 * The longest window. A peer that sleeps sends its next request after 50 us or more. To
	 * bridge such gaps takes most of a processor, and saves less than half of the latency.
	 */
	SPIN_NS_MAX = 64000,
	/*
	 * The longest sleep after which spinning is worth a try: SPIN_NS_MAX, and the time to wake
	 * a thread. That takes 30 to 90 us on an idle virtual machine, twice that on a busy one.
	 */
	SPIN_PROBE_NS = 250000,
	/* The processor time of a sleep and a wake-up, in the kernel and in urnic. */
	SPIN_WAKE_NS = 12000,
	/* Spinning takes one SPIN_SHARE-th of a processor, averaged over SPIN_PERIOD_NS. */
	SPIN_SHARE = 4,
	SPIN_PERIOD_NS = 100000000,
	SPIN_CREDIT_NS_MAX = SPIN_PERIOD_NS / SPIN_SHARE,
	/* A turn without packets takes some microseconds; to lose the processor takes longer. */
	SPIN_STOLEN_NS = 50000,
	/*
	 * Another thread gets the processor when this one has spun for a slice, of 0.1 to 4 ms. So
	 * a rest of this length leaves the other thread 92 % at least. Not measured.
	 */
	SPIN_STOLEN_REST_NS = 50000000,
	/*
	 * After the longest window has bridged no gap, the thread does not spin for this many
	 * arrivals.
	 */
	SPIN_REST_MIN = 64,
	SPIN_REST_MAX = 1024,
	/* A bridged gap changes the mean by one SPIN_MEAN-th of the difference. */
	SPIN_MEAN = 8,
	/* The window is this many mean gaps. */
	SPIN_WINDOW_GAPS = 4,
};

struct spin_policy {
	bool is_off;
	bool is_spinning; /* since `served_ns` */
	uint64_t served_ns; /* the last turn with packets; 0: none */
	/* The last turn of any kind while the thread spins; 0: the turn at `served_ns` lasts */
	uint64_t looked_ns;
	uint64_t window_ns; /* 0: the thread sleeps after packets */
	uint64_t gap_ns; /* the mean of bridged gaps; 0: none was bridged since the last rest */
	uint64_t credit_ns;
	uint64_t credited_ns; /* the time up to which the credit has been added */
	uint64_t stolen_until_ns; /* the end of the rest after another thread got the processor */
	uint32_t rest; /* the thread does not spin for this many further arrivals */
	uint32_t rest_next; /* the length of the next rest; 0: SPIN_REST_MIN */
};

/*
 * A turn at `now_ns` has received packets. Returns whether the thread spins. `may_spin`: the
 * program leaves the lane to the thread.
 */
bool spin_policy_packets(struct spin_policy *policy, bool may_spin, uint64_t now_ns);

/* The last turn has ended at `now_ns`: what it had to send has left. */
void spin_policy_turn_over(struct spin_policy *policy, uint64_t now_ns);

/* A turn at `now_ns` has received nothing. Returns whether the thread goes on spinning. */
bool spin_policy_silence(struct spin_policy *policy, uint64_t now_ns);

#endif

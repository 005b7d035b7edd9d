/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bias: what makes a lock cheap for the one thread that mostly takes it.
 *
 * Beside a lock's word lies a bias. Its owner enters with a plain store and two plain loads, no atomic instruction;
 * everybody else takes the word and then revokes the bias, which costs the others' processors an interrupt. The
 * thread that takes the word many times in a row before any other does becomes the owner, and may become it again; each time that this turns
 * out wrong it takes twice as many.
 *
 * Why nobody meets anybody inside. The owner stores `is_inside`, then loads `owner`; who revokes stores 0 to `owner`,
 * has every thread of the process pass a full barrier (membarrier(2)), then loads `is_inside`. An owner that still
 * found itself in `owner` did so before the barrier, so its store, which comes first in its program, is seen after
 * it: it is waited for. One that looks later finds 0 and stays outside. Nobody becomes the owner but who has the
 * word, and has seen nobody inside. Leaving is a release store that is waited for by acquire loads. An owner may stand
 * still for as long as it likes before it stores `is_inside`, and takes that back when it goes on: so there is only one thread that ever
 * writes it, or one thread's coming would undo another one's.
 *
 * A thread of the same address as one that has ended is that one, as far as this goes: it was not inside.
 * A signal handler that takes a lock of the thread that it interrupted waits for ever, as with any lock.
 *
 * The barrier is a system call, and comes from outside (bias_begin). Without it, on other machines than
 * x86-64 and under ThreadSanitizer, which knows nothing of such barriers, there is never an owner, and only the word
 * counts. Within a process.
 */
#ifndef URNIC_BASE_BIAS_H
#define URNIC_BASE_BIAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"

enum {
	BIAS_STREAK_MIN = 512, /* holds in a row that make an owner: a power of two */
	BIAS_STREAK_MAX = 1 << 14, /* after many revocations */
};

struct bias {
	_Atomic uintptr_t owner; /* 0: nobody */
	_Atomic uint32_t
		is_inside; /* the owner is, or is about to find out that it is the owner no more */
	/* Of whoever has the lock. */
	uint32_t is_light; /* it entered as the owner */
	uintptr_t only; /* the one thread that may be the owner; 0: any may become that */
	uintptr_t last; /* who last had the word */
	uint32_t streak; /* times in a row */
	uint32_t streak_min; /* that make it the owner; 0: BIAS_STREAK_MIN */
};

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BIAS_IS_OFF 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define BIAS_IS_OFF 1
#endif

/* From now on there are owners. `barrier` returns when every thread of the process has passed a full memory barrier. */
void bias_begin(void (*barrier)(void));

/* A number that no other thread has now; never 0. */
static inline uintptr_t bias_self(void)
{
#ifdef BIAS_IS_OFF
	return 1;
#else
	uintptr_t self;

	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
#endif
}

/* The owner's way in. False: take the word, and then bias_revoke(). */
static inline bool bias_enter(struct bias *bias)
{
#ifdef BIAS_IS_OFF
	(void)bias;
	return false;
#else
	uintptr_t self = bias_self();

	if (atomic_load_explicit(&bias->owner, memory_order_relaxed) != self ||
		atomic_load_explicit(&bias->is_inside, memory_order_relaxed))
		return false;
	atomic_store_explicit(&bias->is_inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* the other half is the barrier */
	if (atomic_load_explicit(&bias->owner, memory_order_acquire) != self) {
		atomic_store_explicit(&bias->is_inside, 0, memory_order_relaxed);
		return false;
	}
	bias->is_light = 1;
	return true;
#endif
}

/* The way out. False: the caller has the word, and gives it back after bias_note(). */
static inline bool bias_leave(struct bias *bias)
{
	if (!bias->is_light)
		return false;
	bias->is_light = 0;
	atomic_store_explicit(&bias->is_inside, 0, memory_order_release);
	return true;
}

/* The caller has just taken the word. Is there anybody to revoke? */
static inline bool bias_is_set(const struct bias *bias)
{
	return atomic_load_explicit(&bias->owner, memory_order_relaxed) != 0 ||
		atomic_load_explicit(&bias->is_inside, memory_order_acquire) != 0;
}

/*
 * It is so: there is no owner any more when this returns. False: one is inside still; look again with bias_is_set(), or give
 * the word back.
 */
bool bias_revoke(struct bias *bias) URNIC_EXPORT_AS(bias_revoke);

/* The caller, who has had the word very often, becomes the owner if it may. */
void bias_offer(struct bias *bias) URNIC_EXPORT_AS(bias_offer);

/* The caller is about to give back the word. */
static inline void bias_note(struct bias *bias)
{
#ifdef BIAS_IS_OFF
	(void)bias;
#else
	uintptr_t self = bias_self();

	if (bias->last != self) {
		bias->last = self;
		bias->streak = 0;
	} else if (++bias->streak % BIAS_STREAK_MIN == 0) {
		bias_offer(bias);
	}
#endif
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters; newer.h has their calls. */
#ifndef URNIC_FRONT_VERBS_COMP_COUNTER_H
#define URNIC_FRONT_VERBS_COMP_COUNTER_H

/* The most completion counters of a process on one device; each costs a few words. */
enum { COMP_COUNTER_COUNT_MAX = 16384 };

#endif

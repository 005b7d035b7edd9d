/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_ONCE_H
#define URNIC_BASE_ONCE_H

/*
 * Read plain data that another process may change at any time. The caller checks and uses the value
 * that this returns, and never reads `place` again.
 */
#define READ_ONCE(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_ONCE_H
#define URNIC_BASE_ONCE_H

/*
 * Read plain data that another process may change at any time: once, as it is at that moment. What
 * was read is checked and then used; it is never read again.
 */
#define READ_ONCE(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

#endif

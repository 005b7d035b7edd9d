/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_KERNEL_H
#define URNIC_OS_KERNEL_H

/* Abilities of the running kernel that only its version shows. Any thread may call. */

#include <stdbool.h>
#include <stdio.h>
#include <sys/utsname.h>

/*
 * Do packet sockets with PACKET_VNET_HDR get super-packets of UDP, with the length of the segments?
 * Linux before 6.2 drops them.
 */
static inline bool kernel_knows_super_packets(void)
{
	struct utsname name;
	unsigned major, minor;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
		(major > 6 || (major == 6 && minor >= 2));
}

#endif

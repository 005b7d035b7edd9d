/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_PRIVILEGE_H
#define URNIC_URNICD_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

enum { PRIVILEGED_PORTS = 1024 /* the first that takes no privilege */ };

/*
 * May a process claim a port below PRIVILEGED_PORTS: has it CAP_NET_BIND_SERVICE in the user
 * namespace that owns our network namespace? The kernel's rdma_cm asks for the same.
 *
 * `pid`    It is on the other end of a connection.
 * `uid`    Its effective user when it connected. What it has become since, by executing a setuid
 *          program, does not count.
 * `pidfd`  Of it: a number that another process has by now says nothing. -1: it says nothing at
 *          all.
 */
bool privilege_has_low_ports(pid_t pid, uid_t uid, int pidfd);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_PRIVILEGE_H
#define URNIC_URNICD_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

enum { PRIVILEGED_PORTS = 1024 /* the first port that needs no privilege */ };

/*
 * May a process claim a port below PRIVILEGED_PORTS? Like the kernel's rdma_cm, this requires
 * CAP_NET_BIND_SERVICE in the user namespace that owns our network namespace.
 *
 * `pid`    The process at the other end of a connection.
 * `uid`    Its effective user when it connected. Rights that it has gained since, by executing a
 *          setuid program, do not count.
 * `pidfd`  A pidfd of the process, which proves that `pid` is not reused. -1: the answer is no.
 */
bool privilege_has_low_ports(pid_t pid, uid_t uid, int pidfd);

#endif

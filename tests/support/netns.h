/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NETNS_H
#define URNIC_TESTS_SUPPORT_NETNS_H

/*
 * Network namespaces of a test's own, so that no other program uses port 4791 or the addresses.
 *
 * A namespace lives as long as its descriptor or a process in it; nothing is left behind. For tests
 * with one thread.
 */

/*
 * Move this process into a new network namespace with its loopback interface up; without privileges
 * into a new user namespace too.
 *
 * Returns a descriptor of it, or -1: the caller skips (exit 77), the reason is printed.
 */
int netns_enter_new(void);

/* Move this process into the namespace of `fd`. */
void netns_switch(int fd);

/*
 * Join two namespaces by a veth pair: va with 10.99.0.1/24 and fd00:99::1/64 in `a`, vb with .2
 * and ::2 in `b`, both up and ready. Leaves the process in `a`. Returns 0, or -1 with the reason
 * printed.
 */
int netns_join(int a, int b, unsigned mtu_bytes);

/* netns_join() with so many queues at both ends, not one for each processor. */
int netns_join_queues(int a, int b, unsigned mtu_bytes, unsigned queues);

/* Wait until what is sent to an IPv6 address of this namespace's own arrives. */
void netns_await(const char *address);

/* Run a command line with the shell, quietly. Returns its exit status. */
__attribute__((format(printf, 1, 2))) int netns_run(const char *format, ...);

#endif

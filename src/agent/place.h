/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_PLACE_H
#define URNIC_AGENT_PLACE_H

/*
 * Where processes of one host find each other's listening sockets: those of urnicd, and of `urnic
 * capture`.
 *
 * A socket is a path in a directory into which only its owner can write. The path is named after
 * the network namespace, by the number that the kernel gives it (SO_NETNS_COOKIE, Linux 5.14),
 * which no other namespace gets until the next start of the kernel. The directories, in this order:
 *
 *	/run/urnic                          root's; of root's urnicd and of `urnicd --system`
 *	/run/user/UID/urnic                 a user's
 *	/dev/shm/urnic-UID, /tmp/urnic-UID  a user's, where the one above cannot be made
 *	/dev/shm/urnic-UID.XXXXXX, /tmp/... the same, where another user has taken these names
 *
 * A listener is in the first that can be made; whoever looks for it looks in all. UID is the user's
 * number outside the user namespace, so that the roots of two user namespaces do not meet in one
 * name. No directory depends on the environment: two programs of one user always look in the same
 * ones.
 *
 * What counts as a user's directory: its owner is the user, nobody else has any right to it, and it
 * can be opened. The last is a proof even where the kernel shows every user from outside the user
 * namespace as the same one. /run/urnic counts as root's if its owner is 0, or, in a user namespace
 * that does not know its owner, if it has the owner of /run, and only that owner may write to
 * either. A link counts as nothing. What does not count is absent. After connecting, the peer's
 * user (SO_PEERCRED) must be the directory's.
 *
 * The lock against a second listener is a lock (flock) on a file beside the socket. Who takes it
 * removes what listeners that were killed have left in the directory; the last listener to leave
 * removes the directory.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PLACE_PATH_BYTES = 108 /* of a socket, terminated: what struct sockaddr_un holds */ };

enum place_kind {
	PLACE_URNICD,
	PLACE_CAPTURE,
};

enum place_whose {
	PLACE_ROOTS, /* root's directory, seen from another user */
	PLACE_OWN, /* the effective user's */
};

/*
 * The number of the calling thread's network namespace. Returns 0; -ENOPROTOOPT: before Linux 5.14;
 * or another -errno.
 */
int place_netns(uint64_t *ret_netns);

/*
 * The number of the network namespace that the socket `fd` was made in, or 0. For an accepted
 * connection that is where the peer made its socket, which no message can forge.
 */
uint64_t place_netns_of(int fd);

struct place_listener {
	int socket; /* SOCK_SEQPACKET, nonblocking; -1: there is none */
	int lock;
	int directory;
	char path[PLACE_PATH_BYTES];
};

/*
 * Listen in this network namespace.
 *
 * `is_for_all`    Every user may connect: in root's directory only.
 * `ret_listener`  To be given to place_leave(). On failure it has no socket, and that is fine
 *                 there.
 *
 * Returns 0; -EADDRINUSE when another process of the user listens, or does not do so for two
 * seconds although it is about to; -EACCES when no directory can be made; -ENOPROTOOPT when the
 * network namespace has no number; or another -errno.
 */
int place_listen(enum place_kind kind, bool is_for_all, struct place_listener *ret_listener);

/* Stop listening and remove the path. */
void place_leave(struct place_listener *listener);

/*
 * Connect to the listener of this network namespace.
 *
 * `wait_ms`   How long to try again while the listener's queue of connections is full. With 0 the
 *             call never blocks.
 * `ret_path`  PLACE_PATH_BYTES bytes: of the socket that was connected to, or whose queue is full.
 *
 * Returns a SOCK_SEQPACKET socket, blocking; -ECONNREFUSED when there is none that can be trusted;
 * -ETIMEDOUT when its queue stays full; or another -errno.
 */
int place_connect(enum place_kind kind, enum place_whose whose, unsigned wait_ms, char *ret_path);

/* Is told of a connection to a listener, which is closed afterwards. True: no more. */
typedef bool place_visit(void *context, int fd);

/*
 * Connect to the listeners of all other network namespaces, root's and the user's own, one after
 * the other. Those that cannot be connected to at once are passed over.
 *
 * Returns whether a visit said true.
 */
bool place_visit_others(
	enum place_kind kind, uint64_t own_netns, place_visit *visit, void *context);

#endif

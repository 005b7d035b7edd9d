/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_PLACE_H
#define URNIC_AGENT_PLACE_H

/*
 * The paths of the sockets on which urnicd, `urnic capture`, `urnic fabric up` and
 * owners of XRC queue pairs listen.
 *
 * A socket lies in a directory into which only the directory's owner can write. The socket's name
 * has a number: the kernel's number of the network namespace (SO_NETNS_COOKIE, Linux 5.14), which
 * is unique until the next boot, a NIC's identity, or a hash of a fabric's name. The directories,
 * in this order:
 *
 *	/run/urnic                          root's, also for `urnicd --system`
 *	/run/user/UID/urnic                 a user's
 *	/dev/shm/urnic-UID, /tmp/urnic-UID  a user's, where /run/user/UID/urnic cannot be made
 *	/dev/shm/urnic-UID.XXXXXX, /tmp/... a user's, where another user has taken these names
 *
 * A listener uses the first directory that it can make; a connecting process tries all. UID is the
 * user's number outside the user namespace, so the roots of two user namespaces have different
 * names. No directory depends on the environment, so all programs of one user try the same ones.
 *
 * A user's directory is trusted if the user owns it, no other user has any right to it, and it can
 * be opened. That it can be opened proves ownership even where the kernel shows all users from
 * outside the user namespace as one. /run/urnic is trusted if its owner is 0 and only that owner
 * may write to it and to /run. In a user namespace that does not know the owner, the owner of /run
 * counts instead of 0. A symbolic link is never trusted. Untrusted directories count as absent.
 * After connecting, the peer's user (SO_PEERCRED) must be the directory's owner.
 *
 * A lock (flock) on a file beside the socket prevents a second listener. The process that takes the
 * lock removes the files of killed listeners from the directory; the last listener to leave removes
 * the directory.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PLACE_PATH_BYTES = 108 /* a path, terminated: what struct sockaddr_un holds */ };

enum place_kind {
	PLACE_URNICD,
	PLACE_CAPTURE,
	PLACE_XRC, /* one socket for each NIC, with the NIC's identity in its name */
	PLACE_FABRIC, /* one socket for each fabric, with a hash of the fabric's name */
};

enum place_whose {
	PLACE_ROOTS, /* root's directory; the caller is another user */
	PLACE_OWN, /* the effective user's directories */
};

/*
 * The number of the calling thread's network namespace. Returns 0; -ENOPROTOOPT: before Linux 5.14;
 * or another -errno.
 */
int place_netns(uint64_t *ret_netns);

/*
 * The number of the network namespace in which the socket `fd` was created, or 0. For an accepted
 * connection this is the namespace of the peer's socket, which the peer cannot forge.
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
 * `is_for_all`    Every user may connect; possible in root's directory only.
 * `ret_listener`  For place_leave(), which accepts it after a failure, too.
 *
 * Returns 0; -EADDRINUSE when another process of the user listens, or has the lock for two seconds
 * without listening; -EACCES when no directory can be made; -ENOPROTOOPT when the
 * network namespace has no number; or another -errno.
 */
int place_listen(enum place_kind kind, bool is_for_all, struct place_listener *ret_listener);

/*
 * place_listen() with `number` in the name, instead of the number of the network namespace.
 * `number` is not 0.
 */
int place_listen_as(enum place_kind kind, uint64_t number, bool is_for_all,
	struct place_listener *ret_listener);

/*
 * Go on with a listener of place_listen() that another process has made for this network namespace
 * and kind, and that is open to all users.
 *
 * `socket`, `lock`  Its descriptors. On success they belong to `ret_listener`.
 *
 * Returns 0, or -EINVAL if they are not those of such a listener, or its path is gone.
 */
int place_adopt(enum place_kind kind, int socket, int lock, struct place_listener *ret_listener);

/* Stop listening and remove the path. */
void place_leave(struct place_listener *listener);

/*
 * Stop listening in this process. The path stays, because another process has the socket and the
 * lock, and goes on listening.
 */
void place_pass_on(struct place_listener *listener);

/*
 * Connect to the listener of this network namespace.
 *
 * `wait_ms`   How long to retry while the listener's queue of connections is full. With 0 the call
 *             never blocks.
 * `ret_path`  PLACE_PATH_BYTES bytes: path of the listener that accepted or whose queue is full.
 *
 * Returns a SOCK_SEQPACKET socket, blocking; -ECONNREFUSED when there is no trusted listener;
 * -ETIMEDOUT when its queue stays full; or another -errno.
 */
int place_connect(enum place_kind kind, enum place_whose whose, unsigned wait_ms, char *ret_path);

/* place_connect() for a listener of place_listen_as(). */
int place_connect_as(enum place_kind kind, uint64_t number, enum place_whose whose,
	unsigned wait_ms, char *ret_path);

/* Use the connection `fd` to a listener; the caller closes it afterwards. True ends the search. */
typedef bool place_visit(void *context, int fd);

/*
 * Connect to the listeners of all other network namespaces, root's and the user's own, one after
 * the other. A listener that does not accept at once is skipped.
 *
 * Returns whether a visit returned true.
 */
bool place_visit_others(
	enum place_kind kind, uint64_t own_netns, place_visit *visit, void *context);

#endif

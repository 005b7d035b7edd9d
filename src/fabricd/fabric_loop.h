/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_FABRIC_LOOP_H
#define URNIC_FABRICD_FABRIC_LOOP_H

/*
 * The loop of a fabric's process (server), and of the process by which other machines join the
 * fabric (remote). The loop calls its user's turn(). While frames flow, it calls one turn after the
 * other, and polls the descriptors in few of them. After 50 us without a frame the process sleeps
 * until a descriptor is ready. SIGINT and SIGTERM end the loop. A loop belongs to one thread.
 */

#include <stdbool.h>
#include <stdint.h>

struct fabric_loop_user {
	/* Pass frames without sleeping. Returns > 0 if there were frames, 0, or -errno. */
	int (*turn)(void *context);
	/*
	 * The user calls fabric_loop_poll() with a timeout, unless a frame has come. Returns 0 or
	 * -errno.
	 */
	int (*sleep)(void *context);
	/* A descriptor is ready. `tag` is that of fabric_loop_watch(). */
	void (*ready)(void *context, void *tag, uint32_t events);
	/* All ready descriptors of a poll have been reported. Returns 0 or -errno. */
	int (*polled)(void *context);
	void *context;
	uint64_t *now_ns; /* the user's clock; turn() and fabric_loop_poll() set it */
};

struct fabric_loop {
	const struct fabric_loop_user *user;
	int epoll;
	int signals; /* a signalfd */
	uint32_t turn;
	bool is_ended; /* a signal has arrived */
};

/*
 * Block SIGINT and SIGTERM, and watch for them. `user` is borrowed until fabric_loop_done(), which
 * accepts a loop that this call has failed to make. Returns 0 or -errno.
 */
int fabric_loop_init(struct fabric_loop *loop, const struct fabric_loop_user *user);
void fabric_loop_done(struct fabric_loop *loop);

/*
 * Register a descriptor with an epoll instance, that of a loop or another one.
 *
 * `operation`  EPOLL_CTL_ADD, or EPOLL_CTL_MOD for a descriptor that is registered.
 * `tag`        What its events carry; not the address of a struct fabric_loop.
 *
 * Returns 0 or -errno.
 */
int fabric_loop_watch(int epoll, int operation, int fd, uint32_t events, void *tag);

/* Wait for descriptors, call ready() for each, and polled(). Returns 0 or -errno. */
int fabric_loop_poll(struct fabric_loop *loop, int timeout_ms);

/* Call this in each turn: one call in 32 polls the descriptors. Returns 0 or -errno. */
int fabric_loop_poll_rarely(struct fabric_loop *loop);

/* Run until a signal arrives. Returns 0, or the -errno of a turn, a sleep or a poll. */
int fabric_loop_run(struct fabric_loop *loop);

/*
 * A listening socket of a loop. When the process has no descriptor or memory for another
 * connection, the loop does not watch the socket for 100 ms, since epoll would report the waiting
 * connection in each poll.
 */
struct fabric_listener {
	int fd;
	uint64_t rests_until_ns; /* 0: it does not rest */
};

/* The tag of its events is `listener`. Returns 0 or -errno. */
int fabric_listener_watch(struct fabric_loop *loop, struct fabric_listener *listener);
/* accept() has failed with this errno. Let the socket rest if a descriptor or memory is missing. */
void fabric_listener_failed(struct fabric_loop *loop, struct fabric_listener *listener, int error);
/* Watch the socket again when its rest is over. */
void fabric_listener_go_on(struct fabric_loop *loop, struct fabric_listener *listener);

#endif

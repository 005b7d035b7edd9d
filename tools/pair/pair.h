/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic pair: a server, then its clients, each on a host of a private network.
 *
 * This process adopts what its programs leave behind (a daemon, urnicd) and ends it. When it is
 * killed itself, its programs are killed, and the network goes with the last of them.
 */
#ifndef TOOLS_PAIR_H
#define TOOLS_PAIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/network.h"

enum { PAIR_SECONDS_MAX = 86400 };

struct pair_settings {
	struct network_settings network;
	unsigned wait_s; /* for a server that does not listen */
	unsigned grace_s; /* for a server that outlives its clients */
	char **server; /* NULL-terminated, as for `urnic run` */
	char **client;
};

/* A program, or a helper of this process. */
struct pair_process {
	pid_t pid; /* 0: not started */
	int go_fd; /* the program starts when a byte comes; -1: it has started */
	bool is_running;
	bool is_ended_by_us;
	int status; /* as a shell has it: 128 and the signal's number */
};

struct pair {
	const struct pair_settings *settings;
	struct network network;
	struct pair_process programs[HOSTS_MAX]; /* by host: the server, then the clients */
	struct pair_process watcher; /* waits until the server listens */
	int signal; /* that ended the run; 0: none */
};

/* Make the network and run the programs on it. Returns the exit status. */
int pair_run(const struct pair_settings *settings);

/*
 * Wait until the server listens, in a process on its host that does nothing else. It listens when a
 * TCP socket does, or when the connection manager has a listener.
 */
void pair_wait_for_listener(void);

#endif

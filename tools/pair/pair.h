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
#include "impair/impair.h"

enum { PAIR_SECONDS_MAX = 86400, PAIR_IMPAIR_BYTES = 1024 };

struct pair_settings {
	struct network_settings network;
	unsigned wait_s; /* for a server that does not listen */
	unsigned grace_s; /* for a server that outlives its clients */
	bool is_impaired;
	struct impair_plan plan; /* checked; the programs parse the same text */
	char impairments[PAIR_IMPAIR_BYTES /
		2]; /* of URNIC_IMPAIR, with a comma behind each item */
	char *faults; /* of URNIC_FAULTS; NULL: none */
	const char *capture; /* a file; NULL: none */
	char **server; /* NULL-terminated, as for `urnic run` */
	char **client;
};

/* A program, or a helper of this process. */
struct pair_process {
	pid_t pid; /* 0: not started */
	int go_fd; /* the program starts when its URNIC_IMPAIR comes; -1: it has started */
	bool is_running;
	bool is_ended_by_us;
	int status; /* as a shell has it: 128 and the signal's number */
	char report_path[64]; /* of a file for its counters; "": none */
	struct impair_report *report;
};

struct pair {
	const struct pair_settings *settings;
	struct network network;
	struct pair_process programs[HOSTS_MAX]; /* by host: the server, then the clients */
	struct pair_process watcher; /* waits until the server listens */
	struct pair_process capturer; /* writes settings->capture */
	int signal; /* that ended the run; 0: none */
};

/* Make the network and run the programs on it. Returns the exit status. */
int pair_run(const struct pair_settings *settings);

/*
 * Wait until the server listens, in a process on its host that does nothing else. It listens when a
 * TCP socket does, or when the connection manager has a listener.
 */
void pair_wait_for_listener(void);

/* --- impairments (pair_impair.c) --- */

/* Make the files for the programs' counters. Returns 0 or -errno. */
int pair_reports_make(struct pair *pair);

/* Read and remove them. Notes which programs were killed by a fault. */
void pair_reports_read(struct pair *pair);

/* Print the counters on standard error. */
void pair_reports_print(const struct pair *pair);

/* Write what URNIC_IMPAIR of a program is to be; "": nothing. All programs have processes. */
void pair_impairments_write(const struct pair *pair, int host, char ret_text[PAIR_IMPAIR_BYTES]);

/* --- capture (pair_capture.c) --- */

/*
 * Capture all packets of the host that this process is on, until SIGTERM.
 *
 * `file`      Open for writing; gets a pcap file.
 * `ready_fd`  Gets a byte when the capture is on.
 *
 * Returns the exit status.
 */
int pair_capture(int file, int ready_fd);

#endif

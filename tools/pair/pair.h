/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic pair: runs a server, then its clients, each on a host of a private network.
 *
 * Processes that the programs leave behind (a daemon, urnicd) become children of urnic pair, which
 * ends them. If urnic pair itself is killed, the kernel kills its programs, and the network ends
 * with the last process on its hosts.
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
	unsigned wait_s; /* how long the clients wait at most until the server listens */
	unsigned grace_s; /* how long the server may run after its last client has ended */
	bool is_impaired;
	struct impair_plan plan; /* the impairments, parsed; the programs parse the same text */
	char impairments[PAIR_IMPAIR_BYTES /
		2]; /* items of URNIC_IMPAIR, each with a comma behind */
	char *faults; /* value of URNIC_FAULTS; NULL: none */
	const char *capture; /* path of the capture; NULL: none */
	bool with_events; /* the capture has posts, completions and state changes, too */
	char **server; /* NULL-terminated, as for `urnic run` */
	char **client;
};

/* A child of urnic pair: a program, or a helper. */
struct pair_process {
	pid_t pid; /* 0: not started */
	/* The process reads URNIC_IMPAIR from this pipe, then starts the program; -1: it has. */
	int go_fd;
	bool is_running;
	bool is_ended_by_us;
	int status; /* the exit status, or, as in a shell, 128 plus the number of the signal */
	char report_path[64]; /* the file with its counters of impairments; "": none */
	struct impair_report *report;
};

struct pair {
	const struct pair_settings *settings;
	struct network network;
	struct pair_process programs[HOSTS_MAX]; /* by host: the server, then the clients */
	struct pair_process watcher; /* waits until the server listens */
	struct pair_process capturer; /* writes settings->capture */
	struct pair_process reporters[HOSTS_MAX]; /* by host: read the events for the capturer */
	int signal; /* the signal that ended the run; 0: none */
};

/* Make the network and run the programs on it. Returns the exit status. */
int pair_run(const struct pair_settings *settings);

/*
 * Wait until the server listens. The caller is a process on the server's host that does nothing
 * else. A server listens when its host has a listening TCP socket, or a listener of rdma_cm.
 */
void pair_wait_for_listener(void);

/* --- impairments (pair_impair.c) --- */

/* Make the files for the programs' counters, if packets are impaired. Returns 0 or -errno. */
int pair_reports_make(struct pair *pair);

/* Remove the files, whose counters stay mapped. Note which programs a fault has killed. */
void pair_reports_read(struct pair *pair);

/* Print the counters on standard error. */
void pair_reports_print(const struct pair *pair);

/*
 * Write the value of URNIC_IMPAIR for the program on a host; "": the program gets none. The value
 * has the process IDs of server and client, so the caller has made these processes before
 * (program_prepare()).
 */
void pair_impairments_write(const struct pair *pair, int host, char ret_text[PAIR_IMPAIR_BYTES]);

/* --- capture (pair_capture.c) --- */

/*
 * Capture all packets of the host that this process is on, until SIGTERM.
 *
 * `descriptor` To which the capture is written.
 * `is_pcapng`  Write pcapng, with comments at packets that were sent again, refused or damaged;
 *              else pcap.
 * `events_fd`  A pipe of struct pair_event, which are written to the file, too; -1: none.
 * `reporters`  How many processes write these.
 * `ready_fd`   A descriptor to which a byte is written when the capture is on.
 *
 * Returns the exit status.
 */
int pair_capture(int descriptor, bool is_pcapng, int events_fd, int reporters, int ready_fd);

/* --- events (pair_events.c) --- */

enum { PAIR_EVENT_TEXT_BYTES = 192, PAIR_EVENT_PROCESS_BYTES = 48 };

/*
 * A post, a completion or a state change; or, if `text` is empty, a mark: all events of this
 * reporter up to `time_ns` precede it. A pipe takes it whole or not at all.
 */
struct pair_event {
	uint64_t time_ns; /* since 1970 */
	uint32_t qpn;
	uint32_t reporter; /* number of the process that writes it, from 0 on */
	char process[PAIR_EVENT_PROCESS_BYTES]; /* its name and number */
	char text[PAIR_EVENT_TEXT_BYTES]; /* capture_event_text() */
};

/*
 * Write the events of the programs on the host that this process is on into a pipe, until SIGTERM.
 * A byte is written to `ready_fd` when all later programs are seen. Returns the exit status.
 */
int pair_events(int pipe_fd, int reporter, int ready_fd);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_FABRIC_INTERNAL_H
#define TOOLS_FABRIC_INTERNAL_H

/* What the files of `urnic fabric` share. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "subnet/topology/topology.h"

struct fabric_options {
	const char *name;
	const char *key; /* a file's path; NULL: none */
	const char *pcap; /* a file's path; NULL: none */
	bool is_unmanaged;
	int first; /* index of the first word behind the options */
};

/* `argv` has the words behind the options. Returns the exit status. */
typedef int fabric_command(const struct fabric_options *options, int argc, char **argv);

/* --- fabric.c --- */

/* Allow this process as many files as the system does. */
void fabric_files_allow(void);

/* --- fabric_pcap.c --- */

/* A capture of all frames that cross a cable. Each port is an interface. */
struct fabric_pcap {
	FILE *file; /* NULL: there is none */
	bool is_broken; /* it could not be written to its end */
	const struct subnet_topology *topology;
	uint64_t epoch_ns;
};

/*
 * Begin a capture, if `path` is not NULL. Both functions print a sentence and return false when the
 * file cannot be written.
 */
bool fabric_pcap_open(
	struct fabric_pcap *pcap, const char *path, const struct subnet_topology *topology);
bool fabric_pcap_close(struct fabric_pcap *pcap);

/* A fabric_trace_fn, whose context is a struct fabric_pcap. */
void fabric_pcap_frame(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes);

/* --- fabric_remote.c --- */

fabric_command fabric_listen_command;
fabric_command fabric_join_command;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_OUTPUT_H
#define TOOLS_CAPTURE_OUTPUT_H

/*
 * The output of captured packets: a file for Wireshark and other tools, or a line for each packet.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "capture/pcapng.h"
#include "common/device_facts.h"
#include "wire/captured.h"

enum { CAPTURE_INTERFACES_MAX = 256 };

/* An interface of the output: the device that would have carried the packets. */
struct capture_interface {
	uint32_t ifindex;
	char name[DEVICE_NAME_BYTES + 16]; /* "rocep_eth0 (local)" */
	uint64_t packets;
	uint64_t dropped;
};

/* Which packets to write. */
struct capture_filter {
	const char *device; /* name of the device, or of its interface; NULL: all devices */
};

struct capture_output {
	FILE *file;
	bool is_text;
	uint32_t snap_bytes; /* how much of each IP packet to write; 0: all */
	struct capture_filter filter;
	int64_t epoch_ns; /* the time since 1970 at monotonic time 0 */
	uint64_t packets;
	uint64_t dropped;
	uint32_t device_count;
	struct device_facts *devices;
	uint64_t devices_ns; /* when `devices` was last listed */
	uint32_t interface_count;
	struct capture_interface interfaces[CAPTURE_INTERFACES_MAX];
	struct captured_frame frame;
};

/* The process that recorded a packet. */
struct capture_origin {
	int pid;
	const char *comm;
	uint64_t dropped; /* packets lost between the previous packet and this one */
};

/*
 * Begin the output to `file`, which the caller closes after capture_output_end(). Returns 0 or
 * -errno.
 */
int capture_output_begin(struct capture_output *output, FILE *file, bool is_text,
	uint32_t snap_bytes, const struct capture_filter *filter);

/* Does a device exist that passes the filter? */
bool capture_output_has_wanted(const struct capture_output *output);

/*
 * Write a packet if it passes the filter. `bytes` has head->captured_bytes bytes, from the BTH on.
 */
void capture_output_packet(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin);

/* End the output. `dropped`: packets lost after the last written one. */
void capture_output_end(struct capture_output *output, uint64_t dropped);

/* Write one packet as one line. */
void capture_text(FILE *file, const struct captured *head, const uint8_t *bytes,
	const struct capture_origin *origin, const char *interface, uint64_t time_ns);

#endif

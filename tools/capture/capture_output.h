/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_OUTPUT_H
#define TOOLS_CAPTURE_OUTPUT_H

/*
 * The output of captured packets: a file for Wireshark and other tools, or a line for each packet.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "capture/capture_block.h"
#include "capture/pcapng.h"
#include "common/device_facts.h"
#include "wire/captured.h"

enum {
	CAPTURE_INTERFACES_MAX = 256,
	CAPTURE_NOTE_BYTES = 160,
	/* So large that system calls cost little per packet, but smaller than a level 2 cache. */
	CAPTURE_BUFFER_BYTES = 1 << 17,
};

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
	uint32_t qpn; /* of the sender or the receiver; 0: all */
	const char *opcode; /* a part of the opcode's name; NULL: all */
};

/* Files that are written in turn, FILE.0, FILE.1 and so on; then the first is written anew. */
struct capture_ring {
	const char *path;
	uint64_t bytes_max; /* of a file; 0: one file without a limit, and no number in its name */
	uint32_t file_count;
	uint32_t index; /* of the file that is being written */
};

struct capture_output {
	FILE *file;
	bool is_text;
	struct capture_ring ring;
	uint64_t file_bytes; /* about as many are in the present file */
	bool has_failed; /* a file before the present one is not complete */
	uint32_t snap_bytes; /* how much of each IP packet to write; 0: all */
	bool is_headers; /* write no payload; set it after capture_output_begin() */
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
	struct crc32_tables tables; /* of the blocks that models have */
	/* The last packet's comment, process and queue pair; the next packet often has the same. */
	int comment_pid;
	uint32_t comment_qpn;
	char comment[CAPTURE_NOTE_BYTES];
	/* Blocks of packets that are not written to the file yet */
	uint32_t buffered;
	uint8_t buffer[CAPTURE_BUFFER_BYTES];
};

/* The process that recorded a packet. */
struct capture_origin {
	int pid;
	const char *comm;
	uint64_t dropped; /* packets lost between the previous packet and this one */
	/* The blocks of the packet's model, which the output keeps; NULL: there is no model */
	struct capture_blocks *blocks;
};

/*
 * Begin the output to `file`, the first one of the ring. The caller closes output->file after
 * capture_output_end(). Returns 0 or -errno.
 */
int capture_output_begin(struct capture_output *output, FILE *file, bool is_text,
	uint32_t snap_bytes, const struct capture_filter *filter, const struct capture_ring *ring);

/* Open the present file of a ring. Returns NULL, and sets errno, on failure. */
FILE *capture_ring_open(const struct capture_ring *ring);

/* Does a device exist that passes the filter? */
bool capture_output_has_wanted(const struct capture_output *output);

/*
 * Write a packet if it passes the filter. `bytes` has head->captured_bytes bytes, from the BTH on.
 */
void capture_output_packet(struct capture_output *output, const struct captured *head,
	const uint8_t *bytes, const struct capture_origin *origin);

/*
 * Write the packets of a repetition by the blocks of its model. Returns false, and writes nothing,
 * if the caller has to make the packet, for capture_output_packet().
 */
bool capture_output_repetition(struct capture_output *output, struct capture_blocks *blocks,
	const struct capture_repetition *repetition);

/* Write to the file what has been output. */
void capture_output_flush(struct capture_output *output);

/* End the output. `dropped`: packets lost after the last written one. */
void capture_output_end(struct capture_output *output, uint64_t dropped);

/* The interface whose packets are lines of text about events (struct captured_event). */
#define CAPTURE_EVENTS_IFINDEX UINT32_MAX

/*
 * Write an event as text without a line feed: "10.99.0.1 0x00abcd post SEND, 8 bytes, wr_id 5".
 * Returns false if it is none.
 */
bool capture_event_text(
	const struct captured *head, const struct captured_event *event, char *text, size_t room);

/* Write one packet as one line. */
void capture_text(FILE *file, const struct captured *head, const uint8_t *bytes,
	const struct capture_origin *origin, const char *interface, uint64_t time_ns);

#endif

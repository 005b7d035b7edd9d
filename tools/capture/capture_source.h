/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_SOURCE_H
#define TOOLS_CAPTURE_SOURCE_H

/*
 * The processes that urnic capture captures.
 *
 * urnicd lists the running processes. A process that starts later announces itself to urnic capture
 * (agent/capture_socket.h). urnic capture maps the NIC memory of each process, sets a word there
 * that turns the capture on, and empties one ring per lane (lane/capture.h).
 *
 * A captured process may have another version of urnic, or be hostile. So urnic capture accepts
 * only memory that is sealed against shrinking, checks every offset and length, and copies data
 * before it uses them.
 *
 * urnic capture locks one byte of the NIC memory during the capture (NIC_CAPTURE_LOCK_OFFSET). If
 * urnic capture is killed, the kernel releases the lock. The process notices that and stops
 * capturing.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_client.h"
#include "agent/place.h"
#include "capture/capture_lane.h"
#include "segment/nic_public.h"

struct capture_process {
	pid_t pid;
	char comm[PROCESS_NAME_BYTES];
	uint64_t identity; /* the identity of its NIC memory */
	int memory; /* descriptor of the owner's side; -1: it is unusable, and a message said why */
	int shared; /* descriptor of the peers' side, or -1 */
	int pidfd;
	bool has_ended;
	uint32_t session; /* capture_public.session, which this capture has chosen */
	uint8_t *base;
	uint64_t bytes; /* length of each side */
	const struct nic_public *public;
	struct capture_lane *lanes; /* NIC_LANES_MAX of them */
};

struct capture_sources {
	uint32_t snap_bytes; /* how much of each packet to record, from its BTH on */
	bool with_events; /* record posts, completions and state changes, too */
	pid_t only; /* the only process to capture; 0: all */
	struct place_listener listener;
	bool has_agent;
	struct agent_client agent;
	uint64_t listed_ns; /* time of the last request to urnicd */
	uint32_t count;
	struct capture_process **processes;
	uint64_t until_ns; /* capture_sources_next() returns no newer record */
	/* Lanes that may have records before `until_ns`; there is room for all lanes */
	uint32_t ready_count;
	struct capture_lane **ready;
	uint64_t dropped; /* packets that ended processes lost after their last record */
};

/*
 * Begin to capture. The arguments are as in struct capture_sources. Returns 0, or -errno
 * after a message.
 */
int capture_sources_open(
	struct capture_sources *sources, uint32_t snap_bytes, bool with_events, pid_t only);

/* Find new processes, and forget ended ones whose records have been taken. */
void capture_sources_update(struct capture_sources *sources);

/*
 * Let capture_sources_next() return the records that are not newer than this call. All records
 * leave the rings, which a busy process fills within some milliseconds, and wait in memory. From
 * CAPTURE_HELD_BYTES_MAX of these on, records stay in the rings.
 */
void capture_sources_begin(struct capture_sources *sources);

/*
 * Return the lane that has the oldest record; NULL: there is none left. The record stays in the
 * lane until the caller clears `has_record`.
 */
struct capture_lane *capture_sources_next(struct capture_sources *sources);

/* How many packets were lost after the last record of their lane. */
uint64_t capture_sources_dropped(const struct capture_sources *sources);

/* End the capture in all processes. */
void capture_sources_close(struct capture_sources *sources);

#endif

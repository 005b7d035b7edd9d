/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_SOURCE_H
#define TOOLS_CAPTURE_SOURCE_H

/*
 * The captured processes.
 *
 * urnicd lists running processes; new ones announce themselves (agent/capture_socket.h). urnic
 * capture maps the NIC memory of each, sets a word in it, and empties a ring per lane
 * (lane/capture.h). The other process may be of another version, or hostile. So its memory must be
 * sealed against shrinking, every offset and length is checked, and data is copied before use.
 *
 * A byte of the memory is locked during the capture. If urnic capture is killed, the lock goes, and
 * the process stops capturing.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_client.h"
#include "agent/place.h"
#include "segment/nic_public.h"

struct capture_process;

/* One lane's ring, and its oldest record. */
struct capture_lane {
	const struct capture_process *process;
	struct record_ring *ring; /* NULL: not there yet */
	uint64_t dropped_before; /* the ring's count at the last record */
	bool has_record;
	uint64_t dropped; /* packets lost before the record */
	uint8_t record[RECORD_BYTES_MAX];
};

struct capture_process {
	pid_t pid;
	char comm[PROCESS_NAME_BYTES];
	uint64_t identity; /* of its NIC memory */
	int memory; /* the owner's side; -1: unusable, and reported */
	int shared; /* the peers' side, or -1 */
	int pidfd;
	bool has_ended;
	uint8_t *base;
	uint64_t bytes; /* of either side */
	const struct nic_public *public;
	struct capture_lane *lanes; /* NIC_LANES_MAX */
};

struct capture_sources {
	uint32_t snap_bytes; /* of each packet, from its BTH on */
	pid_t only; /* 0: all processes */
	struct place_listener listener;
	bool has_agent;
	struct agent_client agent;
	uint64_t listed_ns; /* time of the last request to urnicd */
	uint32_t count;
	struct capture_process **processes;
	uint64_t dropped; /* of ended processes, after their last packet */
};

/* Begin. `only` is 0 for all processes. Returns 0, or -errno after a message. */
int capture_sources_open(struct capture_sources *sources, uint32_t snap_bytes, pid_t only);

/* Find new processes, and forget ended ones. */
void capture_sources_update(struct capture_sources *sources);

/*
 * The oldest record of all lanes, if it is not newer than `until_ns`; NULL: none. It stays until
 * the caller clears has_record.
 */
struct capture_lane *capture_sources_next(struct capture_sources *sources, uint64_t until_ns);

/* Lost packets that were not reported yet. */
uint64_t capture_sources_dropped(const struct capture_sources *sources);

/* End the capture in all processes. */
void capture_sources_close(struct capture_sources *sources);

#endif

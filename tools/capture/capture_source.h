/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_SOURCE_H
#define TOOLS_CAPTURE_SOURCE_H

/*
 * The processes that are captured.
 *
 * Those that run already are known to urnicd, those that begin tell us (agent/capture_socket.h). Of
 * each the NIC memory is mapped, a word in it is set, and a ring per lane is emptied
 * (lane/capture.h). The memory belongs to somebody else, who may be of another version or may mean
 * harm: it cannot shrink, every offset and length is checked, and what is used is copied first.
 *
 * A byte of the memory is locked as long as we are there: capturing ends by itself if we are
 * killed.
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
	struct record_ring *ring; /* NULL: there is none yet */
	uint64_t dropped_before; /* of the ring's count */
	bool has_record;
	uint64_t dropped; /* packets lost before the record */
	uint8_t record[RECORD_BYTES_MAX];
};

struct capture_process {
	pid_t pid;
	char comm[PROCESS_NAME_BYTES];
	uint64_t identity; /* of its NIC memory */
	int memory; /* the owner's side; -1: it could not be used, which was complained about */
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
	uint64_t asked_ns; /* when urnicd was asked last */
	uint32_t count;
	struct capture_process **processes;
	uint64_t dropped; /* of processes that are gone, after their last packet */
};

/* Begin. `only` is 0 for all processes. Returns 0, or -errno which was complained about. */
int capture_sources_open(struct capture_sources *sources, uint32_t snap_bytes, pid_t only);

/* See who has come, and who has gone. */
void capture_sources_look(struct capture_sources *sources);

/*
 * The oldest record of all, if it is not from after `until_ns`; NULL: there is none. It stays until
 * the caller says that it is done with it, by has_record.
 */
struct capture_lane *capture_sources_next(struct capture_sources *sources, uint64_t until_ns);

/* Packets that were lost and not told about yet. */
uint64_t capture_sources_dropped(const struct capture_sources *sources);

/* Leave everything as it was. */
void capture_sources_close(struct capture_sources *sources);

#endif

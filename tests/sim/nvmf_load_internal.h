/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two parts of a host's load share. nvmf_load.c has the load's life, and the effects of
 * its attempts on blocks; nvmf_requests.c makes requests.
 */
#ifndef URNIC_TESTS_SIM_NVMF_LOAD_INTERNAL_H
#define URNIC_TESTS_SIM_NVMF_LOAD_INTERNAL_H

#include "nvmf_load.h"

#include "nvmf/common/codec/command.h"

enum {
	IOS_MAX = 64,
	RANGES_MAX = 3,
	ACTIONS_MAX = NVMF_COMMAND_BLOCKS_MAX,
};

struct range {
	unsigned first; /* block of the namespace */
	unsigned blocks;
};

/* A request, and what its present attempt does to blocks. */
struct io {
	struct host_request request;
	struct nvmf_load *load;
	bool is_pending;
	bool is_final; /* of nvmf_load_read_all() */
	uint8_t opcode;
	unsigned ns;
	struct range range;
	struct range ranges[RANGES_MAX]; /* of Dataset Management, or the sources of Copy */
	unsigned range_count;
	bool is_durable;
	enum nvme_fuse fuse;
	uint64_t values[NVMF_COMMAND_BLOCKS_MAX]; /* to write, or to compare */
	uint64_t expected[NVMF_COMMAND_BLOCKS_MAX]; /* of a fused write */
	uint8_t *data;
	uint32_t bytes;

	void (*core_done)(struct host_command *command, enum host_end end);
	bool is_sent; /* an attempt is under way */
	unsigned sent_count; /* attempts of which something left the host */
	bool has_ended; /* some attempt has, as follows */
	enum host_end end;
	uint16_t status;
	unsigned actions[ACTIONS_MAX];
	unsigned action_count;
};

/* Actions on a namespace of attempts that were lost with an association. */
struct lost {
	unsigned *actions;
	unsigned count, room;
};

struct nvmf_load {
	struct nvmf_load_settings settings;
	struct nvmf_world *world;
	const struct nvmf_plan_host *plan;
	struct host_controller *controller;
	enum host_state state;
	struct loop_timer timer;
	struct io ios[IOS_MAX];
	unsigned pending;
	unsigned made;
	unsigned fused_pending;
	unsigned final_block; /* where reading all goes on */
	bool reads_all;
	uint64_t gap_ns; /* between requests, at most */
	struct lost lost[NVMF_NAMESPACES_MAX];
};

static inline unsigned block_of(const struct io *io, unsigned number)
{
	return io->load->settings.plan->ns[io->ns].first_block + number;
}

/* Make a request at random, and send it. */
void nvmf_request_make(struct nvmf_load *load);
/* Read the next of all blocks. */
void nvmf_request_make_final(struct nvmf_load *load);

#endif

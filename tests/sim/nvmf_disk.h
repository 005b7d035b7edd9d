/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk of a simulated target: a backend (nvmf/target/backend) that takes its time.
 *
 * A request takes a random time, and requests end in any order. A request of several blocks happens
 * in two parts. A request that fails may have done the first part. Written data is volatile until a
 * flush, unless it was written with FUA. A crash may take a block back to its last durable value,
 * or to any value that it had after that.
 *
 * A block has a value, from which nvmf_content_fill() makes each word of its content. A write of
 * any other content ends the run.
 */
#ifndef URNIC_TESTS_SIM_NVMF_DISK_H
#define URNIC_TESTS_SIM_NVMF_DISK_H

#include "nvmf_register.h"

struct backend;
struct nvmf_disk;

/* Not the content of any value. */
#define NVMF_GARBAGE UINT64_MAX

void nvmf_content_fill(uint8_t *bytes, uint32_t length, uint64_t value);
uint64_t nvmf_content_value(const uint8_t *bytes, uint32_t length);

struct nvmf_disk_settings {
	uint32_t block_bytes;
	unsigned blocks;
	/* What `first_block` and those behind it are in the register set. */
	unsigned first_block;
	struct register_set *registers;
	bool loses_writes; /* when it crashes */
};

struct nvmf_disk *nvmf_disk_create(
	struct nvmf_world *world, const struct nvmf_disk_settings *settings);
void nvmf_disk_destroy(struct nvmf_disk *disk);

/* A backend of it; NULL while there is one, as for a file that is locked. */
struct backend *nvmf_disk_open(struct nvmf_disk *disk);

/* One of so many requests fails; 0: none. The longest time that a request takes. */
void nvmf_disk_trouble(struct nvmf_disk *disk, unsigned one_of, uint64_t delay_ns_max);

/*
 * The machine crashes: requests under way are done in part, end with an error now, and do nothing
 * more. nvmf_disk_roll_back() then discards volatile contents.
 */
void nvmf_disk_crash(struct nvmf_disk *disk);
void nvmf_disk_roll_back(struct nvmf_disk *disk);

#endif

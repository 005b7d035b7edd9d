/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_REJECT_H
#define URNIC_TESTS_SUPPORT_NVMF_REJECT_H

/*
 * Commands of a hostile host, for tests of what a target refuses. Each test runs over TCP, RoCEv2
 * and iWARP; the argument of main() is "tcp" or "rdma". main() calls reject_begin(), and
 * links_end().
 */

#include "support/nvmf_link.h"

#define OTHER_NQN "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000005"

enum { SHUTDOWN = 1 << 14, BLOCKS = DISK_BYTES / 512 };

static struct link admin, io;
static uint16_t cntlid;

static inline int begin(void **state)
{
	(void)state;
	memset(&admin, 0, sizeof(admin));
	memset(&io, 0, sizeof(io));
	cntlid = link_open_admin(&admin);
	return 0;
}

static inline int begin_with_io(void **state)
{
	begin(state);
	link_open_io(&io, cntlid, ENTRIES - 1);
	return 0;
}

/* Nothing of the host is left at the target, whatever the host did. */
static inline int end(void **state)
{
	(void)state;
	target_inject_clear(target);
	link_close(&admin);
	if (io.is_connected || io.client.fd > 0)
		link_close(&io);
	links_await_end();
	return 0;
}

static inline struct link_command command_of(
	uint8_t opcode, uint32_t nsid, uint32_t cdw10, uint32_t bytes)
{
	return (struct link_command){
		.sqe = {.opcode = opcode, .nsid = nsid, .cdw10 = cdw10}, .bytes = bytes};
}

static inline struct link_command fabrics_of(uint8_t fctype)
{
	return command_of(NVME_OPCODE_FABRICS, fctype, 0, 0);
}

static inline struct link_command io_of(
	uint8_t opcode, uint64_t slba, uint32_t blocks, uint32_t bytes)
{
	struct link_command command = {
		.sqe = io_sqe(opcode, slba, blocks, bytes), .bytes = bytes, .body = NULL};
	bool is_to_controller = opcode == NVME_IO_WRITE || opcode == NVME_IO_COMPARE ||
		opcode == NVME_IO_COPY || opcode == NVME_IO_DATASET_MANAGEMENT;

	if (is_to_controller && bytes && bytes <= IN_CAPSULE)
		command.body = data;
	return command;
}

static inline void check(const char *name, uint16_t status, uint16_t expected)
{
	if (status != expected)
		fail_msg("%s: status %03x, not %03x", name, status, expected);
}

#define TEST(name)    cmocka_unit_test_setup_teardown(name, begin, end)
#define TEST_IO(name) cmocka_unit_test_setup_teardown(name, begin_with_io, end)

/* Make the namespace and the target. Returns 0, or an exit status. */
static inline int reject_begin(int argc, char **argv)
{
	if (argc != 2)
		return 1;
	if (netns_enter_new() < 0)
		return 77;
	links_begin(argv[1]);
	return 0;
}

#endif

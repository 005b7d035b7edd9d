/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CTL_PARSE_H
#define URNIC_NVMF_TARGET_CTL_PARSE_H

/*
 * The parser of control commands. It makes all checks that do not need the target. It has no state,
 * so any thread may call it.
 */

#include "nvmf/target/config/config.h"
#include "nvmf/target/ctl/ctl.h"

enum ctl_command {
#define CTL_COMMAND(name, word, positional, further, sentence) CTL_##name,
#include "nvmf/target/ctl/ctl.def"
#undef CTL_COMMAND
};

enum ctl_fault {
	CTL_FAULT_NONE,
	CTL_FAULT_DELAY,
	CTL_FAULT_STATUS,
	CTL_FAULT_DROP,
	CTL_FAULT_DISCONNECT
};

/* INJECT: the conditions of a rule, and the fault for the commands that match them. */
struct ctl_rule {
	enum ctl_fault fault;
	uint32_t delay_ms; /* at most an hour */
	uint16_t status; /* status code type << 8 | status code, not 0 */
	bool has_opcode;
	bool is_admin; /* `opcode` is an Admin command; false: an I/O command */
	uint8_t opcode;
	uint32_t nsid; /* 0: any namespace */
	char hostnqn[CONFIG_NQN_BYTES]; /* "": any host */
	uint64_t skip; /* how many matching commands the rule lets pass first */
	uint64_t count; /* how many matching commands the rule hits after those; 0: all */
};

struct ctl_request {
	enum ctl_command command;
	char nqn[CONFIG_NQN_BYTES];
	char hostnqn[CONFIG_NQN_BYTES];
	/*
	 * Only ADD_NAMESPACE sets all fields. RESIZE_NAMESPACE sets nsid and size_bytes; other
	 * commands set at most nsid.
	 */
	struct config_namespace ns;
	struct ctl_rule rule;
};

/*
 * Parse the words of a command.
 *
 * `sentence`  CTL_SENTENCE_BYTES bytes; on failure what is wrong, and what to do.
 */
bool ctl_parse(unsigned word_count, const char *const *words, struct ctl_request *ret_request,
	char *sentence);

/* The text of HELP: two lines for each command. */
const char *ctl_help(void);

#endif

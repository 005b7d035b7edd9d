/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CTL_PARSE_H
#define URNIC_NVMF_TARGET_CTL_PARSE_H

/*
 * The words of a control command, checked as far as they can be without the target. No state: any
 * thread.
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

/* INJECT: which commands, and what happens to them. */
struct ctl_rule {
	enum ctl_fault fault;
	uint32_t delay_ms; /* at most an hour */
	uint16_t status; /* status code type << 8 | status code, not 0 */
	bool has_opcode;
	bool is_admin; /* the set of `opcode` */
	uint8_t opcode;
	uint32_t nsid; /* 0: any */
	char hostnqn[CONFIG_NQN_BYTES]; /* "": any */
	uint64_t skip; /* matching commands that pass first */
	uint64_t count; /* that are hit; 0: all */
};

struct ctl_request {
	enum ctl_command command;
	char nqn[CONFIG_NQN_BYTES];
	char hostnqn[CONFIG_NQN_BYTES];
	/* Other commands than ADD_NAMESPACE have nsid only, or size_bytes too: 0 if not given. */
	struct config_namespace ns;
	struct ctl_rule rule;
};

/*
 * Parse the words of a command.
 *
 * `sentence`  CTL_SENTENCE_BYTES; on failure what is wrong, and what to do.
 */
bool ctl_parse(unsigned word_count, const char *const *words, struct ctl_request *ret_request,
	char *sentence);

/* What HELP prints: a line for each command. */
const char *ctl_help(void);

#endif

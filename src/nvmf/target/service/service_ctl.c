/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control commands. A command that fails changes nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/core/status.h"
#include "nvmf/target/ctl/ctl_parse.h"
#include "nvmf/target/service/service_internal.h"

#define NS_PER_MS 1000000ull

static void answer_result(struct ctl_call *call, int error)
{
	ctl_answer(call, error == 0, error ? strerror(-error) : "");
}

static void print_counters(const struct service *service, struct ctl_call *call)
{
	const struct target_counters *counters = target_counters(service->target);
	char text[4096];
	size_t bytes = 0;

#define TARGET_COUNTER(name, sentence)                                                             \
	bytes += (size_t)snprintf(text + bytes, sizeof(text) - bytes, "%-20s %12" PRIu64 "  %s\n", \
		#name, counters->name, sentence);
#include "nvmf/target/core/counter.def"
#undef TARGET_COUNTER
	ctl_answer(call, true, text);
}

static void print_status(const struct service *service, struct ctl_call *call)
{
	char *text = target_status(service->target);

	ctl_answer(call, text != NULL, text ? text : "no memory for the answer");
	free(text);
}

static void namespace_resized(void *context, int error, const char *sentence)
{
	ctl_answer(context, error == 0, error ? sentence : "");
}

static void rules_inject(
	const struct service *service, const struct ctl_rule *from, struct ctl_call *call)
{
	struct target_rule rule = {
		.delay_ns = from->delay_ms * NS_PER_MS,
		.status = from->status,
		.has_opcode = from->has_opcode,
		.is_admin = from->is_admin,
		.opcode = from->opcode,
		.nsid = from->nsid,
		.skip = from->skip,
		.count = from->count,
	};

	switch (from->fault) {
	case CTL_FAULT_NONE:
	case CTL_FAULT_DELAY:
		rule.fault = TARGET_FAULT_DELAY;
		break;
	case CTL_FAULT_STATUS:
		rule.fault = TARGET_FAULT_STATUS;
		break;
	case CTL_FAULT_DROP:
		rule.fault = TARGET_FAULT_DROP;
		break;
	case CTL_FAULT_DISCONNECT:
		rule.fault = TARGET_FAULT_DISCONNECT;
		break;
	}
	memcpy(rule.hostnqn, from->hostnqn, sizeof(rule.hostnqn));
	answer_result(call, target_inject(service->target, &rule));
}

static void change_namespace(struct service *service, struct target_subsystem *subsystem,
	const struct ctl_request *request, struct ctl_call *call)
{
	struct target_namespace *ns = target_namespace_find(subsystem, request->ns.nsid);
	char sentence[SERVICE_SENTENCE_BYTES];
	int error;

	if (request->command == CTL_ADD_NAMESPACE) {
		error = service_add_namespace(service, subsystem, &request->ns, sentence);
		ctl_answer(call, error == 0, error ? sentence : "");
	} else if (!ns) {
		ctl_answer(call, false, "there is no such namespace; \"status\" lists them");
	} else if (request->command == CTL_REMOVE_NAMESPACE) {
		target_namespace_remove(ns);
		ctl_answer(call, true, "");
	} else {
		target_namespace_resize(ns, request->ns.size_bytes, namespace_resized, call);
	}
}

static void change_subsystem(
	struct service *service, const struct ctl_request *request, struct ctl_call *call)
{
	struct target_subsystem *subsystem = target_subsystem_find(service->target, request->nqn);

	if (!subsystem) {
		ctl_answer(call, false, "there is no such subsystem; \"status\" lists them");
	} else if (request->command == CTL_ALLOW_HOST) {
		answer_result(call, target_subsystem_allow(subsystem, request->hostnqn));
	} else if (request->command == CTL_DISALLOW_HOST) {
		target_subsystem_disallow(subsystem, request->hostnqn);
		answer_result(call, 0);
	} else if (request->command == CTL_ALLOW_ANY_HOST ||
		request->command == CTL_DISALLOW_ANY_HOST) {
		target_subsystem_allow_any(subsystem, request->command == CTL_ALLOW_ANY_HOST);
		answer_result(call, 0);
	} else {
		change_namespace(service, subsystem, request, call);
	}
}

void service_serve(void *context, struct ctl_call *call)
{
	struct service *service = context;
	char sentence[CTL_SENTENCE_BYTES];
	struct ctl_request request;

	if (!ctl_parse(call->word_count, call->words, &request, sentence)) {
		ctl_answer(call, false, sentence);
		return;
	}
	switch (request.command) {
	case CTL_STATUS:
		print_status(service, call);
		break;
	case CTL_COUNTERS:
		print_counters(service, call);
		break;
	case CTL_INJECT:
		rules_inject(service, &request.rule, call);
		break;
	case CTL_CLEAR_INJECTIONS:
		target_inject_clear(service->target);
		answer_result(call, 0);
		break;
	case CTL_HELP:
		ctl_answer(call, true, ctl_help());
		break;
	case CTL_ADD_NAMESPACE:
	case CTL_REMOVE_NAMESPACE:
	case CTL_RESIZE_NAMESPACE:
	case CTL_ALLOW_HOST:
	case CTL_DISALLOW_HOST:
	case CTL_ALLOW_ANY_HOST:
	case CTL_DISALLOW_ANY_HOST:
		change_subsystem(service, &request, call);
		break;
	}
}

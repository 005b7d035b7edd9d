/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/namespace_lookup.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/place.h"
#include "os/setting.h"

enum {
	/* How long to wait for an answer. urnicd itself may wait for survivors for a second. */
	ANSWER_TIMEOUT_S = 2,
};

/*
 * The FNV-1a hash of URNIC_HOST_ID. Hosts with equal identities count as one host, so the user must
 * not give two hosts the same identity.
 */
static uint64_t host_number(void)
{
	const char *text = setting_text("URNIC_HOST_ID");
	uint64_t number = 0xcbf29ce484222325u;

	if (!text)
		return 0;
	for (; *text; text++)
		number = (number ^ (uint8_t)*text) * 0x100000001b3u;
	return number;
}

struct namespace_id namespace_id_own(void)
{
	struct namespace_id name = {.host = host_number()};

	place_netns(&name.netns); /* stays 0 on failure */
	return name;
}

struct lookup {
	const struct namespace_id *own;
	uint8_t slot;
	const struct gid *gid;
	namespace_visit_fn *visit;
	void *context;
};

/* Returns 0 and a process, whose memory the caller closes; or -errno. */
static int lookup_exchange(int fd, const struct lookup *lookup, struct agent_process *ret_process)
{
	struct agent_message message = {
		.version = AGENT_VERSION,
		.type = AGENT_FIND,
		.find = {.gid = *lookup->gid, .host = lookup->own->host, .slot = lookup->slot},
	};
	struct passed_fds descriptors;
	int error = agent_message_send(fd, &message, NULL, NULL, 0, 0);

	if (!error)
		error = agent_message_receive(fd, false, &message, NULL, &descriptors, 0);
	if (error)
		return error;
	if (message.type != AGENT_FIND || message.status) {
		passed_fds_close(&descriptors);
		return message.status ? -message.status : -EPROTO;
	}
	agent_process_found(&message, &descriptors, ret_process);
	return 0;
}

/* A place_visit: send the request to one urnicd. Returns true when its answer ends the lookup. */
static bool urnicd_request(void *context, int fd)
{
	const struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
	const struct lookup *lookup = context;
	struct agent_process process;
	bool is_found;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (lookup_exchange(fd, lookup, &process))
		return false;
	is_found = lookup->visit(lookup->context, &process);
	if (process.memory >= 0)
		close(process.memory);
	return is_found;
}

void namespace_lookup(const struct namespace_id *own, uint8_t slot, const struct gid *gid,
	namespace_visit_fn *visit, void *context)
{
	struct lookup lookup = {
		.own = own, .slot = slot, .gid = gid, .visit = visit, .context = context};

	if (own->netns)
		place_visit_others(PLACE_URNICD, own->netns, urnicd_request, &lookup);
}

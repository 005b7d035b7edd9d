/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf.h"

static bool host_resolve(const char *host, const char *port, struct sockaddr_storage *ret_address)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	int status = getaddrinfo(host, port, &hints, &list);

	if (status != 0) {
		complain("cannot find the address '%s' port '%s': %s", host, port,
			gai_strerror(status));
		return false;
	}
	memcpy(ret_address, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return true;
}

static uint64_t seconds_ns(uint64_t seconds)
{
	return seconds * 1000000000u;
}

static bool make_settings(const struct nvmf_options *options, const char *nqn, struct loop *loop,
	struct host_controller_settings *settings)
{
	*settings = (struct host_controller_settings){
		.loop = loop,
		.transport = options->transport,
		.io_depth = options->queue_size,
		.wants_header_digest = options->wants_header_digest,
		.wants_data_digest = options->wants_data_digest,
		.kato_ms = options->keep_alive_seconds ? options->keep_alive_seconds * 1000
						       : UINT32_MAX,
		.reconnect_delay_ns = seconds_ns(options->reconnect_seconds),
		.loss_ns = options->loss_seconds < 0 ? HOST_NEVER_NS
						     : seconds_ns(options->loss_seconds) + 1,
		.fast_fail_ns = seconds_ns(options->fast_fail_seconds),
		.keeps_trying = options->keeps_trying,
	};
	if (!options->traddr[0]) {
		complain("which target? give its address with --traddr");
		return false;
	}
	if (!nqn[0]) {
		complain("which subsystem? give its NQN with --nqn");
		return false;
	}
	snprintf(settings->subnqn, sizeof(settings->subnqn), "%s", nqn);
	snprintf(settings->hostnqn, sizeof(settings->hostnqn), "%s", options->hostnqn);
	memcpy(settings->hostid, options->hostid, sizeof(settings->hostid));
	if (options->host_traddr[0] && !host_resolve(options->host_traddr, NULL, &settings->local))
		return false;
	return host_resolve(options->traddr, options->trsvcid[0] ? options->trsvcid : "4420",
		&settings->remote);
}

static void state_report(struct session *session, enum host_state state)
{
	if (!session->reports)
		return;
	if (state == HOST_LIVE)
		fprintf(stderr, "urnic-nvmf: %sConnected.\n", session->label);
	else if (state == HOST_RECONNECTING)
		complain("%sThe connection was lost: %s; connecting anew", session->label,
			host_controller_reason(session->controller));
	else if (state == HOST_FAILED)
		complain("%sGiven up: %s", session->label,
			host_controller_reason(session->controller));
}

static void remote_ready(void *context, int error)
{
	struct session *session = context;

	session->is_over = true;
	session->error = error;
}

static void remote_changed(void *context, enum host_state state)
{
	state_report(context, state);
}

static void remote_refused(void *context)
{
	struct session *session = context;

	if (session->reports)
		complain("%sReads and writes fail: %s", session->label,
			remote_reason(session->remote));
}

static void controller_changed(void *context, enum host_state state)
{
	struct session *session = context;

	/*
	 * Only session_open() waits for a change of state. session_admin() waits until its request
	 * is done, which the controller may send again after a reconnect.
	 */
	if (session->is_opening && (state == HOST_LIVE || state == HOST_FAILED)) {
		session->is_over = true;
		session->error = state == HOST_FAILED ? -ENOTCONN : 0;
	}
	/*
	 * The controller does not report the events that happened while the connection was lost. So
	 * the caller must look for changes.
	 */
	session->has_changed |= state == HOST_LIVE;
	state_report(session, state);
}

static void controller_event(void *context, uint32_t result)
{
	struct session *session = context;

	(void)result;
	session->has_changed = true;
}

static void wait_over(struct session *session)
{
	while (!session->is_over)
		loop_step(session->loop, UINT64_MAX);
}

static int open_namespace(struct session *session, const struct nvmf_options *options,
	const struct host_controller_settings *controller)
{
	struct remote_settings settings = {
		.controller = *controller,
		.nsid = options->nsid,
		.is_read_only = options->is_read_only,
		.ready = remote_ready,
		.changed = remote_changed,
		.refused = remote_refused,
		.context = session,
	};
	int error;

	settings.controller.io_queues = options->io_queues ? options->io_queues : 1;
	error = remote_create(&settings, &session->remote);
	if (!error)
		session->controller = remote_controller(session->remote);
	return error;
}

static int open_controller(
	struct session *session, const struct host_controller_settings *controller)
{
	struct host_controller_settings settings = *controller;

	settings.changed = controller_changed;
	settings.event = controller_event;
	settings.context = session;
	return host_controller_create(&settings, &session->controller);
}

int session_open(struct session *session, struct loop *loop, const struct nvmf_options *options,
	const char *nqn, bool has_namespace)
{
	struct host_controller_settings controller;
	int error;

	*session = (struct session){.loop = loop};
	error = loop ? 0 : loop_create(&session->loop);
	if (error)
		return complain("cannot start: %s", strerror(-error));
	session->owns_loop = !loop;
	if (!make_settings(options, nqn, session->loop, &controller)) {
		session_close(session);
		return 1;
	}
	error = has_namespace ? open_namespace(session, options, &controller)
			      : open_controller(session, &controller);
	if (error) {
		session_close(session);
		return complain("cannot connect: %s", strerror(-error));
	}
	session->is_opening = true;
	wait_over(session);
	session->is_opening = false;
	if (session->error) {
		complain("%s",
			session->remote ? remote_reason(session->remote)
					: host_controller_reason(session->controller));
		session_close(session);
		return 1;
	}
	session->reports = true;
	return 0;
}

void session_close(struct session *session)
{
	if (session->remote)
		block_device_destroy(remote_device(session->remote));
	else
		host_controller_destroy(session->controller);
	if (session->owns_loop)
		loop_destroy(session->loop);
	*session = (struct session){0};
}

/* A request and the session that waits for it. */
struct admin_wait {
	struct host_request *request;
	struct session *session;
};

static struct admin_wait admin_wait;

static void admin_done(struct host_request *request, int error)
{
	admin_wait.session->is_over = true;
	admin_wait.session->error = error;
	(void)request;
}

int session_admin(struct session *session, struct host_request *request, const char *action)
{
	char text[HOST_REASON_BYTES];

	admin_wait = (struct admin_wait){request, session};
	request->is_admin = true;
	request->done = admin_done;
	session->is_over = false;
	host_submit(session->controller, request);
	wait_over(session);
	if (session->error)
		return complain("%s failed: %s; %s", action, strerror(-session->error),
			host_controller_reason(session->controller));
	if (request->status)
		return complain("%s failed: %s", action,
			host_status_text(request->status, text, sizeof(text)));
	return 0;
}

static struct session *block_session;

static void block_done(struct block_request *request, int error)
{
	(void)request;
	block_session->is_over = true;
	block_session->error = error;
}

int session_block(struct session *session, struct block_request *request)
{
	block_session = session;
	request->done = block_done;
	session->is_over = false;
	block_submit(remote_device(session->remote), request);
	wait_over(session);
	return session->error;
}

bool session_blocks(const struct session *session, const struct nvmf_options *options,
	uint64_t least, const char *what, uint64_t *ret_blocks)
{
	const struct block_device *device = remote_device(session->remote);
	uint64_t size = options->size_bytes;

	if (options->block_bytes == 0 || options->block_bytes % device->block_bytes ||
		options->offset_bytes % device->block_bytes) {
		complain(
			"--bs and --offset must be multiples of the namespace's blocks of %u bytes",
			device->block_bytes);
		return false;
	}
	if (options->offset_bytes <= device->size_bytes && size == 0)
		size = device->size_bytes - options->offset_bytes;
	if (options->offset_bytes > device->size_bytes ||
		size > device->size_bytes - options->offset_bytes ||
		size / options->block_bytes < least) {
		complain("--offset and --size must be within the namespace, which has %" PRIu64
			 " bytes, with %s",
			device->size_bytes, what);
		return false;
	}
	*ret_blocks = size / options->block_bytes;
	return true;
}

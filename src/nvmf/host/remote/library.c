/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburnic-nvmf: the functions of <urnic/nvmf.h>, on a remote namespace (host/remote/remote.h).
 */
#include <urnic/nvmf.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/remote/remote.h"

#define EXPORTED __attribute__((visibility("default")))

struct urnic_nvmf {
	struct loop *loop;
	struct remote *remote;
	bool is_ready;
	int error;
	uint32_t pending;
};

/* The library's state of a request, in urnic_nvmf_io.reserved. */
struct io_state {
	struct block_request block;
	struct urnic_nvmf *ns;
};

_Static_assert(sizeof(struct io_state) <= sizeof(((struct urnic_nvmf_io *)NULL)->reserved),
	"a request has room for the library's part");
_Static_assert(
	(int)URNIC_NVMF_WRITE_ZEROES == BLOCK_WRITE_ZEROES && (int)URNIC_NVMF_FUA == BLOCK_FUA,
	"operations and flags have the same numbers");

static const struct host_transport *const transports[] = {&host_tcp, &host_rdma};

static void remote_ready(void *context, int error)
{
	struct urnic_nvmf *ns = context;

	ns->is_ready = true;
	ns->error = error;
}

static int text_copy(char *to, size_t bytes, const char *text)
{
	size_t text_bytes = text ? strlen(text) + 1 : 0;

	if (text_bytes < 2 || text_bytes > bytes)
		return -EINVAL;
	memcpy(to, text, text_bytes);
	return 0;
}

static int address_find(const struct urnic_nvmf_settings *from,
	struct sockaddr_storage *ret_address, char *ret_reason)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	int status =
		getaddrinfo(from->traddr, from->trsvcid ? from->trsvcid : "4420", &hints, &list);

	if (status) {
		snprintf(ret_reason, URNIC_NVMF_REASON_BYTES,
			"cannot find the address '%s': %s; check it", from->traddr,
			gai_strerror(status));
		return -EINVAL;
	}
	memcpy(ret_address, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

static int host_name(const struct urnic_nvmf_settings *from, struct host_controller_settings *to)
{
	static const uint8_t nothing[16];
	const uint8_t *id = from->hostid;

	if (!id || !memcmp(id, nothing, sizeof(nothing)))
		return -EINVAL;
	memcpy(to->hostid, id, sizeof(to->hostid));
	if (from->hostnqn)
		return text_copy(to->hostnqn, sizeof(to->hostnqn), from->hostnqn);
	snprintf(to->hostnqn, sizeof(to->hostnqn),
		"nqn.2014-08.org.nvmexpress:uuid:%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		"%02x%02x%02x%02x%02x%02x",
		id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10],
		id[11], id[12], id[13], id[14], id[15]);
	return 0;
}

static int settings_make(const struct urnic_nvmf_settings *from,
	struct host_controller_settings *to, char *ret_reason)
{
	const char *name = from->transport ? from->transport : "tcp";

	*to = (struct host_controller_settings){
		.io_queues = from->io_queues ? from->io_queues : 1,
		.io_depth = from->queue_depth,
		.loss_ns = from->loss_seconds * 1000000000ull,
		.wants_header_digest = from->header_digest,
		.wants_data_digest = from->data_digest,
	};
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (!strcmp(transports[i]->name, name))
			to->transport = transports[i];
	}
	snprintf(ret_reason, URNIC_NVMF_REASON_BYTES,
		"the settings are wrong: they need traddr, subnqn, hostid, and a transport that is "
		"tcp or rdma");
	if (!to->transport || !from->traddr || host_name(from, to) ||
		text_copy(to->subnqn, sizeof(to->subnqn), from->subnqn))
		return -EINVAL;
	return address_find(from, &to->remote, ret_reason);
}

EXPORTED void urnic_nvmf_close(struct urnic_nvmf *ns)
{
	if (!ns)
		return;
	if (ns->remote)
		block_device_destroy(remote_device(ns->remote));
	loop_destroy(ns->loop);
	free(ns);
}

static int remote_open(struct urnic_nvmf *ns, const struct remote_settings *settings, char *reason)
{
	int error = remote_create(settings, &ns->remote);

	if (error) {
		snprintf(reason, URNIC_NVMF_REASON_BYTES, "cannot connect: %s", strerror(-error));
		return error;
	}
	while (!ns->is_ready)
		loop_step(ns->loop, UINT64_MAX);
	if (ns->error)
		snprintf(reason, URNIC_NVMF_REASON_BYTES, "%s", remote_reason(ns->remote));
	return ns->error;
}

EXPORTED int urnic_nvmf_open(
	const struct urnic_nvmf_settings *settings, struct urnic_nvmf **ret_ns, char *ret_reason)
{
	struct remote_settings remote = {.nsid = settings->nsid, .ready = remote_ready};
	char unused[URNIC_NVMF_REASON_BYTES];
	char *reason = ret_reason ? ret_reason : unused;
	struct urnic_nvmf *ns;
	int error = settings_make(settings, &remote.controller, reason);

	if (error)
		return error;
	ns = calloc(1, sizeof(*ns));
	if (!ns) {
		snprintf(reason, URNIC_NVMF_REASON_BYTES, "no memory");
		return -ENOMEM;
	}
	remote.context = ns;
	error = loop_create(&ns->loop);
	if (error) {
		snprintf(reason, URNIC_NVMF_REASON_BYTES, "cannot start: %s", strerror(-error));
		free(ns);
		return error;
	}
	remote.controller.loop = ns->loop;
	error = remote_open(ns, &remote, reason);
	if (error) {
		urnic_nvmf_close(ns);
		return error;
	}
	*ret_ns = ns;
	return 0;
}

EXPORTED uint64_t urnic_nvmf_size_bytes(const struct urnic_nvmf *ns)
{
	return remote_device(ns->remote)->size_bytes;
}

EXPORTED uint32_t urnic_nvmf_block_bytes(const struct urnic_nvmf *ns)
{
	return remote_device(ns->remote)->block_bytes;
}

EXPORTED uint64_t urnic_nvmf_reconnects(const struct urnic_nvmf *ns)
{
	return host_controller_reconnects(remote_controller(ns->remote));
}

static void io_done(struct block_request *block, int error)
{
	struct io_state *state = container_of(block, struct io_state, block);
	struct urnic_nvmf_io *io =
		container_of((uint64_t *)(void *)state, struct urnic_nvmf_io, reserved);

	state->ns->pending--;
	io->done(io, error);
}

EXPORTED void urnic_nvmf_submit(struct urnic_nvmf *ns, struct urnic_nvmf_io *io)
{
	struct io_state *state = (struct io_state *)(void *)io->reserved;

	if (io->op > URNIC_NVMF_WRITE_ZEROES || (io->flags & ~(uint32_t)URNIC_NVMF_FUA)) {
		io->done(io, -EINVAL);
		return;
	}
	*state = (struct io_state){
		.block = {.op = (enum block_op)io->op,
			.flags = io->flags,
			.offset_bytes = io->offset_bytes,
			.length_bytes = io->length_bytes,
			.data = io->data,
			.done = io_done},
		.ns = ns,
	};
	ns->pending++;
	block_submit(remote_device(ns->remote), &state->block);
}

EXPORTED uint32_t urnic_nvmf_process(struct urnic_nvmf *ns, uint64_t wait_ns)
{
	if (wait_ns == 0)
		host_controller_poll(remote_controller(ns->remote));
	loop_step(ns->loop, wait_ns);
	return ns->pending;
}

struct waiting_io {
	struct urnic_nvmf_io io;
	bool is_done;
	int error;
};

static void waiting_done(struct urnic_nvmf_io *io, int error)
{
	struct waiting_io *waiting = io->user;

	waiting->is_done = true;
	waiting->error = error;
}

static int io_wait(struct urnic_nvmf *ns, struct waiting_io *waiting)
{
	waiting->io.done = waiting_done;
	waiting->io.user = waiting;
	urnic_nvmf_submit(ns, &waiting->io);
	while (!waiting->is_done)
		loop_step(ns->loop, UINT64_MAX);
	return waiting->error;
}

EXPORTED int urnic_nvmf_read(
	struct urnic_nvmf *ns, uint64_t offset_bytes, void *data, uint64_t bytes)
{
	struct waiting_io waiting = {.io = {.op = URNIC_NVMF_READ,
					     .offset_bytes = offset_bytes,
					     .length_bytes = bytes,
					     .data = data}};

	return io_wait(ns, &waiting);
}

EXPORTED int urnic_nvmf_write(struct urnic_nvmf *ns, uint64_t offset_bytes, const void *data,
	uint64_t bytes, uint32_t flags)
{
	struct waiting_io waiting = {.io = {.op = URNIC_NVMF_WRITE,
					     .flags = flags,
					     .offset_bytes = offset_bytes,
					     .length_bytes = bytes,
					     .data = (void *)(uintptr_t)data}};

	return io_wait(ns, &waiting);
}

EXPORTED int urnic_nvmf_flush(struct urnic_nvmf *ns)
{
	struct waiting_io waiting = {.io = {.op = URNIC_NVMF_FLUSH}};

	return io_wait(ns, &waiting);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a remote namespace is created, identified and destroyed. remote_io.c has its requests.
 */
#include "nvmf/host/remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/controller/sqe.h"
#include "nvmf/host/remote/remote_internal.h"

enum {
	LOG_CHANGED_NAMESPACES = 0x04,
	EVENT_TYPE_MASK = 7,
	EVENT_NOTICE = 2,
	ID_ONCS = 520,
	ID_VWC = 525,
	ONCS_DSM = 1 << 2,
	ONCS_WRITE_ZEROES = 1 << 3,
	NS_FLBAS = 26,
	NS_DLFEAT = 33,
	NS_NSATTR = 99,
	NS_NGUID = 104,
	NS_EUI64 = 120,
	NS_LBAF = 128,
	BLOCK_SHIFT_MIN = 9,
	BLOCK_SHIFT_MAX = 16,
};

static void remote_connected(struct remote *remote, int error)
{
	if (remote->is_ready)
		return;
	remote->is_ready = true;
	remote->settings.ready(remote->settings.context, error);
}

static void remote_fail(struct remote *remote, int error, const char *reason)
{
	snprintf(remote->reason, sizeof(remote->reason), "%s", reason);
	remote_connected(remote, error);
}

/* Let requests fail from now on, until the namespace is known to be the one that was opened. */
static void namespace_refuse(struct remote *remote, int error, const char *reason)
{
	bool was_ready = remote->is_ready;

	remote_fail(remote, error, reason);
	if (was_ready && remote->settings.refused)
		remote->settings.refused(remote->settings.context);
	host_refuse_io(remote->controller);
}

/*
 * Take the identifiers of the namespace from its descriptors in `answer`; those that the
 * descriptors lack, from Identify Namespace. Returns false if the descriptors are malformed.
 */
static bool identifiers_decode(
	const struct remote *remote, struct identify_descriptors *ret_identifiers)
{
	static const uint8_t none[16];
	struct identify_descriptors *to = ret_identifiers;

	if (!identify_descriptors_decode(remote->answer, to))
		return false;
	if (!memcmp(to->nguid, none, sizeof(to->nguid)))
		memcpy(to->nguid, remote->identity + NS_NGUID, sizeof(to->nguid));
	if (!memcmp(to->eui64, none, sizeof(to->eui64)))
		memcpy(to->eui64, remote->identity + NS_EUI64, sizeof(to->eui64));
	return true;
}

static bool is_same(const struct identify_descriptors *one, const struct identify_descriptors *two)
{
	return !memcmp(one->nguid, two->nguid, sizeof(one->nguid)) &&
		!memcmp(one->eui64, two->eui64, sizeof(one->eui64)) &&
		!memcmp(one->uuid, two->uuid, sizeof(one->uuid));
}

/* Take over the identifiers. Returns false, with a reason, if the namespace is another one. */
static bool identifiers_take(struct remote *remote)
{
	struct identify_descriptors identifiers;

	if (!identifiers_decode(remote, &identifiers)) {
		namespace_refuse(remote, -EPROTO,
			"the target's identifiers of the namespace are malformed; correct the target");
		return false;
	}
	if (remote->is_ready && !is_same(&identifiers, &remote->identifiers)) {
		namespace_refuse(remote, -EIO,
			"the target has another namespace under the same number: its NGUID, EUI64 "
			"or UUID is not the one that was opened; open it anew to use it");
		return false;
	}
	remote->identifiers = identifiers;
	return true;
}

/* Returns false, with a reason, if size or format of the namespace are unusable. */
static bool format_check(struct remote *remote)
{
	const uint8_t *id = remote->identity;
	const uint8_t *format = id + NS_LBAF + 4 * (id[NS_FLBAS] & 0xf);
	uint64_t blocks = le64_get(id);
	uint8_t shift = format[2];

	if (blocks == 0) {
		namespace_refuse(remote, -ENXIO,
			"the namespace does not exist, or this host has no access to it; "
			"list those that exist with: urnic-nvmf list-ns");
		return false;
	}
	if (shift < BLOCK_SHIFT_MIN || shift > BLOCK_SHIFT_MAX || blocks > UINT64_MAX >> shift) {
		namespace_refuse(
			remote, -ENOTSUP, "the namespace has blocks of an unsupported size");
		return false;
	}
	if (1u << shift > host_controller_data_bytes_max(remote->controller)) {
		namespace_refuse(remote, -ENOTSUP,
			"the namespace has blocks of an unsupported size: more than MDTS");
		return false;
	}
	if (le16_get(format) != 0) {
		namespace_refuse(
			remote, -ENOTSUP, "the namespace has metadata, which is not supported");
		return false;
	}
	/* Users of the device rely on the block size from ready() on. */
	if (remote->is_ready && shift != remote->block_shift) {
		namespace_refuse(remote, -EIO, "the namespace has changed the size of its blocks");
		return false;
	}
	return true;
}

static void format_take(struct remote *remote)
{
	const uint8_t *id = remote->identity;
	const uint8_t *controller = host_controller_identity(remote->controller);
	struct block_device *device = &remote->device;
	uint8_t shift = id[NS_LBAF + 4 * (id[NS_FLBAS] & 0xf) + 2];
	uint64_t size_bytes = le64_get(id) << shift;

	remote->block_shift = shift;
	remote->can_deallocate_zeroes = id[NS_DLFEAT] & 1 << 3;
	device->block_bytes = 1u << shift;
	device->is_read_only = remote->settings.is_read_only || (id[NS_NSATTR] & 1);
	device->has_write_cache = controller[ID_VWC] & 1;
	device->has_trim = le16_get(controller + ID_ONCS) & ONCS_DSM;
	device->has_write_zeroes = le16_get(controller + ID_ONCS) & ONCS_WRITE_ZEROES;
	device->has_fua = true;
	if (device->size_bytes == size_bytes)
		return;
	device->size_bytes = size_bytes;
	if (remote->is_ready && remote->settings.resized)
		remote->settings.resized(remote->settings.context);
}

/*
 * Compare the namespace, as `identity` and `answer` describe it, with the one that was opened. If
 * there was a reconnect between the two answers, they may describe different namespaces. Then do
 * nothing: the next inquiry decides.
 */
static void namespace_take(struct remote *remote)
{
	if (remote->inquired_reconnects != host_controller_reconnects(remote->controller))
		return;
	if (!identifiers_take(remote))
		return;
	format_take(remote);
	remote->reason[0] = 0;
	host_allow_io(remote->controller);
	remote_connected(remote, 0);
}

static void inquiry_done(struct host_request *request, int error);

static void inquiry_send(struct remote *remote, enum remote_inquiry inquiry)
{
	struct host_request *request = &remote->inquiry;

	remote->inquiring = inquiry;
	*request = (struct host_request){
		.is_admin = true, .is_repeatable = true, .done = inquiry_done};
	switch (inquiry) {
	case REMOTE_LIST:
		host_sqe_init(&request->command, NVME_ADMIN_IDENTIFY, 0);
		host_sqe_dword(&request->command, 10, IDENTIFY_ACTIVE_LIST);
		break;
	case REMOTE_CHANGES:
		host_sqe_init(&request->command, NVME_ADMIN_GET_LOG_PAGE, UINT32_MAX);
		host_sqe_dword(&request->command, 10,
			LOG_CHANGED_NAMESPACES | (HOST_IDENTIFY_BYTES / 4 - 1) << 16);
		break;
	case REMOTE_NAMESPACE:
		remote->inquired_reconnects = host_controller_reconnects(remote->controller);
		host_sqe_init(&request->command, NVME_ADMIN_IDENTIFY, remote->nsid);
		host_sqe_dword(&request->command, 10, IDENTIFY_NAMESPACE);
		break;
	case REMOTE_DESCRIPTORS:
		host_sqe_init(&request->command, NVME_ADMIN_IDENTIFY, remote->nsid);
		host_sqe_dword(&request->command, 10, IDENTIFY_DESCRIPTORS);
		break;
	case REMOTE_NOTHING:
		return;
	}
	host_sqe_data(
		&request->command, HOST_FROM_CONTROLLER, remote->answer, sizeof(remote->answer));
	host_submit(remote->controller, request);
}

/* Send `inquiry`, or keep it until the pending one has ended; a later one replaces a kept one. */
static void remote_inquire(struct remote *remote, enum remote_inquiry inquiry)
{
	if (remote->inquiring != REMOTE_NOTHING)
		remote->next_inquiry = inquiry;
	else
		inquiry_send(remote, inquiry);
}

static void list_take(struct remote *remote)
{
	remote->nsid = le32_get(remote->answer);
	if (remote->nsid == 0 || remote->nsid == (uint32_t)NVME_NSID_ALL)
		namespace_refuse(remote, -ENXIO, "the subsystem has no namespace for this host");
	else
		inquiry_send(remote, REMOTE_NAMESPACE);
}

static void identity_take(struct remote *remote)
{
	memcpy(remote->identity, remote->answer, sizeof(remote->identity));
	if (format_check(remote))
		inquiry_send(remote, REMOTE_DESCRIPTORS);
}

/*
 * Does the status of an inquiry end the use of the namespace? The log of changes is read only so
 * that the controller sends the next event. Controllers before NVMe 1.3 have no descriptors.
 */
static bool is_failure(enum remote_inquiry inquiry, uint16_t status)
{
	uint16_t code = status & HOST_STATUS_MASK;

	if (inquiry == REMOTE_DESCRIPTORS)
		return code != 0 && code != NVME_INVALID_OPCODE && code != NVME_INVALID_FIELD;
	return code != 0 && inquiry != REMOTE_CHANGES;
}

static void inquiry_done(struct host_request *request, int error)
{
	struct remote *remote = container_of(request, struct remote, inquiry);
	enum remote_inquiry inquiry = remote->inquiring;
	char text[HOST_REASON_BYTES];

	remote->inquiring = REMOTE_NOTHING;
	if (error)
		return;
	if (request->status)
		memset(remote->answer, 0, sizeof(remote->answer));
	if (is_failure(inquiry, request->status)) {
		namespace_refuse(
			remote, -EIO, host_status_text(request->status, text, sizeof(text)));
	} else if (inquiry == REMOTE_LIST) {
		list_take(remote);
	} else if (inquiry == REMOTE_CHANGES) {
		inquiry_send(remote, REMOTE_NAMESPACE);
	} else if (inquiry == REMOTE_NAMESPACE) {
		identity_take(remote);
	} else if (inquiry == REMOTE_DESCRIPTORS) {
		namespace_take(remote);
	}
	if (remote->inquiring == REMOTE_NOTHING && remote->next_inquiry != REMOTE_NOTHING) {
		inquiry = remote->next_inquiry;
		remote->next_inquiry = REMOTE_NOTHING;
		inquiry_send(remote, inquiry);
	}
}

static void controller_changed(void *context, enum host_state state)
{
	struct remote *remote = context;

	if (state == HOST_LIVE)
		remote_inquire(remote, remote->nsid ? REMOTE_NAMESPACE : REMOTE_LIST);
	else if (state == HOST_FAILED)
		remote_fail(remote, host_controller_error(remote->controller),
			host_controller_reason(remote->controller));
	if (remote->settings.changed)
		remote->settings.changed(remote->settings.context, state);
}

static void controller_event(void *context, uint32_t result)
{
	struct remote *remote = context;

	/* The controller sends the next such event after the log page is read (base 2.0, 5.2). */
	if ((result & EVENT_TYPE_MASK) == EVENT_NOTICE &&
		(result >> 16 & 0xff) == LOG_CHANGED_NAMESPACES)
		remote_inquire(remote, REMOTE_CHANGES);
}

static void remote_destroy(struct block_device *device)
{
	struct remote *remote = container_of(device, struct remote, device);

	host_controller_destroy(remote->controller);
	free(remote->parts);
	free(remote);
}

static const struct block_device_ops remote_ops = {
	.submit = remote_submit,
	.destroy = remote_destroy,
};

int remote_create(const struct remote_settings *settings, struct remote **ret_remote)
{
	struct host_controller_settings controller = settings->controller;
	struct remote *remote = calloc(1, sizeof(*remote));
	int error = -ENOMEM;

	if (!remote)
		return -ENOMEM;
	remote->settings = *settings;
	remote->nsid = settings->nsid;
	remote->device.ops = &remote_ops;
	remote->device.block_bytes = 1 << BLOCK_SHIFT_MIN;
	list_init(&remote->waiting);
	list_init(&remote->free_parts);
	controller.holds_io = true;
	controller.changed = controller_changed;
	controller.event = controller_event;
	controller.context = remote;
	remote->parts_count = settings->controller.io_queues *
		(settings->controller.io_depth ? settings->controller.io_depth : 128);
	remote->parts = calloc(remote->parts_count + 1, sizeof(*remote->parts));
	if (!remote->parts)
		goto fail_free;
	for (uint32_t i = 0; i < remote->parts_count; i++)
		list_append(&remote->free_parts, &remote->parts[i].node);
	error = host_controller_create(&controller, &remote->controller);
	if (error)
		goto fail_free;
	*ret_remote = remote;
	return 0;

fail_free:
	free(remote->parts);
	free(remote);
	return error;
}

struct block_device *remote_device(struct remote *remote)
{
	return &remote->device;
}

struct host_controller *remote_controller(struct remote *remote)
{
	return remote->controller;
}

uint32_t remote_nsid(const struct remote *remote)
{
	return remote->nsid;
}

const char *remote_reason(const struct remote *remote)
{
	if (remote->reason[0])
		return remote->reason;
	return host_controller_reason(remote->controller);
}

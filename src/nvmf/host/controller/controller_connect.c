/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the host controller becomes live: one step after the other on the Admin queue, then all I/O
 * queues at once. Each failure calls host_lose(), which ends the attempt.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/host/controller/controller_internal.h"
#include "nvmf/host/controller/sqe.h"

enum {
	PROPERTY_CAP = 0x00,
	PROPERTY_VS = 0x08,
	PROPERTY_CC = 0x14,
	PROPERTY_CSTS = 0x1c,
	/* IOSQES: 64 bytes, IOCQES: 16 bytes, MPS: 4 KiB, CSS: NVM command set, EN. */
	CC_ENABLED = 6 << 16 | 4 << 20 | 1,
	CSTS_READY = 1,
	CSTS_FATAL = 2,
	PAGE_SHIFT = 12, /* CC.MPS is 0 */
	CAP_MPSMIN_AT = 48,
	/* AUTHREQ in the result of Connect: bit 17 or bit 18 requires authentication. */
	CONNECT_AUTHENTICATION = 3 << 17,
	FEATURE_QUEUES = 0x07,
	FEATURE_EVENTS = 0x0b,
	/* The event Namespace Attribute Changed, in OAES and in the feature. */
	EVENT_NAMESPACES = 1 << 8,
	CNS_CONTROLLER = 0x01,
	SCT_SPECIFIC = 0x100,
};

/* Offsets in Identify Controller (NVMe base 2.0, figure 275). */
enum {
	ID_MDTS = 77,
	ID_CNTLID = 78,
	ID_OAES = 92,
	ID_CNTRLTYPE = 111,
	ID_KAS = 320,
	ID_SGLS = 536,
	ID_IOCCSZ = 1792,
	ID_IORCSZ = 1796,
	ID_ICDOFF = 1800,
};

#define READY_DELAY_NS        10000000u
#define EVENT_DISCOVERY       0x80000000u
#define AUTHENTICATION_ADVICE "the target requires authentication, which urnic-nvmf does not have"

static void step_done(struct host_request *request, int error);
static void step_start(struct host_controller *controller, enum host_step step);

static void connect_make(
	struct host_queue_state *queue, struct host_request *request, uint8_t *data)
{
	const struct host_controller *controller = queue->controller;
	const struct host_controller_settings *settings = &controller->settings;

	memset(data, 0, HOST_CONNECT_BYTES);
	memcpy(data, settings->hostid, sizeof(settings->hostid));
	le16_put(data + 16, queue->qid ? controller->cntlid : 0xffff);
	memcpy(data + 256, settings->subnqn, strlen(settings->subnqn));
	memcpy(data + 512, settings->hostnqn, strlen(settings->hostnqn));
	host_sqe_init(&request->command, NVME_OPCODE_FABRICS, NVME_FABRICS_CONNECT);
	le16_put(request->command.sqe + 42, queue->qid);
	le16_put(request->command.sqe + 44, (uint16_t)queue->depth);
	if (queue->qid == 0 && settings->kato_ms != UINT32_MAX)
		le32_put(request->command.sqe + 48, settings->kato_ms);
	host_sqe_data(&request->command, HOST_TO_CONTROLLER, data, HOST_CONNECT_BYTES);
}

static const char *connect_advice(uint16_t status)
{
	switch (status & HOST_STATUS_MASK) {
	case SCT_SPECIFIC | 0x80:
		return "the target does not know this format of Connect";
	case SCT_SPECIFIC | 0x81:
		return "the controller is busy; try again later";
	case SCT_SPECIFIC | 0x82:
		return "check the subsystem's NQN: the target does not have it on this port";
	case SCT_SPECIFIC | 0x84:
		return "the target does not allow this host; add its NQN to the subsystem's hosts";
	case SCT_SPECIFIC | 0x91:
		return AUTHENTICATION_ADVICE;
	default:
		return NULL;
	}
}

static void connect_refused(struct host_queue_state *queue, uint16_t status)
{
	const char *advice = connect_advice(status);
	char text[HOST_REASON_BYTES / 2];

	if (!advice)
		advice = host_status_text(status, text, sizeof(text));
	host_lose(queue->controller, -ECONNREFUSED,
		"the target refuses to connect queue %u (status %03xh): %s", queue->qid,
		status & HOST_STATUS_MASK, advice);
}

/* The callbacks of the transports. */

static void io_connect_done(struct host_request *request, int error)
{
	struct host_queue_state *queue = container_of(request, struct host_queue_state, connect);
	struct host_controller *controller = queue->controller;

	if (error)
		return;
	if (request->status) {
		connect_refused(queue, request->status);
		return;
	}
	if (++controller->io_live == controller->io_count)
		host_go_live(controller);
}

static void queue_connected(void *context)
{
	struct host_queue_state *queue = context;

	if (queue->qid == 0) {
		step_start(queue->controller, HOST_STEP_CONNECT);
		return;
	}
	queue->connect = (struct host_request){.is_own = true, .done = io_connect_done};
	connect_make(queue, &queue->connect, queue->connect_data);
	host_queue_send(queue, &queue->connect);
}

static void queue_lost(void *context, int error, const char *reason)
{
	struct host_queue_state *queue = context;

	host_lose(queue->controller, error, "%s", reason);
}

static bool queue_open(struct host_queue_state *queue)
{
	struct host_controller *controller = queue->controller;
	const struct host_controller_settings *from = &controller->settings;
	const uint8_t *identity = controller->identity;
	struct host_queue_settings settings = {
		.loop = from->loop,
		.remote = from->remote,
		.local = from->local,
		.qid = queue->qid,
		.depth = queue->depth,
		.data_bytes_max = HOST_DATA_BYTES_MAX,
		.wants_header_digest = from->wants_header_digest,
		.wants_data_digest = from->wants_data_digest,
		.connected = queue_connected,
		.lost = queue_lost,
		.context = queue,
	};
	char reason[HOST_REASON_BYTES];
	int error;

	if (queue->qid) {
		settings.cntlid = controller->cntlid;
		settings.in_capsule_bytes = le32_get(identity + ID_IOCCSZ) * 16 - HOST_SQE_BYTES;
		settings.sgls = le32_get(identity + ID_SGLS);
		settings.data_bytes_max = controller->data_bytes_max;
	}
	error = from->transport->open(&settings, &queue->transport, reason);
	if (error)
		host_lose(controller, error, "%s", reason);
	return error == 0;
}

void host_connect(struct host_controller *controller)
{
	controller->step = HOST_STEP_ADMIN_QUEUE;
	controller->io_live = 0;
	queue_open(&controller->admin);
}

/* The functions that send the command of each step. */

static void send_step(struct host_controller *controller)
{
	host_queue_send(&controller->admin, &controller->request);
}

static void property_get(struct host_controller *controller, uint32_t offset, bool is_long)
{
	struct host_command *command = &controller->request.command;

	host_sqe_init(command, NVME_OPCODE_FABRICS, NVME_FABRICS_PROPERTY_GET);
	host_sqe_dword(command, 10, is_long);
	host_sqe_dword(command, 11, offset);
	send_step(controller);
}

static void property_set(struct host_controller *controller, uint32_t offset, uint32_t value)
{
	struct host_command *command = &controller->request.command;

	host_sqe_init(command, NVME_OPCODE_FABRICS, NVME_FABRICS_PROPERTY_SET);
	host_sqe_dword(command, 11, offset);
	host_sqe_dword(command, 12, value);
	send_step(controller);
}

static void controller_identify(struct host_controller *controller)
{
	struct host_command *command = &controller->request.command;

	host_sqe_init(command, NVME_ADMIN_IDENTIFY, 0);
	host_sqe_dword(command, 10, CNS_CONTROLLER);
	host_sqe_data(
		command, HOST_FROM_CONTROLLER, controller->identity, sizeof(controller->identity));
	send_step(controller);
}

static void feature_set(struct host_controller *controller, uint8_t feature, uint32_t value)
{
	struct host_command *command = &controller->request.command;

	host_sqe_init(command, NVME_ADMIN_SET_FEATURES, 0);
	host_sqe_dword(command, 10, feature);
	host_sqe_dword(command, 11, value);
	send_step(controller);
}

static void io_queues_open(struct host_controller *controller)
{
	uint32_t entries = (uint32_t)(controller->cap & 0xffff);

	/* MQES is 0's based, and one entry stays free, so its value is the largest depth. */
	for (unsigned i = 0; i < controller->io_count; i++) {
		controller->io[i].depth = controller->settings.io_depth;
		if (controller->io[i].depth > entries)
			controller->io[i].depth = entries ? entries : 1;
		if (!queue_open(&controller->io[i]))
			return;
	}
	if (controller->io_count == 0)
		host_go_live(controller);
}

static void event_done(struct host_request *request, int error)
{
	struct host_controller *controller;

	if (error || request->status)
		return;
	controller = request->queue->controller;
	controller->settings.event(controller->settings.context, (uint32_t)request->result);
	/* event() may have ended the association; a new association sends its own event request. */
	if (controller->step != HOST_STEP_ADMIN_QUEUE && controller->admin.transport)
		host_queue_send(&controller->admin, request);
}

static void events_ask(struct host_controller *controller)
{
	for (unsigned i = 0; i < HOST_EVENTS; i++) {
		struct host_request *request = &controller->events[i];

		*request =
			(struct host_request){.is_admin = true, .is_own = true, .done = event_done};
		request->timeout_ns = HOST_NEVER_NS;
		host_sqe_init(&request->command, NVME_ADMIN_ASYNC_EVENT, 0);
		host_queue_send(&controller->admin, request);
	}
}

static void step_start(struct host_controller *controller, enum host_step step)
{
	struct host_request *request = &controller->request;
	unsigned io_queues = controller->settings.io_queues;

	controller->step = step;
	*request = (struct host_request){.is_admin = true, .is_own = true, .done = step_done};
	switch (step) {
	case HOST_STEP_CONNECT:
		connect_make(&controller->admin, request, controller->admin.connect_data);
		send_step(controller);
		break;
	case HOST_STEP_CAP:
		property_get(controller, PROPERTY_CAP, true);
		break;
	case HOST_STEP_VS:
		property_get(controller, PROPERTY_VS, false);
		break;
	case HOST_STEP_ENABLE:
		property_set(controller, PROPERTY_CC, CC_ENABLED);
		break;
	case HOST_STEP_READY:
		property_get(controller, PROPERTY_CSTS, false);
		break;
	case HOST_STEP_IDENTIFY:
		controller_identify(controller);
		break;
	case HOST_STEP_QUEUES:
		feature_set(controller, FEATURE_QUEUES, (io_queues - 1) << 16 | (io_queues - 1));
		break;
	case HOST_STEP_EVENTS:
		/* Enable the events that the controller supports and this host understands. */
		feature_set(controller, FEATURE_EVENTS,
			le32_get(controller->identity + ID_OAES) &
				(EVENT_NAMESPACES | EVENT_DISCOVERY));
		break;
	case HOST_STEP_IO_QUEUES:
		events_ask(controller);
		io_queues_open(controller);
		break;
	case HOST_STEP_ADMIN_QUEUE:
	case HOST_STEP_DONE:
		break;
	}
}

/* The functions that handle the answer of each step. */

static void connect_take(struct host_controller *controller, uint64_t result)
{
	controller->cntlid = (uint16_t)result;
	if (result & CONNECT_AUTHENTICATION)
		host_lose(controller, -EACCES, "%s", AUTHENTICATION_ADVICE);
	else if (controller->cntlid == NVME_CNTLID_DYNAMIC)
		host_lose(controller, -EPROTO, "the target has given the controller no identifier");
	else
		step_start(controller, HOST_STEP_CAP);
}

static void capabilities_take(struct host_controller *controller, uint64_t cap)
{
	controller->cap = cap;
	if (cap >> CAP_MPSMIN_AT & 0xf)
		host_lose(controller, -EPROTO,
			"the controller wants pages of more than 4 KiB, which this host does not "
			"have (CAP.MPSMIN)");
	else
		step_start(controller, HOST_STEP_VS);
}

static bool identity_check(struct host_controller *controller)
{
	const uint8_t *identity = controller->identity;
	uint32_t mdts = identity[ID_MDTS];

	if (le16_get(identity + ID_CNTLID) != controller->cntlid) {
		host_lose(controller, -EPROTO, "the target answers for controller %u instead of %u",
			le16_get(identity + ID_CNTLID), controller->cntlid);
		return false;
	}
	if (controller->settings.io_queues &&
		(le32_get(identity + ID_IOCCSZ) < 4 || le32_get(identity + ID_IOCCSZ) > 1 << 20 ||
			le32_get(identity + ID_IORCSZ) < 1 ||
			le16_get(identity + ID_ICDOFF) != 0)) {
		host_lose(controller, -EPROTO,
			"the controller has capsules that no host can use (IOCCSZ %u, IORCSZ %u, "
			"ICDOFF %u)",
			le32_get(identity + ID_IOCCSZ), le32_get(identity + ID_IORCSZ),
			le16_get(identity + ID_ICDOFF));
		return false;
	}
	controller->data_bytes_max = HOST_DATA_BYTES_MAX;
	if (mdts && mdts + PAGE_SHIFT < 20)
		controller->data_bytes_max = 1u << (mdts + PAGE_SHIFT);
	return true;
}

static void queues_granted(struct host_controller *controller, uint64_t result)
{
	unsigned sq = (unsigned)(result & 0xffff) + 1;
	unsigned cq = (unsigned)(result >> 16 & 0xffff) + 1;
	unsigned granted = sq < cq ? sq : cq;

	controller->io_count = controller->settings.io_queues;
	if (controller->io_count > granted)
		controller->io_count = granted;
}

void host_ready_expired(struct loop_timer *timer)
{
	struct host_controller *controller = container_of(timer, struct host_controller, ready);

	step_start(controller, HOST_STEP_READY);
}

static void status_take(struct host_controller *controller, uint32_t csts)
{
	struct loop *loop = controller->settings.loop;

	if (csts & CSTS_FATAL)
		host_lose(controller, -EIO, "the controller reports a fatal error (CSTS.CFS)");
	else if (csts & CSTS_READY)
		step_start(controller, HOST_STEP_IDENTIFY);
	else
		loop_timer_set(loop, &controller->ready, loop_now_ns(loop) + READY_DELAY_NS);
}

/* False if the user wants no I/O queues, as at discovery controllers (section 3.1.2.3). */
static bool has_io(const struct host_controller *controller)
{
	return controller->settings.io_queues > 0;
}

static bool has_events(const struct host_controller *controller)
{
	uint32_t oaes = le32_get(controller->identity + ID_OAES);

	return oaes & (EVENT_NAMESPACES | EVENT_DISCOVERY);
}

static void step_finish(struct host_controller *controller, uint64_t result)
{
	switch (controller->step) {
	case HOST_STEP_CONNECT:
		connect_take(controller, result);
		break;
	case HOST_STEP_CAP:
		capabilities_take(controller, result);
		break;
	case HOST_STEP_VS:
		step_start(controller, HOST_STEP_ENABLE);
		break;
	case HOST_STEP_ENABLE:
		step_start(controller, HOST_STEP_READY);
		break;
	case HOST_STEP_READY:
		status_take(controller, (uint32_t)result);
		break;
	case HOST_STEP_IDENTIFY:
		if (!identity_check(controller))
			break;
		controller->io_count = 0;
		step_start(controller, has_io(controller) ? HOST_STEP_QUEUES : HOST_STEP_EVENTS);
		break;
	case HOST_STEP_QUEUES:
		queues_granted(controller, result);
		step_start(controller,
			has_events(controller) ? HOST_STEP_EVENTS : HOST_STEP_IO_QUEUES);
		break;
	case HOST_STEP_EVENTS:
		step_start(controller, HOST_STEP_IO_QUEUES);
		break;
	case HOST_STEP_ADMIN_QUEUE:
	case HOST_STEP_IO_QUEUES:
	case HOST_STEP_DONE:
		break;
	}
}

static void step_refused(struct host_controller *controller, uint16_t status)
{
	static const char *const actions[] = {
		[HOST_STEP_CAP] = "reading CAP",
		[HOST_STEP_VS] = "reading VS",
		[HOST_STEP_ENABLE] = "enabling the controller",
		[HOST_STEP_READY] = "reading CSTS",
		[HOST_STEP_IDENTIFY] = "Identify Controller",
		[HOST_STEP_QUEUES] = "asking for I/O queues",
	};
	char text[HOST_REASON_BYTES / 2];

	host_lose(controller, -EIO, "the controller refuses %s: %s", actions[controller->step],
		host_status_text(status, text, sizeof(text)));
}

static void step_done(struct host_request *request, int error)
{
	struct host_controller *controller = container_of(request, struct host_controller, request);

	/* The connection is lost: the recovery makes the next attempt. */
	if (error)
		return;
	if (request->status && controller->step == HOST_STEP_CONNECT)
		connect_refused(&controller->admin, request->status);
	else if (request->status && controller->step != HOST_STEP_EVENTS)
		step_refused(controller, request->status);
	else
		step_finish(controller, request->result);
}

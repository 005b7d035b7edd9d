/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of controllers: creation, CC and CSTS, keep alive, asynchronous events, and the end of
 * the association, which closes all queues (NVMe base 2.0, sections 3.1.3, 3.3.2 and 3.9).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/core/objects.h"

enum {
	NS_PER_MS = 1000000,
	CC_CSS_SHIFT = 4,
	CC_MPS_MASK = 15 << 7,
	CC_AMS_MASK = 7 << 11,
	CC_SIZES_MASK = 15 << 16 | 15 << 20,
	CC_RESERVED = 0xff00000e,
};

static struct target_controller *controller_find(
	struct target_subsystem *subsystem, uint16_t cntlid)
{
	list_for_each(controller, &subsystem->controllers, struct target_controller, node)
		if (controller->cntlid == cntlid)
			return controller;
	return NULL;
}

struct target_controller *subsystem_controller(struct target_subsystem *subsystem, uint16_t cntlid)
{
	return controller_find(subsystem, cntlid);
}

/*
 * Choose a controller ID; 0 if all are in use. The IDs are used in turn, so that a late Connect of
 * an I/O queue does not find the ID of its old controller in use by another controller.
 */
static uint16_t cntlid_take(struct target_subsystem *subsystem)
{
	uint32_t count = (uint32_t)subsystem->cntlid_max - subsystem->cntlid_min + 1;

	for (uint32_t i = 0; i < count; i++) {
		uint16_t cntlid = subsystem->cntlid_next;

		subsystem->cntlid_next = cntlid == subsystem->cntlid_max ? subsystem->cntlid_min
									 : (uint16_t)(cntlid + 1);
		if (!controller_find(subsystem, cntlid))
			return cntlid;
	}
	return 0;
}

/*
 * How long the host may be silent; 0: for ever. After a reset or shutdown the keep alive timer does
 * not run (base 2.0, section 3.9), but the association ends some minutes later.
 */
static uint64_t silence_ns_max(const struct target_controller *controller)
{
	uint64_t ms = controller->is_stopped ? TARGET_STOPPED_MS : controller->kato_ms;

	return ms * NS_PER_MS;
}

static void keep_alive_begin(struct target_controller *controller)
{
	uint64_t silence_ns = silence_ns_max(controller);

	controller->heard_ns = loop_now_ns(controller->target->loop);
	if (silence_ns)
		loop_timer_set(controller->target->loop, &controller->keep_alive,
			controller->heard_ns + silence_ns);
	else
		loop_timer_cancel(&controller->keep_alive);
}

static void keep_alive_expired(struct loop_timer *timer)
{
	struct target_controller *controller =
		container_of(timer, struct target_controller, keep_alive);
	struct target *target = controller->target;
	uint64_t deadline = controller->heard_ns + silence_ns_max(controller);

	if (deadline > loop_now_ns(target->loop)) {
		loop_timer_set(target->loop, timer, deadline);
		return;
	}
	if (!controller->is_stopped) {
		target->counters.keep_alive_expired++;
		controller->csts |= NVME_CSTS_CFS;
	}
	controller_end(controller);
}

/* Round up to the granularity of the timeout (base 2.0, section 5.27.1.12). */
static uint32_t kato_round(uint32_t kato_ms)
{
	const uint32_t step_ms = TARGET_KAS * 100;
	uint32_t over_ms = kato_ms % step_ms;

	if (over_ms == 0 || kato_ms > UINT32_MAX - (step_ms - over_ms))
		return kato_ms;
	return kato_ms + step_ms - over_ms;
}

void controller_set_kato(struct target_controller *controller, uint32_t kato_ms)
{
	controller->kato_ms = kato_round(kato_ms);
	if (controller->is_discovery && kato_ms == 0)
		controller->kato_ms = TARGET_DISCOVERY_KATO_MS;
	keep_alive_begin(controller);
}

/* Set the features that the host may have changed to their defaults, which enable no events. */
static void features_default(struct target_controller *controller)
{
	controller->write_cache = 1;
	controller->qids_granted = controller->qid_max;
	controller->event_wanted = controller->event_pending = controller->event_told = 0;
	controller_set_kato(controller, controller->connect_kato_ms);
}

struct target_controller *controller_create(struct target_queue *admin,
	struct target_subsystem *subsystem, const struct nvme_connect_data *data, uint32_t kato_ms)
{
	uint16_t cntlid = cntlid_take(subsystem);
	struct target_controller *controller = cntlid ? calloc(1, sizeof(*controller)) : NULL;

	if (!controller)
		return NULL;
	controller->host = peer_host_reference(subsystem->target, data->hostnqn);
	if (!controller->host) {
		free(controller);
		return NULL;
	}
	if (!subsystem->is_discovery)
		peer_host_lose_all(controller->host);
	controller->target = subsystem->target;
	controller->subsystem = subsystem;
	controller->port = admin->port;
	controller->transport = admin->transport;
	controller->is_discovery = subsystem->is_discovery;
	controller->cntlid = cntlid;
	memcpy(controller->hostnqn, data->hostnqn, sizeof(controller->hostnqn));
	memcpy(controller->hostid, data->hostid, sizeof(controller->hostid));
	controller->in_capsule_bytes = admin->in_capsule_bytes;
	controller->qid_max = subsystem->is_discovery ? 0 : subsystem->qid_max;
	controller->connect_kato_ms = kato_ms;
	controller->admin = admin;
	list_init(&controller->queues);
	list_init(&controller->events);
	loop_timer_init(&controller->keep_alive, keep_alive_expired);
	list_append(&subsystem->controllers, &controller->node);
	controller->target->counters.controllers++;
	features_default(controller);
	return controller;
}

void controller_end(struct target_controller *controller)
{
	if (!controller->subsystem)
		return;
	loop_timer_cancel(&controller->keep_alive);
	list_remove(&controller->node);
	list_append(&controller->target->dying, &controller->node);
	controller->subsystem = NULL;
	controller->port = NULL;
	controller->csts &= ~(uint32_t)NVME_CSTS_RDY;
	list_for_each(queue, &controller->queues, struct target_queue, node)
		queue_close(queue);
}

void controller_queue_closed(struct target_controller *controller, struct target_queue *queue)
{
	list_remove(&queue->node);
	if (queue == controller->admin) {
		controller->admin = NULL;
		controller_end(controller);
	}
	if (controller->subsystem || !list_is_empty(&controller->queues))
		return;
	assert(list_is_empty(&controller->events));
	list_remove(&controller->node);
	peer_host_unreference(controller->host);
	free(controller);
}

struct target_queue *controller_queue(struct target_controller *controller, uint16_t qid)
{
	list_for_each(queue, &controller->queues, struct target_queue, node)
		if (queue->qid == qid)
			return queue;
	return NULL;
}

uint64_t controller_capabilities(const struct target_controller *controller)
{
	enum { CQR = 1 << 16, TO_SHIFT = 24, TO_HALF_SECONDS = 15, CSS_NVM_SHIFT = 37 };
	uint64_t mqes = controller->port ? controller->port->queue_entries - 1u : 1;

	return mqes | CQR | (uint64_t)TO_HALF_SECONDS << TO_SHIFT | 1ull << CSS_NVM_SHIFT;
}

static void io_queues_close(struct target_controller *controller)
{
	list_for_each(queue, &controller->queues, struct target_queue, node)
		if (queue->qid != 0)
			queue_close(queue);
}

static bool abort_first(struct target_queue *queue)
{
	list_for_each(command, &queue->commands, struct target_command, node)
		if (command->sqe.opcode != NVME_OPCODE_FABRICS && command_abort(command))
			return true;
	return false;
}

/*
 * Begin a reset. It ends the I/O queues, returns the features to their defaults, and aborts Admin
 * commands that wait. The Admin queue stays, and so do Fabrics commands, which a reset does not
 * concern (base 2.0, section 3.7.2).
 */
static void reset_begin(struct target_controller *controller)
{
	controller->csts &= NVME_CSTS_RDY;
	controller->is_resetting = true;
	controller->is_stopped = true;
	controller->flush_round = 0;
	io_queues_close(controller);
	features_default(controller);
	while (abort_first(controller->admin))
		;
}

/*
 * Begin a shutdown. CSTS.RDY stays 1, so that a later reset is complete only when RDY becomes 0, as
 * after any other reset.
 */
static void shutdown_start(struct target_controller *controller)
{
	controller->csts &= ~(uint32_t)NVME_CSTS_SHST_COMPLETE;
	controller->csts |= NVME_CSTS_SHST_OCCURRING;
	controller->is_stopped = true;
	keep_alive_begin(controller);
	io_queues_close(controller);
	if ((controller->cc & NVME_CC_SHN) == NVME_CC_SHN_NORMAL && !controller->is_discovery)
		shutdown_flush(controller);
}

static bool cc_is_usable(const struct target_controller *controller, uint32_t cc)
{
	/* Entry sizes mean nothing to a discovery controller, which has no I/O queues. */
	if (!controller->is_discovery && (cc & CC_SIZES_MASK) != NVME_CC_DEFAULT)
		return false;
	return !(cc & (CC_MPS_MASK | CC_AMS_MASK | CC_RESERVED)) &&
		((cc >> CC_CSS_SHIFT & 7) == 0 || (cc >> CC_CSS_SHIFT & 7) == 6);
}

static void controller_enable(struct target_controller *controller)
{
	controller->csts = cc_is_usable(controller, controller->cc) ? NVME_CSTS_RDY : NVME_CSTS_CFS;
	controller->is_stopped = false;
	keep_alive_begin(controller);
}

bool controller_configure(struct target_controller *controller, uint32_t cc)
{
	uint32_t before = controller->cc;

	/* While the controller is enabled, only EN and SHN may change (base 2.0, figure 45). */
	if ((before & cc & NVME_CC_EN) && ((before ^ cc) & ~(uint32_t)NVME_CC_SHN))
		return false;
	/* The host must wait until RDY is 0 before it sets EN (figure 45). */
	if ((cc & NVME_CC_EN) && controller->is_resetting)
		return false;
	controller->cc = cc;
	if ((cc & NVME_CC_EN) && !(before & NVME_CC_EN))
		controller_enable(controller);
	else if (!(cc & NVME_CC_EN) && (before & NVME_CC_EN))
		reset_begin(controller);
	if ((cc & NVME_CC_SHN) && !(before & NVME_CC_SHN))
		shutdown_start(controller);
	controller_settle(controller);
	return true;
}

void controller_settle(struct target_controller *controller)
{
	if (peer_host_has_lost(controller->host))
		return;
	if (controller->is_resetting)
		controller->csts &= ~(uint32_t)NVME_CSTS_RDY;
	controller->is_resetting = false;
	if (controller->csts & NVME_CSTS_SHST_OCCURRING && !controller->flush_round)
		controller->csts ^= NVME_CSTS_SHST_OCCURRING | NVME_CSTS_SHST_COMPLETE;
}

bool controller_is_ready(const struct target_controller *controller)
{
	return controller->csts & NVME_CSTS_RDY && !controller->is_stopped;
}

void controller_log_error(
	struct target_controller *controller, const struct target_command *command)
{
	struct log_error *error =
		&controller->errors[controller->error_count++ % TARGET_ERRORS_MAX];

	*error = (struct log_error){
		.count = controller->error_count,
		.sqid = command->queue->qid,
		.cid = command->sqe.cid,
		.status = (uint16_t)(command->cqe.status << 1),
		.location = 0xffff,
		.nsid = command->sqe.nsid,
		.lba = command->sqe.cdw10 | (uint64_t)command->sqe.cdw11 << 32,
	};
}

static uint32_t event_of(uint32_t mask)
{
	if (mask == EVENT_MASK_DISCOVERY)
		return EVENT_DISCOVERY;
	return mask == EVENT_MASK_ANA ? EVENT_ANA : EVENT_NAMESPACES;
}

/*
 * Report pending events. An event is not reported again before the host has read the log page of
 * the event (base 2.0, section 5.2).
 */
static void events_deliver(struct target_controller *controller)
{
	uint32_t due = controller->event_pending & ~controller->event_told;

	while (due && !list_is_empty(&controller->events)) {
		struct target_command *command =
			list_first(&controller->events, struct target_command, parked);
		uint32_t mask = due & -due;

		due &= ~mask;
		controller->event_pending &= ~mask;
		controller->event_told |= mask;
		controller->event_count--;
		controller->target->counters.events++;
		list_remove(&command->parked);
		command->stage = TARGET_STAGE_WORKING;
		command_finish_result(command, event_of(mask));
	}
}

void controller_event(struct target_controller *controller, uint32_t mask)
{
	if (!(controller->event_wanted & mask))
		return;
	controller->event_pending |= mask;
	events_deliver(controller);
}

void controller_event_clear(struct target_controller *controller, uint32_t mask)
{
	controller->event_told &= ~mask;
	events_deliver(controller);
}

void controller_wait_event(struct target_controller *controller, struct target_command *command)
{
	if (controller->event_count == TARGET_AER_MAX) {
		command_finish(command, NVME_AER_LIMIT);
		return;
	}
	controller->event_count++;
	command->stage = TARGET_STAGE_EVENT;
	list_append(&controller->events, &command->parked);
	events_deliver(controller);
}

void controller_namespace_changed(struct target_controller *controller, uint32_t nsid)
{
	bool is_listed = controller->changed_count > TARGET_CHANGED_MAX;

	for (uint32_t i = 0; i < controller->changed_count && !is_listed; i++)
		is_listed = controller->changed[i] == nsid;
	if (!is_listed) {
		if (controller->changed_count < TARGET_CHANGED_MAX)
			controller->changed[controller->changed_count] = nsid;
		controller->changed_count++;
	}
	controller_event(controller, EVENT_MASK_NAMESPACES);
}

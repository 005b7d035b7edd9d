/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of the host controller: which queue they take, how they end, and their time-outs.
 */
#include <assert.h>
#include <errno.h>

#include "nvmf/host/controller/controller_internal.h"
#include "nvmf/host/controller/sqe.h"

#define TICK_NS 250000000u
/* How long a request may take after its Abort was sent. */
#define ABORT_GRACE_NS 5000000000u

static struct host_request *request_of(struct host_command *command)
{
	return container_of(command, struct host_request, command);
}

static bool is_refused(const struct host_controller *controller, const struct host_request *request)
{
	return !request->is_admin && controller->io_state == HOST_IO_REFUSED;
}

static bool is_repeated(struct host_request *request, enum host_end end)
{
	struct host_controller *controller = request->queue->controller;

	if (controller->state == HOST_FAILED || controller->is_destroyed || request->is_own)
		return false;
	if (is_refused(controller, request))
		return false;
	if (end == HOST_UNSENT)
		return !controller->fails_fast;
	if (!request->is_repeatable)
		return false;
	if (end == HOST_LOST)
		return !controller->fails_fast;
	return request->repeats < HOST_REPEATS_MAX && !(request->status & HOST_STATUS_DNR) &&
		request->status != 0;
}

/* done() of each command. The transport has ended the command as `end` says. */
static void command_done(struct host_command *command, enum host_end end)
{
	struct host_request *request = request_of(command);
	struct host_controller *controller = request->queue->controller;

	list_remove(&command->core_node);
	request->queue->pending--;
	request->status = 0;
	if (end == HOST_COMPLETED) {
		request->status = le16_get(command->cqe + 14) >> 1;
		request->result = le64_get(command->cqe);
	} else if (end == HOST_DAMAGED) {
		request->status = HOST_STATUS_TRANSIENT;
	}
	if (is_repeated(request, end)) {
		request->repeats += end == HOST_COMPLETED || end == HOST_DAMAGED;
		list_append(&controller->repeated[request->is_admin], &request->node);
	} else if (end == HOST_COMPLETED || end == HOST_DAMAGED) {
		request->done(request, 0);
	} else {
		request->done(request, end == HOST_UNSENT ? -ENOTCONN : -EIO);
	}
	if (!controller->is_destroyed)
		host_requests_pump(controller);
}

static uint64_t timeout_ns(const struct host_queue_state *queue, const struct host_request *request)
{
	if (request->timeout_ns)
		return request->timeout_ns;
	return queue->qid ? queue->controller->settings.io_timeout_ns
			  : queue->controller->settings.admin_timeout_ns;
}

void host_queue_send(struct host_queue_state *queue, struct host_request *request)
{
	struct loop *loop = queue->controller->settings.loop;
	uint64_t timeout = timeout_ns(queue, request);

	assert(queue->transport && queue->pending < queue->depth);
	request->queue = queue;
	request->is_aborting = false;
	request->command.done = command_done;
	request->command.deadline_ns =
		timeout == HOST_NEVER_NS ? HOST_NEVER_NS : loop_now_ns(loop) + timeout;
	list_append(&queue->commands, &request->command.core_node);
	queue->pending++;
	if (timeout != HOST_NEVER_NS && !list_is_linked(&queue->controller->tick.node))
		loop_timer_set(loop, &queue->controller->tick, loop_now_ns(loop) + TICK_NS);
	queue->transport->transport->submit(queue->transport, &request->command);
}

/* Find a live queue with room. The I/O queues get requests in turn, so that their load is equal. */
static struct host_queue_state *queue_choose(struct host_controller *controller, bool is_admin)
{
	struct host_queue_state *admin = &controller->admin;

	/* Reserve one place of the Admin queue for Keep Alive and one for Abort. */
	if (is_admin)
		return admin->is_live && admin->pending + 2 < admin->depth ? admin : NULL;
	if (controller->io_state != HOST_IO_FLOWS)
		return NULL;
	for (unsigned i = 0; i < controller->io_count; i++) {
		unsigned number = (controller->io_next + i) % controller->io_count;
		struct host_queue_state *queue = &controller->io[number];

		if (queue->is_live && queue->pending < queue->depth) {
			controller->io_next = number + 1;
			return queue;
		}
	}
	return NULL;
}

/*
 * Does the request have more data than the transport accepts? That limit is MDTS, which may be
 * smaller after a reconnect than when the caller made the request.
 */
static bool is_too_long(
	const struct host_controller *controller, const struct host_request *request)
{
	return !request->is_admin && request->command.data_bytes > controller->data_bytes_max;
}

static void list_pump(struct host_controller *controller, struct list *list, bool is_admin)
{
	struct host_queue_state *queue;

	while (!list_is_empty(list) && (queue = queue_choose(controller, is_admin)) != NULL) {
		struct host_request *request = list_first(list, struct host_request, node);

		list_remove(&request->node);
		if (is_too_long(controller, request))
			request->done(request, -EIO);
		else
			host_queue_send(queue, request);
	}
}

void host_requests_pump(struct host_controller *controller)
{
	for (int i = 0; i < 2 && controller->state == HOST_LIVE; i++) {
		list_pump(controller, &controller->repeated[i], i);
		list_pump(controller, &controller->waiting[i], i);
	}
}

void host_submit(struct host_controller *controller, struct host_request *request)
{
	struct host_queue_state *queue;

	request->repeats = 0;
	request->status = 0;
	request->result = 0;
	if (controller->state == HOST_FAILED || controller->fails_fast ||
		(!request->is_admin && controller->settings.io_queues == 0)) {
		request->done(request, -ENOTCONN);
		return;
	}
	if (is_refused(controller, request)) {
		request->done(request, -EIO);
		return;
	}
	queue = controller->state == HOST_LIVE &&
			list_is_empty(&controller->waiting[request->is_admin]) &&
			list_is_empty(&controller->repeated[request->is_admin])
		? queue_choose(controller, request->is_admin)
		: NULL;
	if (queue)
		host_queue_send(queue, request);
	else
		list_append(&controller->waiting[request->is_admin], &request->node);
}

static void list_fail(struct list *list, int error)
{
	struct list failed;

	/* A request that done() submits goes to `list`, not to `failed`. */
	list_init(&failed);
	while (!list_is_empty(list)) {
		struct list *node = list->next;

		list_remove(node);
		list_append(&failed, node);
	}
	while (!list_is_empty(&failed)) {
		struct host_request *request = list_first(&failed, struct host_request, node);

		list_remove(&request->node);
		request->done(request, error);
	}
}

void host_allow_io(struct host_controller *controller)
{
	assert(controller->settings.holds_io);
	controller->io_state = HOST_IO_FLOWS;
	host_requests_pump(controller);
}

void host_refuse_io(struct host_controller *controller)
{
	assert(controller->settings.holds_io);
	controller->io_state = HOST_IO_REFUSED;
	list_fail(&controller->repeated[0], -EIO);
	list_fail(&controller->waiting[0], -EIO);
}

void host_requests_fail(struct host_controller *controller, int error)
{
	for (int i = 0; i < 2; i++) {
		list_fail(&controller->repeated[i], error);
		list_fail(&controller->waiting[i], error);
	}
}

static void abort_done(struct host_request *request, int error)
{
	struct host_controller *controller = container_of(request, struct host_controller, abort);

	(void)error;
	controller->is_abort_pending = false;
}

/* Abort the request `old`, which has exceeded its time-out (NVMe base 2.0, section 5.1). */
static void abort_send(struct host_controller *controller, struct host_request *old)
{
	struct host_request *abort = &controller->abort;

	old->is_aborting = true;
	old->command.deadline_ns = loop_now_ns(controller->settings.loop) + ABORT_GRACE_NS;
	if (controller->is_abort_pending || controller->admin.pending >= controller->admin.depth)
		return;
	controller->is_abort_pending = true;
	*abort = (struct host_request){.is_admin = true, .is_own = true, .done = abort_done};
	abort->timeout_ns = ABORT_GRACE_NS;
	host_sqe_init(&abort->command, NVME_ADMIN_ABORT, 0);
	host_sqe_dword(&abort->command, 10, (uint32_t)old->command.cid << 16 | old->queue->qid);
	host_queue_send(&controller->admin, abort);
}

/*
 * Find the requests of a queue that exceed their time-out. Returns false if such a request has
 * ended the association. `*ret_has_timed` becomes true if a pending request has a time-out.
 */
static bool queue_check(struct host_queue_state *queue, uint64_t now_ns, bool *ret_has_timed)
{
	struct host_controller *controller = queue->controller;

	list_for_each(command, &queue->commands, struct host_command, core_node) {
		struct host_request *request = request_of(command);

		if (command->deadline_ns == HOST_NEVER_NS)
			continue;
		*ret_has_timed = true;
		if (command->deadline_ns > now_ns)
			continue;
		if (queue->qid == 0 || request->is_aborting || controller->state != HOST_LIVE) {
			host_lose(controller, -ETIMEDOUT,
				"the controller did not answer %s %02xh in time",
				queue->qid ? "I/O command" : "Admin command", command->sqe[0]);
			return false;
		}
		abort_send(controller, request);
	}
	return true;
}

void host_tick_expired(struct loop_timer *timer)
{
	struct host_controller *controller = container_of(timer, struct host_controller, tick);
	uint64_t now_ns = loop_now_ns(controller->settings.loop);
	bool has_timed = false;

	if (!queue_check(&controller->admin, now_ns, &has_timed))
		return;
	for (unsigned i = 0; i < controller->settings.io_queues; i++) {
		if (!queue_check(&controller->io[i], now_ns, &has_timed))
			return;
	}
	if (has_timed)
		loop_timer_set(controller->settings.loop, timer, now_ns + TICK_NS);
}

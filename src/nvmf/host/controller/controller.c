/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of the host controller, and the recovery after a lost connection.
 *
 * Timers: `retry` begins the next attempt to connect. `attempt` ends an attempt that takes too
 * long. Without a connection, `fast_fail` ends the wait of the requests, `loss` ends the attempts.
 * `tick` runs while requests with a time-out are pending, and finds those that exceed it.
 * `keep_alive` sends Keep Alive. `ready` reads CSTS again.
 */
#include "nvmf/host/controller/controller.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvmf/host/controller/controller_internal.h"
#include "nvmf/host/controller/sqe.h"

#define FIRST_DELAY_NS 100000000u

enum {
	NS_PER_MS = 1000000,
	IO_DEPTH_DEFAULT = 128,
	/* Poll an empty queue so often: a step of the loop costs as much as many such polls. */
	POLL_ROUNDS = 32,
};

static void state_set(struct host_controller *controller, enum host_state state)
{
	controller->state = state;
	controller->settings.changed(controller->settings.context, state);
}

void host_lose(struct host_controller *controller, int error, const char *format, ...)
{
	va_list arguments;

	/* Until the recovery begins, later errors do not replace the first reason. */
	if (list_is_linked(&controller->recovery.node) || controller->is_destroyed ||
		controller->state == HOST_FAILED)
		return;
	controller->error = error;
	va_start(arguments, format);
	vsnprintf(controller->reason, sizeof(controller->reason), format, arguments);
	va_end(arguments);
	loop_defer(controller->settings.loop, &controller->recovery);
}

static void queue_close(struct host_queue_state *queue)
{
	struct host_queue *transport = queue->transport;

	queue->is_live = false;
	if (!transport)
		return;
	transport->transport->close(transport);
	queue->transport = NULL;
	assert(queue->pending == 0 && list_is_empty(&queue->commands));
}

static void close_all(struct host_controller *controller)
{
	loop_timer_cancel(&controller->attempt);
	loop_timer_cancel(&controller->tick);
	loop_timer_cancel(&controller->keep_alive);
	loop_timer_cancel(&controller->ready);
	/* A done() that is called below may submit a request, which must not find a live queue. */
	for (unsigned i = 0; i < controller->settings.io_queues; i++)
		controller->io[i].is_live = false;
	controller->admin.is_live = false;
	controller->io_live = 0;
	for (unsigned i = 0; i < controller->settings.io_queues; i++)
		queue_close(&controller->io[i]);
	queue_close(&controller->admin);
}

static void give_up(struct host_controller *controller)
{
	loop_timer_cancel(&controller->retry);
	loop_timer_cancel(&controller->fast_fail);
	loop_timer_cancel(&controller->loss);
	loop_defer_cancel(&controller->recovery);
	close_all(controller);
	controller->state = HOST_FAILED;
	host_requests_fail(controller, -ENOTCONN);
	controller->settings.changed(controller->settings.context, HOST_FAILED);
}

/* The delay before the next attempt: 0, then 100 ms, then doubled up to `reconnect_delay_ns`. */
static uint64_t delay_ns(const struct host_controller *controller)
{
	uint64_t delay = FIRST_DELAY_NS;

	if (controller->attempts == 0)
		return 0;
	for (unsigned i = 1;
		i < controller->attempts && delay < controller->settings.reconnect_delay_ns; i++)
		delay *= 2;
	return delay < controller->settings.reconnect_delay_ns
		? delay
		: controller->settings.reconnect_delay_ns;
}

static void start_patience(struct host_controller *controller)
{
	struct loop *loop = controller->settings.loop;
	uint64_t now_ns = loop_now_ns(loop);

	if (controller->settings.fast_fail_ns != HOST_NEVER_NS)
		loop_timer_set(
			loop, &controller->fast_fail, now_ns + controller->settings.fast_fail_ns);
	if (controller->settings.loss_ns != HOST_NEVER_NS)
		loop_timer_set(loop, &controller->loss, now_ns + controller->settings.loss_ns);
}

static void recovery_run(struct loop_work *work)
{
	struct host_controller *controller = container_of(work, struct host_controller, recovery);
	enum host_state before = controller->state;

	if (before == HOST_FAILED)
		return;
	if (before == HOST_CONNECTING && !controller->settings.keeps_trying) {
		give_up(controller);
		return;
	}
	close_all(controller);
	if (before == HOST_LIVE || (before == HOST_CONNECTING && controller->attempts == 1))
		start_patience(controller);
	loop_timer_set(controller->settings.loop, &controller->retry,
		loop_now_ns(controller->settings.loop) + delay_ns(controller));
	if (before == HOST_LIVE)
		state_set(controller, HOST_RECONNECTING);
}

static void retry_expired(struct loop_timer *timer)
{
	struct host_controller *controller = container_of(timer, struct host_controller, retry);

	controller->attempts++;
	loop_timer_set(controller->settings.loop, &controller->attempt,
		loop_now_ns(controller->settings.loop) + controller->settings.connect_timeout_ns);
	host_connect(controller);
}

static void attempt_expired(struct loop_timer *timer)
{
	static const char *const waits[] = {
		[HOST_STEP_ADMIN_QUEUE] = "the connection",
		[HOST_STEP_CONNECT] = "the answer to Connect",
		[HOST_STEP_CAP] = "the property CAP",
		[HOST_STEP_VS] = "the property VS",
		[HOST_STEP_ENABLE] = "the controller to be enabled",
		[HOST_STEP_READY] = "the controller to be ready",
		[HOST_STEP_IDENTIFY] = "Identify Controller",
		[HOST_STEP_QUEUES] = "the number of queues",
		[HOST_STEP_EVENTS] = "the configuration of events",
		[HOST_STEP_IO_QUEUES] = "the I/O queues",
		[HOST_STEP_DONE] = "nothing",
	};
	struct host_controller *controller = container_of(timer, struct host_controller, attempt);

	host_lose(controller, -ETIMEDOUT,
		"the target did not answer in time: still waiting for %s; check that it runs",
		waits[controller->step]);
}

static void fast_fail_expired(struct loop_timer *timer)
{
	struct host_controller *controller = container_of(timer, struct host_controller, fast_fail);

	controller->fails_fast = true;
	host_requests_fail(controller, -ENOTCONN);
}

static void loss_expired(struct loop_timer *timer)
{
	give_up(container_of(timer, struct host_controller, loss));
}

static void alive_done(struct host_request *request, int error)
{
	struct host_controller *controller = container_of(request, struct host_controller, alive);

	(void)error;
	controller->is_alive_pending = false;
}

static void keep_alive_set(struct host_controller *controller)
{
	uint32_t kato_ms = controller->settings.kato_ms;

	if (kato_ms != UINT32_MAX)
		loop_timer_set(controller->settings.loop, &controller->keep_alive,
			loop_now_ns(controller->settings.loop) + (uint64_t)kato_ms * NS_PER_MS / 2);
}

/*
 * Send a Keep Alive twice in each KATO. If its answer takes longer than KATO, the request exceeds
 * its time-out (NVMe base 2.0, section 3.9).
 */
static void keep_alive_expired(struct loop_timer *timer)
{
	struct host_controller *controller =
		container_of(timer, struct host_controller, keep_alive);
	struct host_request *alive = &controller->alive;

	if (!controller->is_alive_pending && controller->admin.pending < controller->admin.depth) {
		controller->is_alive_pending = true;
		*alive =
			(struct host_request){.is_admin = true, .is_own = true, .done = alive_done};
		alive->timeout_ns = (uint64_t)controller->settings.kato_ms * NS_PER_MS;
		host_sqe_init(&alive->command, NVME_ADMIN_KEEP_ALIVE, 0);
		host_queue_send(&controller->admin, alive);
	}
	keep_alive_set(controller);
}

void host_go_live(struct host_controller *controller)
{
	controller->step = HOST_STEP_DONE;
	loop_timer_cancel(&controller->attempt);
	loop_timer_cancel(&controller->fast_fail);
	loop_timer_cancel(&controller->loss);
	controller->fails_fast = false;
	controller->attempts = 0;
	if (controller->state == HOST_RECONNECTING)
		controller->reconnects++;
	controller->io_state = controller->settings.holds_io ? HOST_IO_HELD : HOST_IO_FLOWS;
	controller->admin.is_live = true;
	for (unsigned i = 0; i < controller->io_count; i++)
		controller->io[i].is_live = true;
	keep_alive_set(controller);
	state_set(controller, HOST_LIVE);
	host_requests_pump(controller);
}

/* `value`, or `standard` if `value` is 0. */
static uint64_t or_default(uint64_t value, uint64_t standard)
{
	return value ? value : standard;
}

static void settings_complete(struct host_controller_settings *settings)
{
	settings->io_depth = settings->io_depth ? settings->io_depth : IO_DEPTH_DEFAULT;
	settings->kato_ms = settings->kato_ms ? settings->kato_ms : HOST_KATO_MS_DEFAULT;
	settings->admin_timeout_ns =
		or_default(settings->admin_timeout_ns, HOST_ADMIN_TIMEOUT_NS_DEFAULT);
	settings->io_timeout_ns = or_default(settings->io_timeout_ns, HOST_IO_TIMEOUT_NS_DEFAULT);
	settings->connect_timeout_ns =
		or_default(settings->connect_timeout_ns, HOST_CONNECT_TIMEOUT_NS_DEFAULT);
	settings->reconnect_delay_ns =
		or_default(settings->reconnect_delay_ns, HOST_RECONNECT_NS_DEFAULT);
	settings->loss_ns = or_default(settings->loss_ns, HOST_LOSS_NS_DEFAULT);
	settings->fast_fail_ns = or_default(settings->fast_fail_ns, HOST_NEVER_NS);
}

static void queue_init(struct host_queue_state *queue, struct host_controller *controller,
	uint16_t qid, uint32_t depth)
{
	queue->controller = controller;
	queue->qid = qid;
	queue->depth = depth;
	list_init(&queue->commands);
}

static void timers_init(struct host_controller *controller)
{
	loop_work_init(&controller->recovery, recovery_run);
	loop_timer_init(&controller->retry, retry_expired);
	loop_timer_init(&controller->attempt, attempt_expired);
	loop_timer_init(&controller->fast_fail, fast_fail_expired);
	loop_timer_init(&controller->loss, loss_expired);
	loop_timer_init(&controller->tick, host_tick_expired);
	loop_timer_init(&controller->keep_alive, keep_alive_expired);
	loop_timer_init(&controller->ready, host_ready_expired);
}

int host_controller_create(
	const struct host_controller_settings *settings, struct host_controller **ret_controller)
{
	struct host_controller *controller;

	if (settings->io_queues > HOST_IO_QUEUES_MAX || settings->io_depth > HOST_DEPTH_MAX)
		return -EINVAL;
	controller = calloc(1, sizeof(*controller));
	if (!controller)
		return -ENOMEM;
	controller->settings = *settings;
	settings_complete(&controller->settings);
	controller->io = calloc(settings->io_queues + 1, sizeof(*controller->io));
	if (!controller->io) {
		free(controller);
		return -ENOMEM;
	}
	timers_init(controller);
	for (int i = 0; i < 2; i++) {
		list_init(&controller->waiting[i]);
		list_init(&controller->repeated[i]);
	}
	queue_init(&controller->admin, controller, 0, HOST_ADMIN_DEPTH);
	for (unsigned i = 0; i < settings->io_queues; i++)
		queue_init(&controller->io[i], controller, (uint16_t)(i + 1),
			controller->settings.io_depth);
	controller->state = HOST_CONNECTING;
	loop_timer_set(settings->loop, &controller->retry, loop_now_ns(settings->loop));
	*ret_controller = controller;
	return 0;
}

void host_controller_destroy(struct host_controller *controller)
{
	if (!controller)
		return;
	controller->is_destroyed = true;
	controller->state = HOST_FAILED;
	loop_timer_cancel(&controller->retry);
	loop_timer_cancel(&controller->fast_fail);
	loop_timer_cancel(&controller->loss);
	loop_defer_cancel(&controller->recovery);
	close_all(controller);
	host_requests_fail(controller, -ENOTCONN);
	free(controller->io);
	free(controller);
}

static unsigned poll_queues(struct host_controller *controller)
{
	unsigned done = 0;

	for (unsigned i = 0; i < controller->io_count; i++) {
		struct host_queue *transport = controller->io[i].transport;

		if (transport)
			done += transport->transport->poll(transport);
	}
	return done;
}

unsigned host_controller_poll(struct host_controller *controller)
{
	unsigned done = 0;

	for (unsigned i = 0; i < POLL_ROUNDS && done == 0 && controller->state == HOST_LIVE; i++)
		done = poll_queues(controller);
	return done;
}

enum host_state host_controller_state(const struct host_controller *controller)
{
	return controller->state;
}

const char *host_controller_reason(const struct host_controller *controller)
{
	return controller->reason;
}

int host_controller_error(const struct host_controller *controller)
{
	return controller->error;
}

const uint8_t *host_controller_identity(const struct host_controller *controller)
{
	return controller->identity;
}

uint16_t host_controller_cntlid(const struct host_controller *controller)
{
	return controller->cntlid;
}

unsigned host_controller_io_queues(const struct host_controller *controller)
{
	return controller->io_count;
}

uint32_t host_controller_io_depth(const struct host_controller *controller)
{
	return controller->io_count ? controller->io[0].depth : 0;
}

uint32_t host_controller_data_bytes_max(const struct host_controller *controller)
{
	return controller->data_bytes_max;
}

uint64_t host_controller_reconnects(const struct host_controller *controller)
{
	return controller->reconnects;
}

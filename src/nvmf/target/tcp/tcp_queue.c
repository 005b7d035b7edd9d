/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/target/tcp/tcp_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "nvmf/common/codec/discovery.h"
#include "nvmf/common/codec/identify.h"

#define TERM_LINGER_NS   5000000000u
#define ICREQ_NS_DEFAULT 10000000000u
#define R2T_NS_DEFAULT   60000000000u

static struct tcp_queue *queue_of(struct target_queue *queue)
{
	return container_of(queue, struct tcp_queue, queue);
}

static struct tcp_command *command_of(struct target_command *command)
{
	return container_of(command, struct tcp_command, command);
}

static void command_init(struct tcp_queue *q, struct tcp_command *c, uint16_t index)
{
	c->index = index;
	list_init(&c->node);
	list_append(&q->free, &c->node);
}

struct tcp_command *tcp_command_take(struct tcp_queue *q)
{
	struct tcp_command *c;

	if (list_is_empty(&q->free))
		return NULL;
	c = list_first(&q->free, struct tcp_command, node);
	list_remove(&c->node);
	c->is_used = true;
	c->is_responding = false;
	c->is_damaged = false;
	c->state = TCP_DATA_NONE;
	c->received = 0;
	c->asked = 0;
	c->command.data = NULL;
	c->command.is_in_capsule = false;
	c->command.refusal = NVME_SUCCESS;
	q->used++;
	return c;
}

static void free_if_unused(struct tcp_queue *q)
{
	if (!q->is_over || q->used)
		return;
	q->tcp->count--;
	list_remove(&q->node);
	free(q->commands);
	free(q->last);
	free(q);
}

bool tcp_command_allocate(struct tcp_command *c, uint32_t bytes)
{
	assert(!c->buffer);
	c->buffer = malloc(bytes);
	if (!c->buffer)
		return false;
	c->buffer_bytes = bytes;
	return true;
}

static void resume_waiting(struct tcp_queue *q);

void tcp_command_release(struct tcp_queue *q, struct tcp_command *c)
{
	list_remove(&c->node);
	if (c->buffer && !c->command.is_in_capsule) {
		q->data_bytes -= c->buffer_bytes;
		q->tcp->data_bytes -= c->buffer_bytes;
	}
	free(c->buffer);
	c->buffer = NULL;
	c->is_used = false;
	c->generation++;
	q->used--;
	/* Once the array of commands exists, the queue no longer uses the early command. */
	if (c != &q->early || !q->commands)
		list_append(&q->free, &c->node);
	resume_waiting(q);
	free_if_unused(q);
}

struct tcp_command *tcp_command_of_ttag(struct tcp_queue *q, uint16_t ttag)
{
	uint16_t index = ttag & ((1 << TCP_INDEX_BITS) - 1);
	struct tcp_command *c = NULL;

	if (index == q->early.index)
		c = &q->early;
	else if (index < q->entries)
		c = &q->commands[index];
	return c && c->is_used && tcp_ttag(c) == ttag ? c : NULL;
}

void tcp_r2t_sent(struct tcp_queue *q, struct tcp_command *c)
{
	uint64_t timeout_ns = q->tcp->settings.r2t_timeout_ns;

	c->state = TCP_DATA_OUTSTANDING;
	c->deadline_ns = loop_now_ns(q->tcp->loop) + (timeout_ns ? timeout_ns : R2T_NS_DEFAULT);
	list_append(&q->granted, &c->node);
	if (!list_is_linked(&q->r2t_timer.node))
		loop_timer_set(q->tcp->loop, &q->r2t_timer, c->deadline_ns);
}

/* The data of a command is overdue, unless it has arrived since the timer was set. */
static void r2t_expired(struct loop_timer *timer)
{
	struct tcp_queue *q = container_of(timer, struct tcp_queue, r2t_timer);
	struct tcp_command *c = list_first(&q->granted, struct tcp_command, node);

	if (list_is_empty(&q->granted))
		return;
	if (c->deadline_ns > loop_now_ns(q->tcp->loop)) {
		loop_timer_set(q->tcp->loop, timer, c->deadline_ns);
		return;
	}
	q->tcp->counters.r2t_timeouts++;
	target_report_no_data(&q->queue);
	tcp_queue_end(q);
}

/* --- what the core calls --- */

static bool set_entries(struct target_queue *queue, uint16_t entries)
{
	struct tcp_queue *q = queue_of(queue);

	if (q->commands)
		return q->entries == entries;
	q->commands = calloc(entries, sizeof(*q->commands));
	if (!q->commands)
		return false;
	q->entries = entries;
	for (uint16_t i = 0; i < entries; i++)
		command_init(q, &q->commands[i], i);
	return true;
}

/*
 * Whether `bytes` more bytes of data may be allocated. Whatever other queues use, a queue gets
 * memory for the first of its commands, and for further ones up to twice the most data of a
 * command. So a fused pair can always end.
 */
static bool has_room(const struct tcp_queue *q, uint32_t bytes)
{
	uint64_t mine = (uint64_t)q->data_bytes + bytes, all = q->tcp->data_bytes + bytes;

	if (q->data_bytes == 0 || mine <= 2 * TARGET_DATA_BYTES_MAX)
		return true;
	return mine <= TCP_QUEUE_DATA_MAX && all <= q->tcp->settings.data_bytes_max;
}

/*
 * Allocate the command's buffer, then request its data from the host (R2T), or report that the
 * buffer is ready. Returns false if there is no room. In-capsule data is not counted, because it
 * arrives before its command is known, and the number of entries limits it.
 */
static bool take_room(struct tcp_queue *q, struct tcp_command *c)
{
	uint32_t bytes = c->command.data_bytes;

	if (!has_room(q, bytes))
		return false;
	if (!tcp_command_allocate(c, bytes)) {
		target_command_data_ready(&c->command, NVME_INTERNAL);
		return true;
	}
	q->data_bytes += bytes;
	q->tcp->data_bytes += bytes;
	c->command.data = c->buffer;
	if (c->command.direction == TARGET_FROM_CONTROLLER) {
		c->state = TCP_DATA_HERE;
		target_command_data_ready(&c->command, NVME_SUCCESS);
	} else {
		tcp_send_r2t(q, c);
	}
	return true;
}

/*
 * Commands get memory in the order of arrival, so that a large command gets its turn. Therefore at
 * most one fused pair of a queue has memory for its first half only. The second half of that pair
 * waits only for commands that can end without it.
 */
static void need_room(struct tcp_queue *q, struct tcp_command *c)
{
	if (list_is_empty(&q->waiting) && take_room(q, c))
		return;
	c->state = TCP_DATA_WAITING;
	list_append(&q->waiting, &c->node);
}

/*
 * Serve the commands that wait for memory. A command that gets memory may end at once, and its end
 * calls this function again; is_resuming ends that inner call.
 */
static void resume_waiting(struct tcp_queue *q)
{
	if (q->is_resuming)
		return;
	q->is_resuming = true;
	while (!q->is_over && !q->is_refused && !list_is_empty(&q->waiting)) {
		struct tcp_command *c = list_first(&q->waiting, struct tcp_command, node);

		list_remove(&c->node);
		c->state = TCP_DATA_NONE;
		if (take_room(q, c))
			continue;
		/* The command stays the first one in the list. */
		c->state = TCP_DATA_WAITING;
		list_append(q->waiting.next, &c->node);
		break;
	}
	q->is_resuming = false;
}

static void command_fetch(struct target_command *command)
{
	struct tcp_queue *q = queue_of(command->queue);
	struct tcp_command *c = command_of(command);

	if (command->is_in_capsule) {
		command->data = c->buffer;
		c->state = TCP_DATA_HERE;
		target_command_data_ready(command, NVME_SUCCESS);
	} else if (q->is_over || q->is_refused) {
		target_command_data_ready(command, NVME_SQ_DELETED);
	} else {
		need_room(q, c);
	}
}

static void command_prepare(struct target_command *command)
{
	struct tcp_queue *q = queue_of(command->queue);

	if (q->is_over || q->is_refused)
		target_command_data_ready(command, NVME_SQ_DELETED);
	else
		need_room(q, command_of(command));
}

static void command_respond(struct target_command *command)
{
	struct tcp_queue *q = queue_of(command->queue);
	struct tcp_command *c = command_of(command);

	if (q->is_over || q->is_refused)
		tcp_command_release(q, c);
	else
		tcp_send_response(q, c);
}

static void close_queue(struct target_queue *queue)
{
	struct tcp_queue *q = queue_of(queue);

	if (!q->is_over)
		loop_defer(q->tcp->loop, &q->close);
}

const struct target_transport target_tcp_transport = {
	.name = "tcp",
	.trtype = DISCOVERY_TCP,
	.sgls = IDENTIFY_SGLS_SUPPORTED | IDENTIFY_SGLS_OFFSET | IDENTIFY_SGLS_TRANSPORT,
	.data_bytes_max = TARGET_DATA_BYTES_MAX,
	.set_entries = set_entries,
	.fetch = command_fetch,
	.prepare = command_prepare,
	.respond = command_respond,
	.close = close_queue,
};

/* --- the life of a connection --- */

/*
 * The connection has ended. Pass a command that waits for its data to the core, with
 * NVME_SQ_DELETED. Release a command that is being received or whose response is being sent. The
 * core has all other commands already.
 */
static bool drop_one(struct tcp_queue *q, struct tcp_command *c)
{
	if (!c->is_used)
		return false;
	if (c->state == TCP_DATA_WAITING || c->state == TCP_DATA_ASKING ||
		c->state == TCP_DATA_OUTSTANDING) {
		list_remove(&c->node);
		c->state = TCP_DATA_HERE;
		target_command_data_ready(&c->command, NVME_SQ_DELETED);
	} else if (c->is_responding || c == q->receiving) {
		if (c == q->receiving)
			q->receiving = NULL;
		tcp_command_release(q, c);
	}
	return true;
}

static void drop_commands(struct tcp_queue *q)
{
	q->used++; /* keep free_if_unused() from freeing the queue */
	drop_one(q, &q->early);
	for (uint16_t i = 0; i < q->entries; i++)
		drop_one(q, &q->commands[i]);
	q->used--;
}

void tcp_queue_end(struct tcp_queue *q)
{
	if (q->is_over)
		return;
	q->is_over = true;
	loop_timer_cancel(&q->timer);
	loop_timer_cancel(&q->r2t_timer);
	loop_defer_cancel(&q->send);
	loop_defer_cancel(&q->close);
	loop_unwatch(q->tcp->loop, &q->watch);
	q->tcp->network->close(q->tcp->network, q->watch.fd);
	q->used++;
	drop_commands(q);
	target_queue_closed(&q->queue);
	q->used--;
	free_if_unused(q);
}

void tcp_queue_refuse(struct tcp_queue *q)
{
	bool has_last = tcp_send_last(q);

	q->is_refused = true;
	q->used++;
	drop_commands(q);
	q->used--;
	if (!has_last) {
		tcp_queue_end(q);
		return;
	}
	q->tcp->counters.refused_pdus++;
	loop_timer_set(q->tcp->loop, &q->timer, loop_now_ns(q->tcp->loop) + TERM_LINGER_NS);
	if (!tcp_queue_send(q))
		tcp_queue_end(q);
}

static void timer_expired(struct loop_timer *timer)
{
	struct tcp_queue *q = container_of(timer, struct tcp_queue, timer);

	if (!q->is_refused)
		q->tcp->counters.icreq_timeouts++;
	tcp_queue_end(q);
}

static void send_run(struct loop_work *work)
{
	struct tcp_queue *q = container_of(work, struct tcp_queue, send);

	if (!tcp_queue_send(q))
		tcp_queue_end(q);
}

static void close_run(struct loop_work *work)
{
	struct tcp_queue *q = container_of(work, struct tcp_queue, close);

	(void)tcp_queue_send(q);
	tcp_queue_end(q);
}

static void socket_ready(struct loop_watch *watch, uint32_t events)
{
	struct tcp_queue *q = container_of(watch, struct tcp_queue, watch);

	if (events & EPOLLOUT) {
		q->is_blocked = false;
		if (!tcp_queue_send(q)) {
			tcp_queue_end(q);
			return;
		}
	}
	if (events & (uint32_t)~EPOLLOUT)
		tcp_queue_receive(q);
}

int target_tcp_attach(struct target_tcp *tcp, int fd, const char *peer)
{
	enum target_admission admission = target_admit(tcp->settings.target, peer);
	struct tcp_queue *q = admission == TARGET_NOT_ADMITTED ? NULL : calloc(1, sizeof(*q));
	uint32_t capsule_bytes_max = tcp->settings.in_capsule_bytes > TCP_ADMIN_DATA_BYTES
		? tcp->settings.in_capsule_bytes
		: TCP_ADMIN_DATA_BYTES;
	int error;

	if (!q) {
		tcp->network->close(tcp->network, fd);
		return admission == TARGET_NOT_ADMITTED ? -EUSERS : -ENOMEM;
	}
	q->tcp = tcp;
	q->queue.is_surplus = admission == TARGET_ADMITTED_AS_SURPLUS;
	q->queue.transport = &target_tcp_transport;
	q->queue.port = tcp->settings.port;
	q->queue.in_capsule_bytes = tcp->settings.in_capsule_bytes;
	snprintf(q->queue.peer, sizeof(q->queue.peer), "%s", peer);
	list_init(&q->free);
	list_init(&q->output);
	list_init(&q->waiting);
	list_init(&q->granted);
	list_init(&q->node);
	command_init(q, &q->early, TARGET_IO_ENTRIES_MAX);
	tcp_rx_init(&q->rx, true, capsule_bytes_max, tcp->settings.h2c_bytes_max);
	loop_work_init(&q->send, send_run);
	loop_work_init(&q->close, close_run);
	loop_timer_init(&q->timer, timer_expired);
	loop_timer_init(&q->r2t_timer, r2t_expired);
	q->watch.ready = socket_ready;
	error = loop_watch(tcp->loop, &q->watch, fd, EPOLLIN);
	if (error) {
		tcp->network->close(tcp->network, fd);
		free(q);
		return error;
	}
	loop_timer_set(tcp->loop, &q->timer,
		loop_now_ns(tcp->loop) +
			(tcp->settings.icreq_timeout_ns ? tcp->settings.icreq_timeout_ns
							: ICREQ_NS_DEFAULT));
	list_append(&tcp->queues, &q->node);
	tcp->count++;
	target_queue_open(tcp->settings.target, &q->queue);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The borrower of a target: it has opened the receiving queue pair of another process.
 *
 * Locks: opening.calling serializes the calls; opening.lock guards the answer and the state. See
 * lock_order.def. The control thread takes opening.lock while the NIC is locked. A thread that
 * calls the owner has not locked the NIC.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/place.h"
#include "nic/nic_control.h"
#include "nic/nic_internal.h"
#include "nic/object/nic_object.h"
#include "os/cancel.h"
#include "os/log.h"
#include "peer/nic_peer.h"
#include "xrc/nic_target.h"

enum {
	CALL_TIMEOUT_S = 10, /* an owner that SIGSTOP has stopped may never answer */
	/*
	 * The limit for TARGET_CLOSE. It is short, because the opening also ends when this process
	 * closes the connection.
	 */
	CLOSE_TIMEOUT_S = 2,
};

struct nic_opening {
	struct nic_borrowed_qp borrowed; /* qp->borrowed points here */
	struct list link; /* in openings */
	struct nic_qp *qp;
	uint64_t epoch;
	uint32_t number;
	struct nic_xrcd *xrcd;
	pthread_mutex_t calling;
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t answered;
	int fd;
	bool is_lost; /* the owner has ended */
	bool is_answered; /* the answer to call number `sequence` has arrived */
	uint32_t sequence; /* the number of the last call */
	struct target_message answer;
	struct nic_qp_state state; /* as the owner last reported it */
};

static struct list openings = {&openings, &openings};

static struct nic_opening *opening_from(struct nic_borrowed_qp *borrowed)
{
	return container_of(borrowed, struct nic_opening, borrowed);
}

/* --- calls --- */

/*
 * Wait for the owner's answer to the pending call. opening->calling and opening->lock are locked.
 * Returns 0 when the answer has arrived; -ETIMEDOUT; or -EIO when the opening is lost.
 */
static int answer_await(struct nic_opening *opening, const struct timespec *end)
{
	int error = 0;

	while (!opening->is_lost && !opening->is_answered && !error)
		error = pthread_cond_clockwait(
			&opening->answered, &opening->lock, CLOCK_MONOTONIC, end);
	if (opening->is_lost)
		return -EIO;
	return opening->is_answered ? 0 : -error;
}

/* Does the work of owner_call(). opening->calling and opening->lock are locked. */
static int call_locked(
	struct nic_opening *opening, struct target_message *message, const struct timespec *end)
{
	int error;

	if (opening->is_lost)
		return -EIO;
	message->sequence = ++opening->sequence;
	opening->is_answered = false;
	error = nic_target_send(opening->fd, message);
	if (error == -EAGAIN)
		return -ETIMEDOUT; /* the socket is full of calls that the owner has not read */
	error = answer_await(opening, end);
	if (!error) {
		error = opening->answer.error;
		opening->state = opening->answer.state;
		if (opening->is_lost)
			opening->state.state = QP_ERR;
	}
	return error;
}

/*
 * Call the owner. Returns 0 or the owner's error; -EIO when the owner has ended; or -ETIMEDOUT,
 * after which the owner may still execute the call.
 */
static int owner_call(
	struct nic_opening *opening, struct target_message *message, uint32_t timeout_s)
{
	struct timespec end;
	int cancel, error;

	if (opening->epoch != nic_epoch)
		return -EIO;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout_s;
	cancel = cancel_forbid();
	pthread_mutex_lock(&opening->calling);
	pthread_mutex_lock(&opening->lock);
	error = call_locked(opening, message, &end);
	pthread_mutex_unlock(&opening->lock);
	pthread_mutex_unlock(&opening->calling);
	cancel_allow(cancel);
	return error;
}

static int opening_modify(struct nic_borrowed_qp *borrowed, enum qp_state to, uint32_t mask,
	const struct qp_attr *attr)
{
	struct target_message message = {.call = TARGET_MODIFY, .modify = {to, mask, *attr}};

	return owner_call(opening_from(borrowed), &message, CALL_TIMEOUT_S);
}

static struct nic_qp_state opening_query(struct nic_borrowed_qp *borrowed)
{
	struct nic_opening *opening = opening_from(borrowed);
	struct target_message message = {.call = TARGET_QUERY};
	struct nic_qp_state state = {.state = QP_ERR};

	owner_call(opening, &message, CALL_TIMEOUT_S);
	if (opening->epoch != nic_epoch)
		return state;
	pthread_mutex_lock(&opening->lock);
	state = opening->state;
	pthread_mutex_unlock(&opening->lock);
	return state;
}

static uint32_t opening_number(const struct nic_borrowed_qp *borrowed)
{
	return container_of(borrowed, struct nic_opening, borrowed)->number;
}

/* --- opening and closing --- */

/* Connect to the process that has the slot. Returns the socket, or -errno. */
static int owner_connect(uint8_t slot)
{
	char path[PLACE_PATH_BYTES];
	uint64_t identity;
	int result = nic_peer_identify(slot, &identity);
	int cancel = cancel_forbid();

	if (!result)
		result = place_connect_as(PLACE_XRC, identity, PLACE_OWN, 0, path);
	cancel_allow(cancel);
	return result;
}

static void opening_init(struct nic_opening *opening, int fd)
{
	memset(opening, 0, sizeof(*opening));
	opening->epoch = nic_epoch;
	opening->fd = fd;
	pthread_mutex_init(&opening->calling, NULL);
	pthread_mutex_init(&opening->lock, NULL);
	pthread_cond_init(&opening->answered, NULL);
}

static void opening_close(struct nic_borrowed_qp *borrowed)
{
	struct nic_opening *opening = opening_from(borrowed);
	struct target_message message = {.call = TARGET_CLOSE};

	if (opening->epoch == nic_epoch) {
		owner_call(opening, &message, CLOSE_TIMEOUT_S);
		nic_enter();
		list_remove(&opening->link);
		if (opening->fd >= 0)
			close(opening->fd);
		nic_leave();
		pthread_cond_destroy(&opening->answered);
		pthread_mutex_destroy(&opening->lock);
		pthread_mutex_destroy(&opening->calling);
	}
	free(opening);
}

static const struct nic_borrowed_qp_ops borrowed_ops = {
	.modify = opening_modify,
	.query = opening_query,
	.close = opening_close,
	.number = opening_number,
};

/* Connect to the process that may have the target. The NIC is locked. Returns 0 or -errno. */
static int opening_begin(struct nic_qp *qp, struct nic_xrcd *xrcd, uint32_t number)
{
	struct nic_opening *opening = malloc(sizeof(*opening));
	int fd = opening ? owner_connect((uint8_t)(number >> 16)) : -ENOMEM;
	int error = fd < 0 ? fd : nic_control_watch_work(fd);

	if (error) {
		if (fd >= 0)
			close(fd);
		free(opening);
		return error;
	}
	opening_init(opening, fd);
	opening->borrowed.ops = &borrowed_ops;
	opening->number = number;
	opening->xrcd = xrcd;
	opening->qp = qp;
	list_append(&openings, &opening->link);
	qp->borrowed = &opening->borrowed;
	return 0;
}

/* Log why the queue pair is not opened: -EINVAL unless memory, descriptors or time ran out. */
static int opening_refused(uint32_t number, int error)
{
	bool is_shortage =
		error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -ETIMEDOUT;

	log_write(is_shortage ? LOG_ERROR : LOG_INFO,
		"XRC queue pair 0x%06x cannot be opened: %s%s", number, strerror(-error),
		log_advice(-error));
	return is_shortage ? error : -EINVAL;
}

int nic_target_open(struct nic_xrcd *xrcd, uint32_t number, nic_qp_event_fn *on_event, void *user,
	struct nic_qp **ret_qp)
{
	struct target_message message = {
		.call = TARGET_OPEN,
		.open = {number, xrcd->ifindex, xrcd->file},
	};
	struct nic_qp *qp = calloc(1, sizeof(*qp));
	struct worker *worker;
	int error;

	if (!qp)
		return -ENOMEM;
	qp->on_event = on_event;
	qp->user = user;
	nic_enter();
	error = xrcd->epoch == nic_epoch && xrcd->file.inode && number >> 24 == 0 ? 0 : -EINVAL;
	if (!error)
		error = nic_worker_get(xrcd->home, &worker); /* connects to urnicd, too */
	if (!error)
		error = opening_begin(qp, xrcd, number);
	nic_leave();
	if (!error)
		error = owner_call(opening_from(qp->borrowed), &message, CALL_TIMEOUT_S);
	if (error) {
		if (qp->borrowed)
			opening_close(qp->borrowed);
		free(qp);
		return opening_refused(number, error);
	}
	*ret_qp = qp;
	return 0;
}

/* --- the thread that reads connections --- */

/* The owner has ended: wake the threads that wait for an answer, and notify the program. */
static void opening_lose(struct nic_opening *opening)
{
	pthread_mutex_lock(&opening->lock);
	close(opening->fd);
	opening->fd = -1;
	opening->is_lost = true;
	opening->state.state = QP_ERR;
	pthread_cond_broadcast(&opening->answered);
	pthread_mutex_unlock(&opening->lock);
	opening->qp->on_event(opening->qp->user, SIGNAL_QP_FATAL);
}

static void answer_take(struct nic_opening *opening, const struct target_message *message)
{
	pthread_mutex_lock(&opening->lock);
	if (message->sequence == opening->sequence) {
		opening->answer = *message;
		opening->is_answered = true;
		pthread_cond_signal(&opening->answered);
	}
	pthread_mutex_unlock(&opening->lock);
}

/* The NIC is locked. */
static void opening_hear(struct nic_opening *opening)
{
	struct target_message message;
	int error = opening->fd < 0 ? -EAGAIN : 0;

	while (!error) {
		error = nic_target_receive(opening->fd, &message);
		if (!error && message.call == TARGET_EVENTS)
			opening->qp->on_event(opening->qp->user, message.events);
		else if (!error)
			answer_take(opening, &message);
	}
	if (error != -EAGAIN)
		opening_lose(opening);
}

void nic_openings_hear(void)
{
	nic_enter();
	list_for_each(opening, &openings, struct nic_opening, link)
		opening_hear(opening);
	nic_leave();
}

/* --- fork --- */

void nic_openings_forget(void)
{
	list_for_each(opening, &openings, struct nic_opening, link)
		if (opening->fd >= 0)
			close(opening->fd);
	list_init(&openings);
}

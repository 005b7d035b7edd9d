/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's side of targets: borrowers connect, call, and leave.
 *
 * Only the control thread changes target_borrowers, and each target's list of borrowers. It changes
 * target_borrowers with the NIC locked, and a target's list with the target's worker locked as
 * well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/place.h"
#include "nic/nic_control.h"
#include "nic/nic_internal.h"
#include "nic/object/nic_object.h"
#include "os/cancel.h"
#include "os/log.h"
#include "xrc/nic_target.h"

enum {
	BORROWERS_MAX = 4096,
	CALLS_IN_A_ROW = 16, /* calls of one borrower before the thread serves the next borrower */
};

struct borrower {
	struct list link; /* in target_borrowers */
	struct list qp_link; /* in qp->borrowers */
	int fd;
	struct nic_qp *qp; /* the target that it has opened; NULL: none */
	uint32_t unsaid; /* events that are not sent yet, because the socket was full */
};

/* --- listening --- */

static struct list target_borrowers = {&target_borrowers, &target_borrowers};
static uint32_t target_borrower_count;
static struct place_listener target_listener = {.socket = -1};

/* Returns 0 or -errno. */
static int listener_open(void)
{
	int cancel = cancel_forbid();
	int error = place_listen_as(PLACE_XRC, nic.public->identity, false, &target_listener);

	if (!error) {
		error = nic_control_watch_work(target_listener.socket);
		if (error)
			place_leave(&target_listener);
	}
	cancel_allow(cancel);
	return error;
}

void nic_target_listen(void)
{
	int error = target_listener.socket < 0 ? listener_open() : 0;

	if (error)
		log_write(LOG_ERROR,
			"other processes cannot open the XRC queue pairs of this one: %s",
			strerror(-error));
}

/* Does the process at the other end belong to our user? */
static bool is_trusted(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.uid == geteuid();
}

/* The NIC is locked. */
static void borrower_add(int fd)
{
	struct borrower *borrower = NULL;

	if (target_borrower_count < BORROWERS_MAX && is_trusted(fd))
		borrower = calloc(1, sizeof(*borrower));
	if (!borrower || nic_control_watch_work(fd)) {
		free(borrower);
		close(fd);
		return;
	}
	borrower->fd = fd;
	list_init(&borrower->qp_link);
	list_append(&target_borrowers, &borrower->link);
	target_borrower_count++;
}

static void borrowers_accept(void)
{
	int fd = 0;

	nic_enter();
	while (target_listener.socket >= 0 && fd >= 0) {
		fd = accept4(target_listener.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			borrower_add(fd);
		else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			/* Stop listening: a waiting connection would keep the thread awake. */
			log_write(LOG_ERROR,
				"no more processes can open the XRC queue pairs of this one: %s",
				strerror(errno));
			place_leave(&target_listener);
		}
	}
	nic_leave();
}

/* --- calls --- */

/* The NIC is locked. */
static struct nic_qp *target_find(uint32_t number, uint32_t ifindex, const struct xrc_file *file)
{
	struct nic_qp *found = nic_qp_find(number, QP_TYPE_XRC_RECV);

	if (!found || !file->inode || found->xrcd->ifindex != ifindex ||
		found->xrcd->file.device != file->device || found->xrcd->file.inode != file->inode)
		return NULL;
	return found;
}

static int borrower_open(struct borrower *borrower, const struct target_message *call)
{
	struct nic_qp *qp;

	nic_enter();
	qp = borrower->qp ? NULL
			  : target_find(call->open.number, call->open.ifindex, &call->open.file);
	if (qp) {
		worker_lock(qp->worker);
		list_append(&qp->borrowers, &borrower->qp_link);
		worker_unlock(qp->worker);
		borrower->qp = qp;
	}
	nic_leave();
	return qp ? 0 : -EINVAL;
}

/*
 * End the borrower's opening. If it was the last opening of a target that the owner's program has
 * destroyed, the target ends, too.
 */
static void borrower_close(struct borrower *borrower)
{
	struct nic_qp *qp = borrower->qp;

	if (!qp)
		return;
	nic_enter();
	worker_lock(qp->worker);
	list_remove(&borrower->qp_link);
	worker_unlock(qp->worker);
	borrower->qp = NULL;
	if (qp->is_released && list_is_empty(&qp->borrowers))
		nic_qp_end(qp);
	nic_leave();
}

/* Returns 0 or -errno. */
static int call_execute(struct borrower *borrower, const struct target_message *call)
{
	/* Not used, because only the program's own threads can make its memory mappable */
	bool has_come;

	if (call->call == TARGET_OPEN)
		return borrower_open(borrower, call);
	if (!borrower->qp)
		return -EINVAL;
	if (call->call == TARGET_MODIFY)
		return nic_qp_change(borrower->qp, call->modify.to, call->modify.mask,
			&call->modify.attr, &has_come);
	if (call->call == TARGET_CLOSE)
		borrower_close(borrower);
	return 0;
}

/* Answer the borrower's calls. Returns false when the connection has ended. */
static bool borrower_serve(struct borrower *borrower)
{
	struct target_message call;
	int error = 0;

	for (uint32_t i = 0; i < CALLS_IN_A_ROW && !error; i++) {
		error = nic_target_receive(borrower->fd, &call);
		if (error)
			break;
		struct target_message answer = {
			.call = call.call,
			.sequence = call.sequence,
			.error = call_execute(borrower, &call),
		};

		if (borrower->qp)
			answer.state = nic_qp_query(borrower->qp);
		error = nic_target_send(borrower->fd, &answer) ? -EPIPE : 0;
	}
	return !error || error == -EAGAIN;
}

static void borrower_drop(struct borrower *borrower)
{
	borrower_close(borrower);
	nic_enter();
	list_remove(&borrower->link);
	target_borrower_count--;
	nic_leave();
	close(borrower->fd);
	free(borrower);
}

void nic_target_serve(void)
{
	borrowers_accept();
	list_for_each_safe(borrower, &target_borrowers, struct borrower, link)
		if (!borrower_serve(borrower))
			borrower_drop(borrower);
}

/* --- events --- */

void nic_target_post_events(struct nic_qp *qp, uint32_t events)
{
	list_for_each(borrower, &qp->borrowers, struct borrower, qp_link) {
		struct target_message message = {
			.call = TARGET_EVENTS, .events = borrower->unsaid | events};

		borrower->unsaid = nic_target_send(borrower->fd, &message) ? message.events : 0;
	}
}

/* --- fork --- */

void nic_target_borrowers_forget(void)
{
	list_for_each_safe(borrower, &target_borrowers, struct borrower, link) {
		struct nic_qp *qp = borrower->qp;

		list_remove(&borrower->qp_link);
		close(borrower->fd);
		free(borrower);
		if (qp && qp->is_released && list_is_empty(&qp->borrowers))
			free(qp);
	}
	list_init(&target_borrowers);
	/* Close the child's descriptors only, because the parent still listens. */
	if (target_listener.socket >= 0) {
		close(target_listener.socket);
		close(target_listener.lock);
		close(target_listener.directory);
	}
	target_listener.socket = -1;
	target_borrower_count = 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host of targets: guests come, call, and go.
 *
 * Only the one thread that reads connections puts guests into target_guests and takes them out,
 * with the NIC locked; and so into and out of the list of their target, with its worker locked as
 * well.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nic/nic_control.h"
#include "nic/nic_internal.h"
#include "os/log.h"
#include "xrc/nic_target.h"

enum {
	BACKLOG = 128,
	GUESTS_MAX = 4096,
	CALLS_IN_A_ROW = 16, /* of one guest */
};

struct guest {
	struct list link; /* in target_guests */
	struct list qp_link; /* in qp->guests */
	int fd;
	struct nic_qp *qp; /* NULL: it has opened none */
	uint32_t unsaid; /* news that there was no room for */
};

/* --- listening --- */

static struct list target_guests = {&target_guests, &target_guests};
static uint32_t target_guest_count;
static int target_listener = -1; /* -1: there is none */

/* Returns 0 or -errno. */
static int listener_open(int *ret_fd)
{
	struct sockaddr_un address;
	socklen_t bytes = nic_target_address(nic.public->identity, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, bytes) || listen(fd, BACKLOG))
		error = -errno;
	if (!error)
		error = nic_control_watch_asked(fd);
	if (error)
		close(fd);
	else
		*ret_fd = fd;
	return error;
}

void nic_target_listen(void)
{
	int error = target_listener < 0 ? listener_open(&target_listener) : 0;

	if (error)
		log_write(LOG_ERROR,
			"other processes cannot open the XRC queue pairs of this one: %s",
			strerror(-error));
}

/* Nobody comes in any more. Whoever cannot be let in would keep the thread awake. */
static void listener_close(int error)
{
	log_write(LOG_ERROR, "no more processes can open the XRC queue pairs of this one: %s",
		strerror(error));
	close(target_listener);
	target_listener = -1;
}

/* The NIC is locked. */
static void guest_add(int fd)
{
	struct guest *guest = NULL;

	if (target_guest_count < GUESTS_MAX && nic_target_is_trusted(fd))
		guest = calloc(1, sizeof(*guest));
	if (!guest || nic_control_watch_asked(fd)) {
		free(guest);
		close(fd);
		return;
	}
	guest->fd = fd;
	list_init(&guest->qp_link);
	list_append(&target_guests, &guest->link);
	target_guest_count++;
}

static void guests_accept(void)
{
	int fd = 0;

	nic_enter();
	while (target_listener >= 0 && fd >= 0) {
		fd = accept4(target_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			guest_add(fd);
		else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			listener_close(errno);
	}
	nic_leave();
}

/* --- calls --- */

/* The NIC is locked. */
static struct nic_qp *target_find(uint32_t number, uint32_t ifindex, const struct xrc_file *file)
{
	struct nic_qp *found = NULL;

	for (uint32_t i = 0; i < NIC_LANES_MAX && !found; i++) {
		struct worker *worker = nic.worker[i];
		const struct qp *qp;

		if (!worker || worker->lane.slot != number >> 16)
			continue;
		worker_lock(worker);
		qp = engine_qp_find(&worker->lane, number);
		if (qp && qp->type == QP_TYPE_XRC_RECV)
			found = qp->user;
		worker_unlock(worker);
	}
	if (!found || !file->inode || found->xrcd->ifindex != ifindex ||
		found->xrcd->file.device != file->device || found->xrcd->file.inode != file->inode)
		return NULL;
	return found;
}

static int guest_open(struct guest *guest, const struct target_message *call)
{
	struct nic_qp *qp;

	nic_enter();
	qp = guest->qp ? NULL
		       : target_find(call->open.number, call->open.ifindex, &call->open.file);
	if (qp) {
		worker_lock(qp->worker);
		list_append(&qp->guests, &guest->qp_link);
		worker_unlock(qp->worker);
		guest->qp = qp;
	}
	nic_leave();
	return qp ? 0 : -EINVAL;
}

/* With the last guest a target goes that its program has destroyed. */
static void guest_close(struct guest *guest)
{
	struct nic_qp *qp = guest->qp;

	if (!qp)
		return;
	nic_enter();
	worker_lock(qp->worker);
	list_remove(&guest->qp_link);
	worker_unlock(qp->worker);
	guest->qp = NULL;
	if (qp->is_released && list_is_empty(&qp->guests))
		nic_qp_end(qp);
	nic_leave();
}

/* Returns 0 or -errno. */
static int execute(struct guest *guest, const struct target_message *call)
{
	bool has_come; /* only the program's own threads can move its memory */

	if (call->call == TARGET_OPEN)
		return guest_open(guest, call);
	if (!guest->qp)
		return -EINVAL;
	if (call->call == TARGET_MODIFY)
		return nic_qp_change(guest->qp, call->modify.to, call->modify.mask,
			&call->modify.attr, &has_come);
	if (call->call == TARGET_CLOSE)
		guest_close(guest);
	return 0;
}

/* False when the guest is gone. */
static bool guest_serve(struct guest *guest)
{
	struct target_message call;
	int error = 0;

	for (uint32_t i = 0; i < CALLS_IN_A_ROW && !error; i++) {
		error = nic_target_receive(guest->fd, &call);
		if (error)
			break;
		struct target_message answer = {
			.call = call.call,
			.sequence = call.sequence,
			.error = execute(guest, &call),
		};

		if (guest->qp)
			answer.state = nic_qp_query(guest->qp);
		error = nic_target_send(guest->fd, &answer) ? -EPIPE : 0;
	}
	return !error || error == -EAGAIN;
}

static void guest_drop(struct guest *guest)
{
	guest_close(guest);
	nic_enter();
	list_remove(&guest->link);
	target_guest_count--;
	nic_leave();
	close(guest->fd);
	free(guest);
}

void nic_target_serve(void)
{
	guests_accept();
	list_for_each_safe(guest, &target_guests, struct guest, link)
		if (!guest_serve(guest))
			guest_drop(guest);
}

/* --- news --- */

void nic_target_tell(struct nic_qp *qp, uint32_t news)
{
	list_for_each(guest, &qp->guests, struct guest, qp_link) {
		struct target_message message = {.call = TARGET_NEWS, .news = guest->unsaid | news};

		guest->unsaid = nic_target_send(guest->fd, &message) ? message.news : 0;
	}
}

/* --- fork --- */

void nic_target_guests_forget(void)
{
	list_for_each_safe(guest, &target_guests, struct guest, link) {
		struct nic_qp *qp = guest->qp;

		list_remove(&guest->qp_link);
		close(guest->fd);
		free(guest);
		if (qp && qp->is_released && list_is_empty(&qp->guests))
			free(qp);
	}
	list_init(&target_guests);
	if (target_listener >= 0)
		close(target_listener);
	target_listener = -1;
	target_guest_count = 0;
}

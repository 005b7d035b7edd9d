/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a connection between a target's owner and a borrower: sending and receiving of
 * messages, and the hooks of the NIC.
 */
#include "xrc/nic_target.h"

#include <errno.h>
#include <sys/socket.h>

#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/cancel.h"

int nic_target_send(int fd, const struct target_message *message)
{
	int cancel = cancel_forbid();
	int error =
		send(fd, message, sizeof(*message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;

	cancel_allow(cancel);
	return error;
}

int nic_target_receive(int fd, struct target_message *ret_message)
{
	int cancel = cancel_forbid();
	ssize_t bytes = recv(fd, ret_message, sizeof(*ret_message), MSG_DONTWAIT | MSG_TRUNC);
	int error = bytes < 0 ? -errno : 0;

	cancel_allow(cancel);
	if (error == -EINTR)
		return -EAGAIN;
	if (!error && !bytes)
		return -ECONNRESET;
	if (!error && (bytes != sizeof(*ret_message) || ret_message->call >= TARGET_CALL_COUNT))
		return -EPROTO;
	return error;
}

/* Process the messages that have arrived on all connections. */
static void target_work(void)
{
	nic_target_serve();
	nic_openings_hear();
}

static void target_qp_created(struct nic_qp *qp, const struct nic_qp_init *init)
{
	(void)qp;
	if (init->xrcd && init->xrcd->file.inode)
		nic_target_listen();
}

static void target_forget(void)
{
	nic_target_borrowers_forget();
	nic_openings_forget();
}

const struct nic_part nic_target_part = {
	.work = target_work,
	.qp_created = target_qp_created,
	.qp_events = nic_target_post_events,
	.forget = target_forget,
};

/* SPDX-License-Identifier: BSD-2-Clause */
#include "ways_receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum command { MAKE, CONNECT, RESTRICT, SHOW, UNMAKE };

struct order {
	enum command command;
	struct xrc_link link; /* of CONNECT */
};

/* To each order. */
struct answer {
	uint32_t qpn; /* to MAKE */
	struct ways_receiver_state state; /* to SHOW */
};

/* --- the process --- */

struct child {
	struct peer peer;
	struct ibv_xrcd *domain;
	struct ibv_qp *qp;
};

static void restrict_rights(struct child *child)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE};

	CHECK(!ibv_modify_qp(child->qp, &attr, IBV_QP_ACCESS_FLAGS), "rights stay");
}

/* Who asks for the state meets everything that was told before. */
static struct ways_receiver_state look(struct child *child)
{
	struct ways_receiver_state state = {.state = peer_qp_state(child->qp)};
	struct ibv_async_event event;

	while (!ibv_get_async_event(child->peer.context, &event)) {
		state.events[event.event_type]++;
		ibv_ack_async_event(&event);
	}
	CHECK(errno == EAGAIN, "no events: %s", strerror(errno));
	return state;
}

static struct answer obey(struct child *child, const struct order *order)
{
	struct answer answer = {0};

	switch (order->command) {
	case MAKE:
		child->qp = xrc_receiver(&child->peer, child->domain);
		answer.qpn = child->qp->qp_num;
		break;
	case CONNECT:
		xrc_receiver_connect(&child->peer, child->qp, &order->link);
		break;
	case RESTRICT:
		restrict_rights(child);
		break;
	case SHOW:
		answer.state = look(child);
		break;
	case UNMAKE:
		CHECK(!ibv_destroy_qp(child->qp), "the receiving queue pair stays");
		break;
	}
	return answer;
}

_Noreturn static void child_run(
	const struct ways_receiver *receiver, const struct peer_options *options, int socket)
{
	struct child child;
	struct order order;
	struct answer answer;
	int fd;

	peer_open(&child.peer, options);
	fd = child.peer.context->async_fd;
	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "events block");
	child.domain = xrc_domain(&child.peer, receiver->domain);
	while (read(socket, &order, sizeof(order)) == sizeof(order)) {
		answer = obey(&child, &order);
		CHECK(write(socket, &answer, sizeof(answer)) == sizeof(answer), "nobody listens");
	}
	CHECK(!ibv_close_xrcd(child.domain), "the domain stays");
	CHECK(!ibv_dealloc_pd(child.peer.pd) && !ibv_close_device(child.peer.context),
		"objects stay");
	exit(EXIT_SUCCESS);
}

/* --- the end --- */

void ways_receiver_start(struct ways_receiver *receiver, const struct peer_options *options)
{
	int sockets[2];

	receiver->domain = memfd_create("domain", MFD_CLOEXEC);
	CHECK(receiver->domain >= 0 && !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets),
		"no file or sockets");
	receiver->process = fork();
	CHECK(receiver->process >= 0, "no process");
	if (!receiver->process) {
		close(sockets[0]);
		child_run(receiver, options, sockets[1]);
	}
	close(sockets[1]);
	receiver->socket = sockets[0];
}

void ways_receiver_stop(struct ways_receiver *receiver)
{
	int status;

	close(receiver->socket);
	CHECK(waitpid(receiver->process, &status, 0) == receiver->process && status == 0,
		"the receiver ends with %d", status);
	close(receiver->domain);
}

static struct answer ask(struct ways_receiver *receiver, const struct order *order)
{
	struct answer answer;

	CHECK(write(receiver->socket, order, sizeof(*order)) == sizeof(*order) &&
			read(receiver->socket, &answer, sizeof(answer)) == sizeof(answer),
		"the receiver does not answer");
	return answer;
}

uint32_t ways_receiver_make(struct ways_receiver *receiver)
{
	return ask(receiver, &(struct order){.command = MAKE}).qpn;
}

void ways_receiver_connect(struct ways_receiver *receiver, const struct xrc_link *link)
{
	ask(receiver, &(struct order){CONNECT, *link});
}

void ways_receiver_unmake(struct ways_receiver *receiver)
{
	ask(receiver, &(struct order){.command = UNMAKE});
}

void ways_receiver_restrict(struct ways_receiver *receiver)
{
	ask(receiver, &(struct order){.command = RESTRICT});
}

struct ways_receiver_state ways_receiver_show(struct ways_receiver *receiver)
{
	return ask(receiver, &(struct order){.command = SHOW}).state;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control thread (nic/nic_control.h).
 *
 * Lock: `stray_lock` covers the ring of packets that wait for nic_agent_lock. A thread has it
 * locked for the copy of one packet at most, and takes no other lock meanwhile.
 */
#include "nic/nic_control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "os/cancel.h"
#include "os/epoll.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"

/* What a watched descriptor is for. The descriptor's epoll data has one of these values. */
enum control_source {
	CONTROL_SOURCE_AGENT,
	CONTROL_SOURCE_WORK,
	CONTROL_SOURCE_PEER,
	CONTROL_SOURCE_STRAYS,
};

enum { EVENTS_MAX = 16, STRAYS_MAX = 64 };

static struct {
	bool is_there;
	int epoll;
	int strays; /* eventfd, which is readable when the ring has packets */
	struct agent_packet *stray; /* the ring, of STRAYS_MAX packets */
	uint32_t stray_first; /* index of the oldest of `stray_count` packets */
	uint32_t stray_count;
} control;
static pthread_mutex_t stray_lock = PTHREAD_MUTEX_INITIALIZER;

static int fd_watch(int fd, uint32_t events, enum control_source source)
{
	struct epoll_event event = {.events = events, .data.u32 = source};

	return epoll_change(control.epoll, EPOLL_CTL_ADD, fd, &event)
		? log_refusal("no NIC", "epoll_ctl")
		: 0;
}

void nic_control_wake(void)
{
	kick_raise(nic.work_kick);
}

int nic_control_watch_work(int fd)
{
	return fd_watch(fd, EPOLLIN, CONTROL_SOURCE_WORK);
}

int nic_control_watch_peer(int fd)
{
	return fd_watch(fd, EPOLLONESHOT, CONTROL_SOURCE_PEER);
}

/* --- packets for other slots --- */

/* Copy the ring's oldest packet, and leave it in the ring. Returns false if the ring is empty. */
static bool stray_peek(struct agent_packet *ret_packet)
{
	bool is_there;

	pthread_mutex_lock(&stray_lock);
	is_there = control.stray_count != 0;
	if (is_there)
		*ret_packet = control.stray[control.stray_first];
	pthread_mutex_unlock(&stray_lock);
	return is_there;
}

static void stray_remove(void)
{
	pthread_mutex_lock(&stray_lock);
	control.stray_first = (control.stray_first + 1) % STRAYS_MAX;
	control.stray_count--;
	pthread_mutex_unlock(&stray_lock);
}

static void strays_send(void)
{
	static struct agent_packet packet; /* only the control thread uses it */

	kick_clear(control.strays);
	if (!nic_turn_try_after_wait())
		/* When its turn ends, the thread that has it calls nic_control_send_strays() */
		return;
	while (stray_peek(&packet)) {
		agent_client_forward(&nic.agent, &packet.head, packet.data);
		stray_remove();
	}
	pthread_mutex_unlock(&nic_agent_lock);
}

/* Add a packet. Returns false when the ring is full. */
static bool stray_add(const struct agent_forward *head, const uint8_t *data)
{
	bool has_room;

	pthread_mutex_lock(&stray_lock);
	has_room = control.stray_count < STRAYS_MAX;
	if (has_room) {
		struct agent_packet *place =
			&control.stray[(control.stray_first + control.stray_count++) % STRAYS_MAX];

		place->head = *head;
		memcpy(place->data, data, head->data_bytes);
	}
	pthread_mutex_unlock(&stray_lock);
	if (has_room)
		kick_raise(control.strays);
	return has_room;
}

/* Does the ring have packets? If so, a new packet must not overtake them. */
static bool has_strays(void)
{
	bool has;

	pthread_mutex_lock(&stray_lock);
	has = control.stray_count != 0;
	pthread_mutex_unlock(&stray_lock);
	return has;
}

void nic_control_send_strays(void)
{
	if (has_strays())
		kick_raise(control.strays);
}

void nic_control_forward(struct worker *worker, uint8_t slot, const struct port_udp_packet *packet)
{
	struct agent_forward head = {
		.sgid = *packet->sgid,
		.dgid = *packet->dgid,
		.data_bytes = packet->data_bytes,
		.source_port = packet->source_port,
		.tos = packet->tos,
		.slot = slot,
	};
	bool is_sent = false;
	int cancel;

	if (packet->data_bytes > AGENT_PACKET_BYTES_MAX)
		return;
	cancel = cancel_forbid();
	if (nic_turn_try()) {
		is_sent = !has_strays();
		if (is_sent)
			agent_client_forward(&nic.agent, &head, packet->data);
		pthread_mutex_unlock(&nic_agent_lock);
	}
	if (!is_sent && !stray_add(&head, packet->data))
		nic.public->lanes[worker->lane.index].port.rx_strays_dropped++;
	cancel_allow(cancel);
}

/* --- the thread --- */

static void source_handle(enum control_source source)
{
	switch (source) {
	case CONTROL_SOURCE_AGENT:
		nic_agent_ready();
		break;
	case CONTROL_SOURCE_WORK:
		kick_clear(nic.work_kick);
		NIC_PARTS_CALL(work);
		break;
	case CONTROL_SOURCE_PEER:
		NIC_PARTS_CALL(peers_check);
		break;
	case CONTROL_SOURCE_STRAYS:
		strays_send();
		break;
	}
}

/*
 * epoll_wait() has failed, so the ready sources are unknown: handle all sources. This has no effect
 * for a source that is not ready.
 */
static void attend_all(void)
{
	source_handle(CONTROL_SOURCE_AGENT);
	source_handle(CONTROL_SOURCE_WORK);
	source_handle(CONTROL_SOURCE_PEER);
	source_handle(CONTROL_SOURCE_STRAYS);
}

static void *control_main(void *argument)
{
	struct epoll_event events[EVENTS_MAX];

	(void)argument;
	own_thread_wake();
	for (;;) {
		int count = own_thread_epoll_wait(control.epoll, events, EVENTS_MAX, -1);

		for (int i = 0; i < count; i++)
			source_handle((enum control_source)events[i].data.u32);
		if (count < 0 && errno != EINTR)
			attend_all();
	}
	return NULL;
}

static void control_close(void)
{
	if (control.epoll >= 0)
		close(control.epoll);
	if (control.strays >= 0)
		close(control.strays);
	free(control.stray);
}

int nic_control_start(void)
{
	int error = 0;

	if (control.is_there)
		return 0;
	control.epoll = epoll_open(EPOLL_CLOEXEC);
	if (control.epoll < 0)
		return log_refusal("no NIC", "epoll_create1");
	control.strays = kick_create("no NIC");
	control.stray = calloc(STRAYS_MAX, sizeof(*control.stray));
	if (control.strays < 0)
		error = control.strays;
	else if (!control.stray)
		error = -ENOMEM;
	if (!error)
		error = fd_watch(control.strays, EPOLLIN, CONTROL_SOURCE_STRAYS);
	if (!error && nic.has_agent)
		error = fd_watch(agent_client_fd(&nic.agent), EPOLLIN, CONTROL_SOURCE_AGENT);
	if (!error)
		error = nic_control_watch_work(nic.work_kick);
	if (!error)
		error = own_thread_start(NULL, "urnic-control", control_main, NULL);
	if (error)
		control_close();
	control.is_there = !error;
	return error;
}

void nic_control_forget(void)
{
	if (control.is_there)
		control_close();
	memset(&control, 0, sizeof(control));
}

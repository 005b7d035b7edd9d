/* SPDX-License-Identifier: BSD-2-Clause */
/* The hosts of a machine, as clients of the fabric's process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/remote/fabric_listen_internal.h"

/* --- taking them --- */

static void host_return(struct machine_host *host)
{
	for (uint32_t i = 0; host->ports && i < host->port_count; i++)
		if (host->ports[i].issm >= 0)
			close(host->ports[i].issm);
	free(host->ports);
	list_for_each_safe(frame, &host->waiting, struct waiting_frame, link)
		free(frame);
	if (host->events >= 0)
		close(host->events);
	fabric_frames_close(host->channel);
	fabric_client_close(host->client);
}

static int host_watch(struct machine_host *host, int fd)
{
	return fabric_loop_watch(
		host->machine->listen->loop.epoll, EPOLL_CTL_ADD, fd, EPOLLIN, host->machine);
}

static int host_ports_make(struct machine_host *host)
{
	host->port_count = fabric_client_node(host->client)->port_count;
	if (host->port_count == 0 || host->port_count > REMOTE_PORTS_MAX)
		return -EPROTO;
	host->ports = calloc(host->port_count, sizeof(*host->ports));
	for (uint32_t i = 0; host->ports && i < host->port_count; i++)
		host->ports[i].issm = -1;
	return host->ports ? 0 : -ENOMEM;
}

/* Take a host. Open its events before its channel, so that no event is missed. */
static int host_take(struct machine_host *host, const char *name, char why[ATTACH_TEXT_BYTES])
{
	char place[2 * ATTACH_NAME_BYTES];
	int rc;

	snprintf(place, sizeof(place), "%s:%s", host->machine->listen->settings->name, name);
	rc = fabric_client_open_node(place, &host->client, why);
	if (rc)
		return rc;
	rc = host_ports_make(host);
	if (rc == 0)
		host->events = fabric_client_events(host->client);
	if (rc == 0 && host->events < 0)
		rc = host->events;
	if (rc == 0)
		rc = host_watch(host, host->events);
	if (rc == 0) {
		rc = fabric_frames_take_host(host->client, &host->channel, why);
		if (rc)
			return rc;
		rc = host_watch(host, fabric_frames_fd(host->channel));
	}
	if (rc)
		snprintf(why, ATTACH_TEXT_BYTES, "\"%s\" cannot be taken: %s", name, strerror(-rc));
	return rc;
}

int machine_hosts_take(
	struct machine *machine, const struct remote_join *join, char why[ATTACH_TEXT_BYTES])
{
	int rc = 0;

	machine->hosts = calloc(join->host_count, sizeof(*machine->hosts));
	if (!machine->hosts) {
		snprintf(why, ATTACH_TEXT_BYTES, "no memory");
		return -ENOMEM;
	}
	while (rc == 0 && machine->host_count < join->host_count) {
		struct machine_host *host = &machine->hosts[machine->host_count];

		*host = (struct machine_host){
			.machine = machine, .index = (uint16_t)machine->host_count, .events = -1};
		list_init(&host->waiting);
		rc = host_take(host, join->hosts[machine->host_count], why);
		machine->host_count++;
	}
	if (rc)
		machine_hosts_return(machine);
	return rc;
}

void machine_hosts_return(struct machine *machine)
{
	for (uint32_t i = 0; i < machine->host_count; i++)
		host_return(&machine->hosts[i]);
	free(machine->hosts);
	machine->hosts = NULL;
	machine->host_count = 0;
}

void machine_welcome(struct machine *machine, uint16_t window)
{
	struct remote_welcome welcome = {.window = window,
		.session = machine->datagrams.session,
		.host_count = (uint16_t)machine->host_count};

	for (uint32_t i = 0; i < machine->host_count; i++)
		welcome.hosts[i] = *fabric_client_node(machine->hosts[i].client);
	remote_welcome_encode(&machine->writer, &welcome);
	machine_send(machine, REMOTE_WELCOME, &machine->writer);
}

/* --- what its ports are --- */

static void port_tell(struct machine_host *host, uint32_t number)
{
	const struct remote_place place = {.host = host->index, .port = (uint8_t)number};
	struct machine_port *port = &host->ports[number - 1];
	struct machine *machine = host->machine;
	struct attach_port info;

	if (fabric_client_port(host->client, number, &info)) {
		machine->listen->has_lost_fabric = true;
		return;
	}
	if (port->is_told && memcmp(&info, &port->told, sizeof(info)) == 0)
		return;
	port->told = info;
	port->is_told = true;
	remote_port_encode(&machine->writer, &place, &info);
	machine_send(machine, REMOTE_PORT, &machine->writer);
}

static void counters_tell(struct machine_host *host, uint32_t number)
{
	const struct remote_place place = {.host = host->index, .port = (uint8_t)number};
	struct machine *machine = host->machine;
	struct attach_counters values;

	if (fabric_client_counters(host->client, number, &values)) {
		machine->listen->has_lost_fabric = true;
		return;
	}
	remote_counters_encode(&machine->writer, &place, &values);
	machine_send(machine, REMOTE_COUNTERS, &machine->writer);
}

void machine_hosts_tell(struct machine *machine)
{
	for (uint32_t i = 0; i < machine->host_count; i++) {
		struct machine_host *host = &machine->hosts[i];

		for (uint32_t number = 1; number <= host->port_count; number++) {
			port_tell(host, number);
			counters_tell(host, number);
		}
	}
}

void machine_host_events(struct machine_host *host)
{
	struct machine *machine = host->machine;
	struct attach_event event;
	struct fabric_flow *flow;
	int rc;

	while ((rc = fabric_client_event(host->events, &event, &flow)) == 0) {
		const struct remote_place place = {
			.host = host->index, .port = (uint8_t)event.port};

		fabric_flow_close(flow);
		if (event.port == 0 || event.port > host->port_count ||
			event.type >= ATTACH_EVENT_FLOW_IN)
			continue;
		/* Send the port's attributes before the event that reports their change. */
		port_tell(host, event.port);
		remote_fact_encode(&machine->writer, &place, (uint8_t)event.type);
		machine_send(machine, REMOTE_EVENT, &machine->writer);
	}
	if (rc != -EAGAIN && rc != -EINTR)
		machine->listen->has_lost_fabric = true;
}

/* The host of a port that the machine names; NULL: it has no such port. */
static struct machine_host *host_find(struct machine *machine, const struct remote_place *place)
{
	if (place->host >= machine->host_count || place->port == 0 ||
		place->port > machine->hosts[place->host].port_count)
		return NULL;
	return &machine->hosts[place->host];
}

void machine_host_issm(struct machine *machine, const struct remote_place *place, bool is_open)
{
	struct machine_host *host = host_find(machine, place);
	char path[ATTACH_TEXT_BYTES];
	struct machine_port *port;

	if (!host)
		return;
	port = &host->ports[place->port - 1];
	if (is_open && port->issm < 0 &&
		fabric_client_issm_path(host->client, place->port, path) == 0)
		port->issm = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (!is_open && port->issm >= 0) {
		close(port->issm);
		port->issm = -1;
	}
}

/* --- frames --- */

void machine_host_send(struct machine *machine, const struct remote_frame *frame)
{
	const struct record_piece piece = {frame->bytes, frame->count};
	const struct remote_place *place = &frame->place;
	struct machine_host *host = host_find(machine, place);

	if (!host) {
		machine->datagrams.drops.malformed++;
		return;
	}
	if (frame->violation)
		fabric_frames_report(
			host->channel, place->port, frame->violation, frame->bytes, frame->count);
	else
		fabric_frames_send(host->channel, place->port, &piece, 1);
}

static void data_send(
	struct machine_host *host, uint32_t port, const uint8_t *bytes, uint32_t count)
{
	const struct remote_frame frame = {.place = {.host = host->index, .port = (uint8_t)port},
		.bytes = bytes,
		.count = count};

	datagram_send(&host->machine->datagrams, &frame);
}

/* Let a data frame wait. Without memory it is lost, as on a network. */
static void data_wait(
	struct machine_host *host, uint32_t port, const uint8_t *bytes, uint32_t count)
{
	struct waiting_frame *frame = malloc(sizeof(*frame) + count);

	if (!frame)
		return;
	frame->port = port;
	frame->count = count;
	memcpy(frame->bytes, bytes, count);
	list_append(&host->waiting, &frame->link);
	host->waiting_bytes += count;
}

/* Send the frames that wait, while there is room. Returns their number. */
static uint32_t waiting_send(struct machine_host *host)
{
	uint32_t count = 0;

	while (!list_is_empty(&host->waiting) && datagram_has_room(&host->machine->datagrams)) {
		struct waiting_frame *frame =
			list_first(&host->waiting, struct waiting_frame, link);

		data_send(host, frame->port, frame->bytes, frame->count);
		host->waiting_bytes -= frame->count;
		list_remove(&frame->link);
		free(frame);
		count++;
	}
	return count;
}

static void mad_send(struct machine_host *host, uint32_t port, const uint8_t *bytes, uint32_t count)
{
	const struct remote_place place = {.host = host->index, .port = (uint8_t)port};
	struct machine *machine = host->machine;

	/*
	 * Send the events first, so that the machine knows a change of a port before the answer
	 * that reports it.
	 */
	machine_host_events(host);
	remote_frame_encode(&machine->writer, &place, bytes, count);
	machine_send(machine, REMOTE_FRAME, &machine->writer);
}

static void frame_pass(
	struct machine_host *host, uint32_t port, const uint8_t *bytes, uint32_t count)
{
	if (remote_frame_is_management(bytes, count))
		mad_send(host, port, bytes, count);
	else if (datagram_has_room(&host->machine->datagrams))
		data_send(host, port, bytes, count);
	else
		data_wait(host, port, bytes, count);
}

bool machine_host_is_full(const struct machine_host *host)
{
	return !datagram_has_room(&host->machine->datagrams) &&
		host->waiting_bytes >= WAITING_BYTES_MAX;
}

static uint32_t host_frames(struct machine_host *host)
{
	uint32_t count = waiting_send(host), port;
	uint8_t frame[RECORD_BYTES_MAX];
	int bytes;

	while (count < FRAMES_PER_TURN && !machine_host_is_full(host)) {
		bytes = fabric_frames_receive(host->channel, frame, &port);
		if (bytes == 0)
			break;
		count++;
		if (bytes > 0 && bytes <= ATTACH_FRAME_BYTES_MAX)
			frame_pass(host, port, frame, (uint32_t)bytes);
	}
	return count;
}

uint32_t machine_hosts_frames(struct machine *machine)
{
	const uint32_t first = machine->host_first;
	uint32_t count = 0;

	for (uint32_t i = 0; i < machine->host_count; i++) {
		const uint32_t at = (first + i) % machine->host_count;
		const bool is_first = count == 0;

		count += host_frames(&machine->hosts[at]);
		/* The first host may use up the shared window: begin with another next time. */
		if (is_first && count)
			machine->host_first = at + 1;
	}
	return count;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/nic_fabric.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/client/fabric_client.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "os/log.h"
#include "os/own_thread.h"
#include "os/setting.h"
#include "wire/bytes.h"

/* The lowest PortInfo:PortState (IBTA 14.2.5.6) in which a port sends packets. */
enum { IB_STATE_ARMED = 3 };

static_assert((int)PORT_IB_PKEYS_MAX == (int)ATTACH_PKEYS_MAX &&
		(int)PORT_IB_GUIDS_MAX == (int)ATTACH_GUIDS_MAX,
	"a lane's port has room for the tables of a node's");

/* `lock` guards the set-up of the connection, and `watcher`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fabric_client *client; /* NULL: not connected */
static struct attach_node node;
static nic_fabric_event_fn *watcher; /* NULL: the thread does not run */
static int event_socket = -1;
/* The channels of the lanes; the NIC's lock guards them. */
static struct lane_wire {
	struct fabric_frames *frames; /* NULL: the lane does not exist */
	struct port_ib_wire wire;
} wires[NIC_LANES_MAX + 1]; /* the last entry is that of QP1 */

bool nic_fabric_is_wanted(void)
{
	const char *place = setting_text("URNIC_FABRIC");

	return place && *place;
}

/* Connect; `lock` is locked. Returns 0 or -errno. */
static int connect_once(void)
{
	static bool is_logged;
	char why[ATTACH_TEXT_BYTES];
	const char *place = setting_text("URNIC_FABRIC");
	int error;

	if (client)
		return 0;
	nic_fork_watch();
	error = fabric_client_open_node(place, &client, why);
	if (!error)
		node = *fabric_client_node(client);
	else if (!is_logged)
		log_write(LOG_ERROR, "URNIC_FABRIC is '%.80s': %s: there is no device", place, why);
	is_logged = error != 0;
	return error;
}

int nic_fabric_open(const struct attach_node **ret_node)
{
	int error;

	pthread_mutex_lock(&lock);
	error = connect_once();
	pthread_mutex_unlock(&lock);
	*ret_node = &node;
	return error;
}

int nic_fabric_port(uint32_t number, struct attach_port *ret_port)
{
	int error = client ? fabric_client_port(client, number, ret_port) : -ENODEV;

	if (error)
		return error;
	ret_port->lmc &= 7;
	ret_port->pkey_count = (uint16_t)min_u32(ret_port->pkey_count, ATTACH_PKEYS_MAX);
	ret_port->guid_count = (uint16_t)min_u32(ret_port->guid_count, ATTACH_GUIDS_MAX);
	return 0;
}

bool nic_fabric_gid(const struct attach_port *port, uint32_t index, struct gid *ret_gid)
{
	if (index >= port->guid_count || !port->guids[index])
		return false;
	put_be64(ret_gid->raw, port->gid_prefix);
	put_be64(ret_gid->raw + 8, port->guids[index]);
	return true;
}

static void state_from(const struct attach_port *port, struct port_ib_state *state)
{
	*state = (struct port_ib_state){
		.lid = port->state >= IB_STATE_ARMED ? port->lid : 0,
		.lmc = port->lmc,
		.pkey_count = port->pkey_count,
	};
	memcpy(state->pkeys, port->pkeys, port->pkey_count * sizeof(state->pkeys[0]));
	for (uint32_t i = 0; i < port->guid_count; i++)
		if (nic_fabric_gid(port, i, &state->gids[state->gid_count]))
			state->gid_count++;
}

/* --- events --- */

/* Give all lanes the present state of a port. */
static void port_follow(uint32_t number)
{
	struct attach_port port;
	struct port_ib_state state;
	struct worker *worker;

	if (number < 1 || number > PORT_IB_PORTS_MAX || nic_fabric_port(number, &port))
		return;
	state_from(&port, &state);
	nic_enter();
	for (uint32_t i = 0; (worker = nic_worker_next(&i));) {
		worker_lock(worker);
		if (worker->ib)
			port_ib_set_state(worker->ib, number, &state);
		worker_unlock(worker);
	}
	nic_leave();
}

static void worker_end(struct worker *worker)
{
	NIC_PARTS_CALL(lane_lost, worker);
}

/*
 * Give a flow to the lane of its channel. If there is no such lane, close the flow and return
 * false.
 */
static bool flow_add(struct fabric_flow *flow)
{
	const uint32_t lease = fabric_flow_lease(flow);
	struct worker *worker;
	bool is_added = false;

	nic_enter();
	for (uint32_t i = 0; !is_added && (worker = nic_worker_next(&i));) {
		struct fabric_frames *frames = wires[worker->lane.index].frames;

		if (!frames || fabric_frames_lease(frames) != lease)
			continue;
		worker_lock(worker);
		fabric_frames_add(frames, flow);
		worker_unlock(worker);
		is_added = true;
	}
	nic_leave();
	if (!is_added)
		fabric_flow_close(flow);
	return is_added;
}

static void event_take(const struct attach_event *event, struct fabric_flow *flow)
{
	const bool is_flow =
		event->type == ATTACH_EVENT_FLOW_IN || event->type == ATTACH_EVENT_FLOW_OUT;

	if (flow && flow_add(flow) && event->type == ATTACH_EVENT_FLOW_IN)
		fabric_flow_ready(client, &event->flow);
	if (is_flow)
		return;
	port_follow(event->port);
	watcher(event->port, event->type);
}

/* Take all pending events. Returns false when the subnet's process has ended. */
static bool events_take(void)
{
	struct attach_event event;
	struct fabric_flow *flow;
	int error;

	while ((error = fabric_client_event(event_socket, &event, &flow)) == 0)
		event_take(&event, flow);
	return error == -EAGAIN || error == -EINTR || error == -EPROTO;
}

static void *events_main(void *argument)
{
	struct pollfd events = {.fd = event_socket, .events = POLLIN};

	(void)argument;
	own_thread_wake();
	do
		own_thread_poll(&events, 1, -1);
	while (events_take());
	log_write(LOG_ERROR, "the process of the InfiniBand fabric has ended: the device is gone");
	nic_enter();
	nic_for_each_worker(worker_end);
	nic_leave();
	watcher(0, 0);
	own_thread_end();
	return NULL;
}

static int watch_start(nic_fabric_event_fn *on_event)
{
	int error = 0;

	event_socket = fabric_client_events(client);
	if (event_socket < 0)
		return event_socket;
	watcher = on_event;
	error = own_thread_start(NULL, "urnic-fabric", events_main, NULL);
	if (error) {
		watcher = NULL;
		close(event_socket);
		event_socket = -1;
	}
	return error;
}

int nic_fabric_watch(nic_fabric_event_fn *on_event)
{
	int error;

	pthread_mutex_lock(&lock);
	error = client ? 0 : -ENODEV;
	if (!error && !watcher)
		error = watch_start(on_event);
	pthread_mutex_unlock(&lock);
	return error;
}

/* --- lanes --- */

static bool wire_send(
	void *context, uint32_t port, const struct record_piece *pieces, uint32_t count)
{
	return fabric_frames_send(context, port, pieces, count);
}

static bool wire_has_room(void *context, uint32_t bytes)
{
	return fabric_frames_has_room(context, bytes);
}

static bool wire_route_has_room(void *context, const struct port_ib_route *route, uint32_t bytes)
{
	const struct attach_flow flow = {
		.port = route->port,
		.peer_lease = route->slot,
		.dlid = route->dlid,
		.pkey = route->pkey,
		.sl = route->sl,
	};

	return fabric_frames_route_has_room(context, &flow, bytes);
}

static void wire_flush(void *context)
{
	fabric_frames_flush(context);
}

static void wire_violate(void *context, uint32_t port, enum port_ib_violation violation,
	const uint8_t *frame, uint32_t bytes)
{
	fabric_frames_report(context, port,
		violation == PORT_IB_BAD_PKEY ? ATTACH_RECORD_BAD_PKEY : ATTACH_RECORD_BAD_QKEY,
		frame, bytes);
}

static int wire_receive(void *context, uint8_t *to, uint32_t *ret_port)
{
	return fabric_frames_receive(context, to, ret_port);
}

static bool wire_wait_begin(void *context)
{
	return fabric_frames_wait_begin(context);
}

static void wire_wait_end(void *context)
{
	fabric_frames_wait_end(context);
}

static void wire_kick(void *context)
{
	fabric_frames_kick(context);
}

int nic_fabric_lane_open(uint32_t index, uint8_t *ret_slot)
{
	struct lane_wire *lane = &wires[index];
	const struct attach_node *unused;
	int error = nic_fabric_open(&unused);

	if (!error)
		error = fabric_frames_open(client, &lane->frames);
	if (error) {
		log_write(LOG_ERROR, "no lane on the InfiniBand fabric: %s", strerror(-error));
		return error;
	}
	lane->wire = (struct port_ib_wire){
		.context = lane->frames,
		.send = wire_send,
		.has_room = wire_has_room,
		.route_has_room = wire_route_has_room,
		.flush = wire_flush,
		.violate = wire_violate,
		.receive = wire_receive,
		.wait_begin = wire_wait_begin,
		.wait_end = wire_wait_end,
		.kick = wire_kick,
		.fd = fabric_frames_fd(lane->frames),
	};
	*ret_slot = (uint8_t)fabric_frames_lease(lane->frames);
	return 0;
}

/* Copy the present state of the node's ports to `to`. Returns 0 or -errno. */
static int port_refresh(struct port_ib *to)
{
	int error = 0;

	for (uint32_t number = 1; !error && number <= min_u32(node.port_count, PORT_IB_PORTS_MAX);
		number++) {
		struct attach_port port;
		struct port_ib_state state;

		error = nic_fabric_port(number, &port);
		if (error)
			break;
		state_from(&port, &state);
		port_ib_set_state(to, number, &state);
	}
	return error;
}

int nic_fabric_lane_begin(struct worker *worker)
{
	int error = worker_use_infiniband(worker, &wires[worker->lane.index].wire);

	return error ? error : port_refresh(worker->ib);
}

void nic_fabric_lane_close(uint32_t index)
{
	fabric_frames_close(wires[index].frames);
	wires[index].frames = NULL;
}

int nic_fabric_join(uint32_t lane, uint32_t port, uint16_t mlid, const struct gid *mgid)
{
	return fabric_frames_join(wires[lane].frames, port, mlid, mgid);
}

void nic_fabric_leave(uint32_t lane, uint32_t port, uint16_t mlid, const struct gid *mgid)
{
	fabric_frames_leave(wires[lane].frames, port, mlid, mgid);
}

/* --- QP1 --- */

int nic_fabric_gsi_open(struct port_ib **ret_port, uint8_t *ret_lease)
{
	int error = nic_fabric_lane_open(NIC_LANES_MAX, ret_lease);

	if (error)
		return error;
	error = port_ib_create(&wires[NIC_LANES_MAX].wire, ret_port);
	if (error)
		nic_fabric_lane_close(NIC_LANES_MAX);
	else
		port_ib_watch(*ret_port, true);
	return error;
}

void nic_fabric_gsi_refresh(struct port_ib *gsi)
{
	port_refresh(gsi);
}

int nic_fabric_gsi_claim(uint64_t service_id)
{
	return fabric_frames_claim(wires[NIC_LANES_MAX].frames, service_id, UINT64_MAX);
}

void nic_fabric_gsi_release(uint64_t service_id)
{
	fabric_frames_release(wires[NIC_LANES_MAX].frames, service_id, UINT64_MAX);
}

void nic_fabric_gsi_keep_last_messages(uint64_t offset)
{
	int error =
		fabric_frames_keep_last_messages(wires[NIC_LANES_MAX].frames, nic.memory, offset);

	if (error)
		log_write(LOG_ERROR, "peers do not learn of the end of this process: %s",
			strerror(-error));
}

struct fabric_client *nic_fabric_client(void)
{
	return client;
}

void nic_fabric_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	for (uint32_t i = 0; i < ARRAY_COUNT(wires); i++) {
		fabric_frames_forget(wires[i].frames);
		wires[i].frames = NULL;
	}
	if (client)
		fabric_client_forget(client);
	client = NULL;
	if (event_socket >= 0)
		close(event_socket);
	event_socket = -1;
	watcher = NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_SERVER_SERVER_INTERNAL_H
#define URNIC_FABRICD_SERVER_SERVER_INTERNAL_H

/*
 * What the files of the fabric's process share.
 *
 * The subnet delivers frames from within a call that sends a frame. Frames for queue pairs go
 * straight into their channel. MADs wait in the server's `arrivals` until that call is over, so
 * that the server calls neither the subnet nor the MAD layer from within itself.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/place.h"
#include "base/list.h"
#include "fabricd/attach_protocol.h"
#include "fabricd/fabric_loop.h"
#include "fabricd/server/fabric_server.h"
#include "mad/mad_layer.h"
#include "subnet/subnet.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"

enum {
	SERVER_CLIENTS_MAX = 4096,
	OPENINGS_PER_CLIENT_MAX = 64,
	AGENTS_PER_OPENING_MAX = 32, /* as Linux */
	CHANNELS_PER_CLIENT_MAX = 64,
	CLAIMS_PER_NODE_MAX = 8192,
	MEMBERSHIPS_PER_CLIENT_MAX = 4096,
	ENDED_SERVICES_MAX = 16, /* of a node */
	/* MADs that wait for a client, in bytes: enough for the largest tables of paths. */
	OPENING_BYTES_MAX = 1 << 28,
	FRAMES_PER_TURN = 256, /* from one channel */
	LAST_FRAMES_MAX = 1 << 16, /* from a channel that has ended */
};

/* The kind of a descriptor in the server's loop. Each object with one begins with its watch. */
enum watch_kind {
	WATCH_ISSM, /* inotify */
	WATCH_CLIENT,
	WATCH_OPENING,
	WATCH_CHANNEL,
	WATCH_UPLINK,
};

struct watch {
	enum watch_kind kind;
	int fd;
	uint32_t events; /* for which epoll watches `fd` */
};

/* What the context of each agent begins with. */
struct agent_owner {
	/* Takes the agent's messages, as a struct mad_calls function does. */
	void (*take)(struct agent_owner *owner, const struct mad_address *peer, int status,
		const uint8_t *bytes, uint32_t count);
};

struct server_counters {
	uint64_t clients_refused;
	uint64_t mads_dropped; /* a client did not take them */
	uint64_t frames_dropped; /* a client did not take them */
	uint64_t frames_unknown; /* no channel has the frame's queue pair */
	uint64_t frames_malformed;
	uint64_t mads_malformed; /* from clients */
};

struct server_port {
	struct fabric_server *server;
	uint32_t node;
	uint32_t number;
	struct mad_port *mads; /* NULL until a client needs it, or a MAD arrives */
	uint32_t psn; /* of the next MAD */
	uint32_t issm_count; /* how often the IsSM file is open */
	int issm_watch; /* inotify's; -1: there is no file yet */
	struct list memberships; /* of multicast groups, which clients need */
	struct agent_owner sa_owner;
	struct mad_agent *sa_agent; /* of sa_request_send(); NULL until it is needed */
	uint16_t *levels; /* by LID: service levels, a bit each (service_levels.c); NULL: none */
	bool has_reregistered; /* a subnet manager has set ClientReregister */
	bool is_unplugged; /* its cable was cut when the channel that had taken the host ended */
	struct sa_mc_member member_answer; /* the last answer to a join */
};

/*
 * A service ID whose listener has ended. The program may soon listen to it again, so a request for
 * it gets no answer for a while, in place of a REJ.
 */
struct ended_service {
	uint64_t service_id;
	uint64_t until_ns; /* a request gets no answer until then */
};

struct server_node {
	uint32_t port_count;
	struct server_port *ports; /* ports[number - 1]; NULL for a switch */
	struct channel **leases; /* ATTACH_LEASES; NULL until a client needs it */
	struct channel *taker; /* ATTACH_HOST_TAKE; NULL: none */
	struct list claims;
	uint32_t claim_count;
	struct ended_service ended_services[ENDED_SERVICES_MAX]; /* the last ones */
	uint32_t ended_service_next;
	uint32_t client_count;
};

/* A MAD that waits in the server. */
struct arrival {
	struct list link;
	uint32_t node;
	uint32_t port;
	uint32_t own_qpn;
	struct mad_address from;
	uint8_t mad[MAD_BYTES];
};

enum service_levels_state {
	SERVICE_LEVELS_UNKNOWN,
	SERVICE_LEVELS_ASKED, /* commands of consoles wait for the subnet administrator's answers */
	SERVICE_LEVELS_KNOWN, /* the server forgets them in the next turn of the loop */
};

/* What the subnet administrator says of the service levels of paths. */
struct service_levels {
	enum service_levels_state state;
	bool is_answered; /* in KNOWN: if false, the server assumes level 0 for each path */
	char why[80]; /* in KNOWN, if not answered: the reason, as a sentence */
	uint32_t lid_count; /* of server_port.levels */
	struct server_port *asked; /* the last port whose paths were asked for */
	struct server_port *asker; /* the port that has sent the question */
	uint32_t attempts; /* questions for `asked` so far */
	uint32_t transaction; /* of the last question */
	bool has_answer; /* to it; service_levels_advance() has yet to evaluate the answer */
	int error; /* of the answer: 0 or ETIMEDOUT */
	uint16_t status; /* of the answer's MAD */
};

struct fabric_server {
	struct fabric_loop loop;
	struct fabric_loop_user loop_user;
	struct place_listener place;
	struct fabric_listener listener; /* the socket of `place` */
	struct watch issm_watch;
	char name[ATTACH_NAME_BYTES];
	fabric_console_fn *console; /* NULL: the fabric has none */
	const struct fabric_uplink *uplink; /* NULL: the subnet is here */
	fabric_trace_fn *trace; /* NULL: none */
	void *trace_context;
	struct watch uplink_watch;
	struct subnet *subnet;
	struct mad_layer *mads;
	uint64_t now_ns;
	uint32_t node_count;
	struct server_node *nodes;
	struct list arrivals;
	uint32_t arrival_count;
	struct list clients;
	uint32_t client_count;
	uint32_t client_serial;
	struct list channels;
	uint32_t parked_count;
	struct list flows;
	uint32_t flow_serial;
	uint64_t flows_changes; /* subnet_route_changes() at the last check of all flows' routes */
	uint64_t flows_at_ns; /* when to call flows_advance(); UINT64_MAX: never */
	/* The channel and port of the frame that is being sent; NULL: it is not a channel's. */
	struct channel *sender;
	uint32_t sender_port;
	/* Objects that have ended in this turn, and may still have an event in it. */
	struct list ended_clients;
	struct list ended_openings;
	struct list ended_channels;
	uint32_t sa_requests; /* numbers them */
	struct service_levels levels;
	bool has_reregistered; /* a port has the flag of this name, for memberships_renew() */
	uint8_t *message; /* the MAD that is being received; `message_room` bytes */
	uint32_t message_room;
	struct server_counters counters;
};

struct client {
	struct watch watch;
	struct list link;
	struct fabric_server *server;
	pid_t pid;
	bool has_node; /* HELLO was answered */
	bool is_console;
	bool is_ended;
	uint32_t node;
	int events; /* the socket of events; -1: none */
	int given; /* the descriptor that came with the present request; -1: none, or taken */
	bool is_waiting; /* its command waits for service levels */
	char command[ATTACH_TEXT_BYTES];
	struct list openings;
	uint32_t opening_count;
	uint32_t opening_serial;
	struct list channels;
	uint32_t channel_count;
	struct list memberships;
	uint32_t membership_count;
};

/* A port that a client has opened for MADs. */
struct opening {
	struct watch watch;
	struct list link; /* in the client's openings */
	struct client *client;
	struct server_port *port;
	bool is_ended;
	uint32_t id;
	struct opening_agent *agents[AGENTS_PER_OPENING_MAX];
	struct list waiting; /* MADs for which the socket had no room */
	uint64_t waiting_bytes;
};

struct opening_agent {
	struct agent_owner owner;
	struct opening *opening;
	uint32_t id;
	struct mad_agent *agent;
};

/* A client's channel of frames. */
struct channel {
	struct watch watch; /* the eventfd that wakes the server */
	struct list link; /* in the client's channels */
	struct list server_link; /* in the server's channels */
	struct client *client;
	uint32_t node;
	uint32_t lease;
	bool is_ended;
	bool is_touched; /* the server has put frames into it in this turn */
	int wake_client; /* a socket that wakes the client, which alone has the other end */
	struct attach_frames *shared;
	struct list joins;
	uint32_t join_count;
	/*
	 * A frame of this channel for which its receiver had no room. Until it has some, or the
	 * frame's lifetime has ended, the server takes no other frame of this channel.
	 */
	struct {
		struct channel *to; /* NULL: there is no such frame */
		uint32_t port; /* of the receiver's node */
		uint32_t bytes;
		uint64_t since_ns;
		uint8_t *frame; /* ATTACH_FRAME_BYTES_MAX; NULL until it is needed */
	} parked;
	bool is_draining; /* it ends: its frames do not wait for their receivers */
	bool is_stalled; /* a frame's lifetime has ended before this channel had room */
	struct flow *flows_out[ATTACH_FLOWS_MAX]; /* NULL: none */
	struct flow *flows_in[ATTACH_FLOWS_MAX];
	uint64_t flows_rest_until_ns;
	int last_messages; /* memfd; -1: none */
	uint64_t last_messages_offset;
};

/* --- server.c --- */

int server_watch(struct fabric_server *server, struct watch *watch, uint32_t events);
void server_unwatch(struct fabric_server *server, struct watch *watch);
/* Keep a copy of a MAD until server_arrivals_run(). Returns false when there is no room. */
bool server_arrival_add(struct fabric_server *server, const struct arrival *arrival);
/* Pass the MADs that have arrived to their agents, and those that arrive meanwhile. */
void server_arrivals_run(struct fabric_server *server);

/* --- server_ports.c --- */

/* The port with that number, or NULL. */
struct server_port *server_port_find(struct fabric_server *server, uint32_t node, uint32_t number);
/* The next port of a host. Begin with NULL; NULL is also the end. */
struct server_port *server_port_next(
	const struct fabric_server *server, const struct server_port *port);
/* The port's MAD layer, made at its first use. Returns 0 or -ENOMEM. */
int server_port_mads(struct server_port *port);
void server_port_describe(const struct server_port *port, struct attach_port *ret_info);
int server_nodes_create(struct fabric_server *server);
void server_nodes_destroy(struct fabric_server *server);
void server_node_describe(
	const struct fabric_server *server, uint32_t node, struct attach_node *ret_node);

/* --- taken_hosts.c --- */

/* The channel gets all frames of its client's host. The host has no other client. */
void taken_host_begin(struct channel *channel);
/* The channel ends. Without effect if it has not taken its host. */
void taken_host_end(struct channel *channel);

/* --- uplink.c --- */

/* Send a frame from a port, to the subnet here or by the uplink. */
void server_send(struct fabric_server *server, uint32_t node, uint32_t port, uint8_t *frame,
	uint32_t frame_bytes);
/* A queue pair has refused a frame. `violation` is one of ATTACH_RECORD_*. */
void server_report(struct fabric_server *server, uint32_t node, uint32_t port, uint32_t violation,
	const uint8_t *frame, uint32_t frame_bytes);
/* Set or clear the port's IsSM bit, in the subnet here or by the uplink. */
void server_issm_set(struct fabric_server *server, const struct server_port *port, bool is_open);
/* May the server send frames of its clients? */
bool server_has_room(const struct fabric_server *server);

/* --- server_issm.c --- */

int issm_create(struct fabric_server *server);
void issm_destroy(struct fabric_server *server);
/* The path of the port's IsSM file, made at its first use. Returns 0 or -errno. */
int issm_path(struct server_port *port, char ret_path[ATTACH_TEXT_BYTES]);
void issm_event(struct fabric_server *server);

/* --- clients.c --- */

void client_accept(struct fabric_server *server);
void client_event(struct client *client);
void client_end(struct client *client);
void client_free(struct client *client);
/* Run the commands of consoles that wait for service levels. */
void clients_run_commands(struct fabric_server *server);

/* --- openings.c --- */

/* Open a port for MADs. Returns the client's socket or -errno. */
int opening_create(struct client *client, struct server_port *port, uint32_t *ret_id);
void opening_end(struct opening *opening);
void opening_free(struct opening *opening);
void opening_event(struct opening *opening, uint32_t events);
int opening_agent_add(struct client *client, uint32_t id, struct attach_agent *agent);
int opening_agent_remove(struct client *client, uint32_t id, uint32_t agent);

/* --- channels.c --- */

/*
 * Open a channel. ret_fds: the memfd, the end of a socket pair that the client polls, the eventfd
 * that wakes the server, the other end of the pair. The caller closes the first two.
 */
int channel_create(
	struct client *client, uint32_t *ret_lease, int ret_fds[ATTACH_CHANNEL_DESCRIPTORS]);
void channel_end(struct channel *channel);

void channel_free(struct channel *channel);
struct channel *channel_find(struct client *client, uint32_t lease);
int channel_join(struct channel *channel, uint32_t port, uint16_t mlid);
int channel_leave(struct channel *channel, uint32_t port, uint16_t mlid);
int channel_service_claim(struct channel *channel, uint64_t service_id, uint64_t mask);
int channel_service_release(struct channel *channel, uint64_t service_id, uint64_t mask);
/* Does one of the channel's queue pairs get frames to this multicast LID? */
bool channel_has_joined(const struct channel *channel, uint32_t port, uint16_t mlid);
/*
 * Put a frame with a MAD of the connection manager into each channel that it is for. Returns false
 * when it is for no channel.
 */
bool channels_put_cm(const struct server_node *node, uint32_t port, const uint8_t mad[MAD_BYTES],
	const uint8_t *frame, uint32_t bytes);

/* --- channel_frames.c --- */

/* Put a frame into the channel. */
void channel_put(struct channel *channel, uint32_t port, const uint8_t *frame, uint32_t bytes);
/*
 * The same for a frame that the server has taken from the channel server->sender. If the receiver's
 * ring is full, the sender's channel waits for it (`parked`).
 */
void channel_put_data(struct channel *channel, uint32_t port, const uint8_t *frame, uint32_t bytes);
/*
 * Pass on the frames that the client sent before its end, such as its last acknowledgements. Call
 * this before channel_end().
 */
void channel_drain(struct channel *channel);
/* The channel ends: no frame waits for it any more. */
void channel_frames_end(struct channel *channel);
/* Send what clients have put into their channels. Returns the number of frames. */
uint32_t channels_run(struct fabric_server *server);
/* Wake the clients that wait for frames. */
void channels_wake(struct fabric_server *server);
/* Ask clients to wake the server, before it sleeps. Returns false when a frame waits. */
bool channels_wait_begin(struct fabric_server *server);
void channels_wait_end(struct fabric_server *server);

/* --- flows.c --- */

/*
 * A frame of `from`, which left its node by `port`, has arrived at `to`. Open a flow for such
 * frames, if that is possible.
 */
void flow_consider(
	struct channel *from, uint32_t port, struct channel *to, const struct ib_frame *frame);
/* The receiver of an incoming flow reads it now. */
void flow_ready(struct channel *to, uint32_t slot, uint32_t serial);
/* Close the flows whose route has changed. Call it after what may have changed the subnet. */
void flows_refresh(struct fabric_server *server);
/* Go on with the flows that are being closed. */
void flows_advance(struct fabric_server *server);
/* Add the frames of flows to the counters of the ports on their routes; for struct subnet_user. */
void flows_count(void *context);
/* How many flows lead from the client's channels. */
uint32_t flows_of_client(const struct client *client);
/* The channel ends. */
void flows_end(struct channel *channel);

/* --- ended_services.c --- */

/*
 * A process has closed a listener, but has not ended. A program may close its listener after each
 * connection and listen anew (ib_write_bw -R). So a request that arrives in between gets no answer
 * for a while, and its sender repeats it.
 */
void ended_service_add(struct server_node *node, uint64_t service_id, uint64_t now_ns);
/* Has a service with the same port, in any port space, ended a short while ago? */
bool ended_service_is_expected(
	const struct server_node *node, uint64_t service_id, uint64_t now_ns);

/* --- sa_request.c --- */

/* A request to the subnet administrator. */
struct sa_request {
	enum mad_method method;
	uint16_t attribute_id;
	uint64_t component_mask;
	uint32_t timeout_ms;
	uint32_t retries;
	uint8_t record[SA_DATA_BYTES];
};

/*
 * Send a request from a port. membership_answer() or service_levels_answer() gets the answer, which
 * the embedded subnet manager gives within this call. Returns 0; -ENETUNREACH when the port has no
 * subnet manager; or another -errno.
 */
int sa_request_send(
	struct server_port *port, const struct sa_request *request, uint32_t *ret_transaction);

/* --- service_levels.c --- */

/*
 * Find out which service levels the paths between hosts have. Returns true if the server knows
 * them. Otherwise the caller's command waits for them: clients_run_commands() runs it again.
 */
bool service_levels_ask(struct fabric_server *server);
/*
 * The service levels of packets from a host's port to a LID, a bit for each: a subnet_levels_fn,
 * whose context is the server. service_levels_ask() has returned true.
 */
uint16_t service_levels_of(const void *context, uint32_t node, uint32_t port, uint16_t dlid);
/* An answer of the subnet administrator, or its absence, to a request of the port. */
void service_levels_answer(
	struct server_port *port, int status, const uint8_t *bytes, uint32_t count);
/* Does service_levels_advance() have an answer to evaluate, or commands to run? */
bool service_levels_are_due(const struct fabric_server *server);
void service_levels_advance(struct fabric_server *server);
void service_levels_forget(struct fabric_server *server);

/* --- memberships.c --- */

/* A client begins or ceases to need the port's membership of a group. Return 0 or -errno. */
int membership_hold(struct client *client, struct server_port *port, const struct gid *mgid,
	uint8_t join_state);
int membership_release(struct client *client, struct server_port *port, const struct gid *mgid,
	uint8_t join_state);
/* The client has ended. */
void memberships_drop(struct client *client);
/* A MAD for QP1 has arrived at the port. If it answers a join, keep the record in it. */
void membership_answer(struct server_port *port, uint16_t slid, const uint8_t mad[MAD_BYTES]);
/* Join the groups of the ports with `has_reregistered` again. */
void memberships_renew(struct fabric_server *server);

/* --- last_messages.c --- */

/*
 * Keep a memfd of the client with the last messages of its connections (cm/cm.h). Takes the
 * descriptor over, also after a failure. Returns 0 or -EINVAL.
 */
int last_messages_keep(struct channel *channel, int memory, uint64_t offset);

/*
 * The client has ended: send the last messages, so that the peers of its connections learn it. Call
 * this before channel_end(), and after channel_drain() of each of the client's channels.
 */
void last_messages_send(struct channel *channel);

/* --- delivery.c --- */

/* The functions of struct subnet_user. */
void server_deliver(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes);
void server_event(void *context, uint32_t node, uint32_t port, enum subnet_event event);
/*
 * If the MAD is a message of the connection manager, no channel has claimed it: answer as a manager
 * without such a service or connection does. Returns whether it is such a message.
 */
bool server_answer_cm(struct server_port *port, const struct arrival *arrival);

/* The functions of struct mad_calls. Contexts: a struct agent_owner; a struct server_port. */
void server_take(void *context, const struct mad_address *peer, int status, const uint8_t *bytes,
	uint32_t count);
void server_transmit(void *context, uint32_t own_qpn, const struct mad_address *to,
	const uint8_t mad[MAD_BYTES]);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated lossless network: hosts, switches and cables, under virtual time. Links are Ethernet
 * with PFC, unless infiniband/infiniband.h makes them InfiniBand.
 *
 * The caller makes the network (or lets topology.h make it), gives each host its functions, and
 * lets time pass. Hosts bring the frames: traffic/source.h has hosts that are plain sources,
 * traffic/engine_host.h hosts that are urnic's engine.
 *
 * One seed decides everything. All numbers are integers, events are ordered by time and then by the
 * order in which they were made, and no pointer has a part in either. So a run has the same history
 * on every machine. fabric->hash covers that history: each frame that is sent, arrives, is dropped
 * or marked, and each pause.
 *
 * Hosts, switches and ports are numbered from 0, each kind by itself, in the order in which they
 * were added. A host has one port. All state is open to read; only the functions here change it.
 *
 * Memory: the network allocates while it runs. Without memory fabric_run() returns -ENOMEM, and the
 * run cannot go on.
 *
 * Threads: the caller serializes everything. No function blocks.
 */
#ifndef URNIC_FABRIC_FABRIC_H
#define URNIC_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/event_heap.h"
#include "fabric/egress.h"
#include "fabric/marking.h"
#include "fabric/port.h"
#include "fabric/units.h"

/* fabric_switch_config.headroom_bytes: what each port's cable needs (plan.h), and a frame more. */
#define FABRIC_HEADROOM_OF_CABLE UINT32_MAX

/* fabric_config.response_quanta: the deadline that the standard sets for each port's rate. */
#define FABRIC_RESPONSE_OF_RATE UINT32_MAX

enum fabric_watchdog_action {
	FABRIC_WATCHDOG_OFF,
	FABRIC_WATCHDOG_DROP, /* drop the queue's frames until the pause is over */
	FABRIC_WATCHDOG_FORWARD, /* ignore the pause, and send, until it is over */
	FABRIC_WATCHDOG_ALERT, /* only count the storm */
};

struct fabric_watchdog {
	enum fabric_watchdog_action action;
	uint64_t detection_ps; /* the action begins when a queue has been stuck for this time */
	uint64_t restoration_ps; /* it ends when the queue has had no pause for this time */
};

struct fabric_switch_config {
	uint64_t pool_bytes;
	int32_t dynamic_th;
	uint32_t headroom_bytes; /* per port and lossless priority */
	uint32_t xon_offset_bytes;
	uint8_t lossless; /* a bit for each priority that PFC protects */
	struct scheduler scheduler; /* of each port */
	struct marking marking[FABRIC_PRIORITY_COUNT];
	struct fabric_watchdog watchdog;
	bool has_dscp_map; /* the DSCP sets a frame's priority; else the frame keeps its own */
	uint8_t priority_of_dscp[FABRIC_DSCP_COUNT];
};

struct fabric_config {
	uint64_t seed;
	uint32_t frame_bytes_max; /* the longest frame, for which headroom is reserved */
	uint32_t gap_bytes; /* what each frame takes on a cable besides its own bytes */
	uint32_t pause_quanta; /* how long a PFC frame pauses */
	uint32_t response_quanta;
	uint32_t data_capacity; /* bytes of data in each frame */
};

/* The functions of a host. `host` is the context that fabric_set_host() was given. */
struct fabric_host_ops {
	/*
	 * The host's port is idle: fill in the next frame. `packet` is zeroed; the host sets flow,
	 * number, destination, bytes, source_port, priority, ecn and data. The peer has stopped the
	 * priorities `paused`, so the frame has another one. The host's traffic classes (egress.h)
	 * delay the priorities `held`; only a congestion notification or a NAK may have one of
	 * these. Returns false when there is no frame.
	 */
	bool (*next_packet)(void *host, struct fabric_packet *packet, uint8_t paused, uint8_t held,
		uint64_t now_ps);
	/* A frame has arrived. Borrowed for the call. */
	void (*receive)(void *host, const struct fabric_packet *packet, uint64_t now_ps);
	/*
	 * The next time after `now_ps` at which the host needs expire() or has another frame to
	 * send; FABRIC_NEVER: none. A frame that the host has already does not count: the port
	 * calls next_packet() again when it is idle, and when its peer lets a priority resume.
	 */
	uint64_t (*next_time)(void *host, uint64_t now_ps);
	/* That time has come. NULL: next_packet() is enough. */
	void (*expire)(void *host, uint64_t now_ps);
};

/*
 * The buffers of a host for frames that it has not taken (fabric_slow_host()), in what dcb calls
 * buffer. A priority that heeds pauses also pauses its peer when its buffer has room for only as
 * much as its cable needs (plan.h). A frame that does not fit is discarded. Without buffers all
 * frames fit.
 */
struct fabric_ingress_config {
	bool has_buffers;
	uint8_t buffer_of[FABRIC_PRIORITY_COUNT];
	uint32_t buffer_bytes[FABRIC_PRIORITY_COUNT];
};

/* Frames that wait for a host. */
struct fabric_ingress {
	struct packet_queue queue;
	uint32_t limit_bytes; /* without buffers: with more waiting, the host pauses its peer */
	struct fabric_ingress_config config;
	/* By buffer; without buffers, all is in the first one. */
	uint64_t used_bytes[FABRIC_PRIORITY_COUNT];
};

/* The members that each frame needs come first, in one cache line. */
struct fabric_host {
	uint32_t port; /* FABRIC_NO_PORT until it is connected */
	uint32_t take_mbps; /* how fast it takes what arrives; 0: at once */
	const struct fabric_host_ops *ops; /* NULL: it sends nothing, and ignores what it gets */
	void *context;
	struct fabric_timer timer;
	bool has_classes;
	struct fabric_ingress ingress;
	struct egress egress; /* with classes */
};

struct fabric_switch {
	struct fabric_switch_config config;
	struct shared_buffer buffer;
	uint64_t salt; /* of its choice among equal paths */
	struct fabric_timer watch; /* the watchdog's next look */
	uint64_t unroutable_frames;
};

/* What happened, for a watcher. `packet` is NULL where none is concerned. */
enum fabric_event {
	FABRIC_FRAME_SENT, /* its first bit left the port */
	FABRIC_FRAME_ARRIVED, /* its last bit arrived at the port */
	FABRIC_FRAME_DISCARDED, /* the port it arrived at has no room for it */
	FABRIC_FRAME_LOST, /* the port's cable lost it on purpose */
	FABRIC_FRAME_MARKED, /* the egress queue of the port marked it */
	FABRIC_FRAME_UNROUTABLE, /* the port's switch has no path */
	FABRIC_STORM_DROP, /* the watchdog of the port dropped the frame */
	FABRIC_PAUSED, /* the port's peer paused the priority */
	FABRIC_RESUMED,
	FABRIC_STORM_BEGUN, /* the watchdog found a queue of the port stuck */
	FABRIC_STORM_ENDED,
	FABRIC_FRAME_CORRUPTED, /* on the port's cable, on purpose */
	FABRIC_FRAME_EXPIRED, /* InfiniBand: too old, or its lane of the port is stalled */
	FABRIC_FRAME_REFUSED, /* InfiniBand: the port it arrived at has no P_Key for it */
	FABRIC_FRAME_CONSTRAINED, /* InfiniBand: the port it leaves through has none */
};

typedef void fabric_watcher(void *context, uint64_t now_ps, enum fabric_event event, uint32_t port,
	uint32_t priority, const struct fabric_packet *packet);

/* Functions of links that are not Ethernet (infiniband/infiniband.h), for the network to call. */
struct fabric_link_calls {
	/* Free what infiniband_init() has allocated. */
	void (*done)(struct fabric *fabric);
	/* The next packet of a port, or NULL. */
	struct fabric_packet *(*next_packet)(struct fabric *fabric, uint32_t number);
	/* A packet, or a link packet, has arrived at the port. Both take it. */
	void (*receive)(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);
	void (*link_receive)(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);
	/* The times of the port's timers have come. */
	void (*flow_control)(struct fabric *fabric, uint32_t number);
	void (*expire)(struct fabric *fabric, uint32_t number);
	/* For fabric_check(). */
	void (*check)(const struct fabric *fabric);
};

struct fabric {
	struct fabric_config config;
	uint64_t now_ps;
	uint64_t event_count; /* that were executed */
	uint64_t hash;
	int error; /* -ENOMEM: the run has failed; else 0 */
	struct event_heap events;
	struct packet_pool pool;
	uint32_t host_count;
	uint32_t switch_count;
	uint32_t port_count;
	struct fabric_host *hosts;
	struct fabric_switch *switches;
	struct fabric_port *ports;
	struct fabric_routes *routes;
	const struct fabric_link_calls *link; /* NULL: Ethernet */
	struct infiniband *infiniband; /* the functions of `link` use this; NULL: Ethernet */
	fabric_watcher *watcher;
	void *watcher_context;
};

/* An empty network at time 0, or NULL without memory. */
struct fabric *fabric_create(const struct fabric_config *config);
void fabric_destroy(struct fabric *fabric);

/* Add a host or a switch. *ret_number is its number. Returns 0 or -ENOMEM. */
int fabric_add_host(struct fabric *fabric, uint32_t *ret_number);
int fabric_add_switch(
	struct fabric *fabric, const struct fabric_switch_config *config, uint32_t *ret_number);

/* An end of a cable: a host or a switch. */
struct fabric_node {
	bool is_host;
	uint32_t number;
};

/*
 * Connect two nodes. A host is connected once.
 *
 * `rate_mbps`  1 to FABRIC_RATE_MBPS_MAX.
 * `delay_ps`   From the one end of the cable to the other.
 * `ret_ports`  If not NULL, the ports of `a` and `b`.
 *
 * Returns 0 or -ENOMEM.
 */
int fabric_connect(struct fabric *fabric, struct fabric_node a, struct fabric_node b,
	uint32_t rate_mbps, uint64_t delay_ps, uint32_t ret_ports[2]);

/*
 * Find the shortest paths between all hosts (route.h). Call it after the last cable. Returns 0, or
 * -ENOMEM; or -ENETUNREACH when some host cannot reach another one.
 */
int fabric_route(struct fabric *fabric);

/* Give a host its functions, before time passes. */
void fabric_set_host(
	struct fabric *fabric, uint32_t host, const struct fabric_host_ops *ops, void *context);

/* Give a host buffers, before time passes. */
void fabric_set_ingress(
	struct fabric *fabric, uint32_t host, const struct fabric_ingress_config *config);

/*
 * From now on a host takes what arrives at `take_mbps` only; 0: at once. It pauses the priority of
 * a frame that finds more than `limit_bytes` waiting, and lets its peer resume when half of that is
 * left. No frame is lost: the headroom of the host is large enough. A host with buffers has limits
 * of its own instead.
 */
void fabric_slow_host(
	struct fabric *fabric, uint32_t host, uint32_t take_mbps, uint32_t limit_bytes);

/* Call `watcher` for each event; NULL: for none. */
void fabric_watch(struct fabric *fabric, fabric_watcher *watcher, void *context);

/*
 * Ask the host for its next frame and its next time. The caller calls this when they have changed,
 * although no frame has arrived.
 */
void fabric_wake_host(struct fabric *fabric, uint32_t host);

/*
 * Let time pass until `until_ps`. Returns 0 or -ENOMEM. A network without further events is done
 * early; fabric->now_ps is `until_ps` in any case.
 */
int fabric_run(struct fabric *fabric, uint64_t until_ps);

/* Execute the next event, if it is not later than `until_ps`. Returns false if there is none. */
bool fabric_step(struct fabric *fabric, uint64_t until_ps);

/* The sum of the egress queue's length over time, in bytes times nanoseconds, until now. */
uint64_t fabric_queue_byte_ns(const struct fabric *fabric, uint32_t port, uint32_t priority);

/* Assert the invariants of the network. Tests call this between steps. */
void fabric_check(const struct fabric *fabric);

/* --- for the files of src/fabric --- */

enum fabric_event_kind {
	EVENT_ARRIVE, /* of a port: its cable's first frame is at the other end */
	EVENT_SENT, /* of a port: it has sent its frame */
	EVENT_HEED, /* of a port: its first PFC frame takes effect */
	EVENT_HOST, /* of a host: its timer's time has come */
	EVENT_PAUSE_END, /* of a priority, numbered port * 8 + priority: its pause is over */
	EVENT_REFRESH, /* of a priority: the port repeats the pause of its peer */
	EVENT_WATCH, /* of a switch: its watchdog looks at the ports */
	EVENT_TAKE, /* of a host: it has taken the first frame that waits for it */
	EVENT_FLOW_CONTROL, /* of a port: it sends its credits of all data VLs again */
	EVENT_LIFETIME, /* of a port: some packet may be too old */
};

void fabric_schedule(
	struct fabric *fabric, uint64_t at_ps, enum fabric_event_kind kind, uint32_t target);

/* Set a timer, or clear it by FABRIC_NEVER. */
void fabric_timer_set(struct fabric *fabric, struct fabric_timer *timer, uint64_t due_ps,
	enum fabric_event_kind kind, uint32_t target);

/* An event of the timer has come: is the timer due? If not, set an event for its new time. */
bool fabric_timer_fires(struct fabric *fabric, struct fabric_timer *timer,
	enum fabric_event_kind kind, uint32_t target);

/* Take a frame from the pool. If there is no memory, it returns NULL, and the run ends. */
struct fabric_packet *fabric_packet_take(struct fabric *fabric);

/* Note what happened: in the hash, and for the watcher. */
void fabric_note(struct fabric *fabric, enum fabric_event event, uint32_t port, uint32_t priority,
	const struct fabric_packet *packet);

/* A frame has arrived at a port of a switch or of a host. Both take the frame. */
void switch_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);
void host_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);

/* An event of the host's timer has come. */
void host_expire(struct fabric *fabric, uint32_t number);

/* The host has taken a frame. */
void host_take(struct fabric *fabric, uint32_t number);

/* The next frame of the port's host, or NULL. */
struct fabric_packet *host_next_packet(struct fabric *fabric, uint32_t number, uint8_t paused);

/* The watchdog of a switch looks at all its ports. */
void switch_watch(struct fabric *fabric, uint32_t number);

/* The switch of a port that is not a host's. */
static inline struct fabric_switch *fabric_switch_of(
	const struct fabric *fabric, const struct fabric_port *port)
{
	return &fabric->switches[port->node];
}

#endif

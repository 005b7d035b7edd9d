/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port: one end of a cable, at a host or a switch.
 *
 * A port sends frames to its peer, the port at the cable's other end. It sends one at a time, in
 * full: PFC frames before all others, then what the host offers or the switch's scheduler chooses.
 * A frame is on the cable until its last bit arrives (store and forward).
 *
 * The peer pauses priorities by PFC frames (IEEE 802.1Qbb). A frame that has begun is finished. A
 * pause ends by a PFC frame with a time of 0, or after its time. A port that receives a PFC frame
 * heeds it after its response time.
 *
 * A port of a switch has an egress queue and a priority group (shared_buffer.h) for each priority.
 * It repeats the pause of a group before the pause ends.
 */
#ifndef URNIC_FABRIC_PORT_H
#define URNIC_FABRIC_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/packet.h"
#include "fabric/random.h"
#include "fabric/scheduler.h"
#include "fabric/shared_buffer.h"

struct fabric;

#define FABRIC_NO_PORT UINT32_MAX

/* A time at which its owner wants a call. The event heap has at most one valid event for it. */
struct fabric_timer {
	uint64_t due_ps; /* FABRIC_NEVER: not set */
	uint64_t armed_ps; /* the time of that event; FABRIC_NEVER: none */
};

/* What a port has counted for a priority. */
struct port_counters {
	uint64_t sent_frames;
	uint64_t sent_bytes;
	uint64_t received_frames;
	uint64_t received_bytes;
	uint64_t queue_bytes_max;
	uint64_t paused_ps; /* how long the peer has stopped it, until the last change */
	uint64_t sent_pauses; /* PFC frames that stop the priority, repetitions included */
	uint64_t received_pauses;
	uint64_t discarded_frames; /* received, and no room for them */
	uint64_t marked_frames; /* sent with a mark made here */
	uint64_t storms; /* how often the watchdog found the queue stuck */
	uint64_t storm_drops; /* frames that the watchdog has dropped */
};

/* A priority of a port. The members that each frame changes come first, in two cache lines. */
struct port_priority {
	struct packet_queue queue; /* egress */
	uint64_t queue_bytes;
	uint64_t queue_byte_ns; /* the sum of queue_bytes over time, until queue_changed_ps */
	uint64_t queue_changed_ps;
	struct priority_group group; /* ingress */
	struct port_counters counters;
	uint64_t paused_since_ps;
	struct fabric_timer pause_end;
	struct fabric_timer refresh; /* when the group's pause has to be repeated */
	uint64_t stuck_ps; /* for how long the watchdog has seen the queue paused and not empty */
	uint64_t storm_ps; /* when the storm began, or the watchdog last saw a pause during it */
	uint64_t watched_frames; /* sent_frames when the watchdog last looked */
};

/* The members that each frame needs come first. */
struct fabric_port {
	uint32_t node; /* the number of its host or switch */
	uint32_t peer; /* the port at the cable's other end; FABRIC_NO_PORT: none */
	struct packet_queue cable; /* frames under way to the peer */
	uint64_t delay_ps;
	uint32_t rate_mbps;
	bool is_host;
	bool is_sending;
	bool is_down; /* its link loses every frame that this port sends */
	uint8_t waiting; /* a bit for each priority whose queue has frames */
	uint8_t paused; /* a bit for each priority that the peer has stopped */
	uint8_t stormed; /* a bit for each priority that the watchdog has taken over */
	uint8_t pause_pending; /* a bit for each priority that the next PFC frame has to name */
	uint8_t pause_ignored; /* a bit for each priority whose pauses the port does not obey */
	uint8_t pause_forced; /* a bit for each priority that a pause storm stops */
	uint32_t loss_ppm; /* of the frames that this port sends, PFC frames apart */
	uint32_t loss_period; /* one in so many of these is lost; 0: none */
	uint32_t corrupt_ppm; /* of the frames that this port sends, PFC frames apart */
	uint32_t head_bytes[FABRIC_PRIORITY_COUNT]; /* of the first frame of each queue */
	struct scheduler scheduler;
	struct fabric_random mark_random;
	struct fabric_random loss_random;
	struct fabric_random corrupt_random;
	struct packet_queue heeding; /* PFC frames that have arrived and have no effect yet */
	uint64_t response_ps; /* from the arrival of a PFC frame to its effect */
	uint32_t loss_count; /* frames sent since the last one that was lost by loss_period */
	uint64_t lost_frames;
	uint64_t corrupted_frames;
	struct port_priority priority[FABRIC_PRIORITY_COUNT];
};

/* Send the next frame, if the port is idle and has one. */
void port_kick(struct fabric *fabric, uint32_t number);

/* The frame at the head of the port's cable arrives at its peer. */
void port_arrive(struct fabric *fabric, uint32_t number);

/* The port has sent its frame. */
void port_sent(struct fabric *fabric, uint32_t number);

/* Append a frame to an egress queue of a switch. */
void port_enqueue(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);

/* Take the first frame of an egress queue, which leaves the switch or is dropped. */
struct fabric_packet *port_dequeue(struct fabric *fabric, uint32_t number, uint32_t priority);

/* A queue has `bytes` from now on: keep its sums up to date. */
void port_queue_change(const struct fabric *fabric, struct port_priority *of, uint64_t bytes);

/* --- priority flow control (pause.c) --- */

/* The priority group of this port has changed: tell the peer, if it has to pause or resume. */
void pause_update(struct fabric *fabric, uint32_t number, uint32_t priority, bool was_paused);

/* The PFC frame that the port has to send now. NULL: no memory. */
struct fabric_packet *pause_make(struct fabric *fabric, uint32_t number);

/* A PFC frame has arrived at the port. Takes the frame. */
void pause_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);

/* The first PFC frame of the port's list takes effect. */
void pause_heed(struct fabric *fabric, uint32_t number);

/* The times of the priority's timers have come. */
void pause_expire(struct fabric *fabric, uint32_t number, uint32_t priority);
void pause_refresh(struct fabric *fabric, uint32_t number, uint32_t priority);

/*
 * Set the priorities, as bits, that a pause storm stops: the port pauses them at the peer until a
 * later call leaves them out. A priority is also paused while its priority group is above its
 * threshold.
 */
void pause_force(struct fabric *fabric, uint32_t number, uint8_t priorities);

/* How long the peer has stopped this priority of the port so far. */
uint64_t pause_total_ps(const struct fabric *fabric, uint32_t number, uint32_t priority);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the three files of the host controller share: controller.c (states and recovery),
 * controller_connect.c (the sequence of steps up to HOST_LIVE) and controller_requests.c.
 */
#ifndef URNIC_NVMF_HOST_CONTROLLER_INTERNAL_H
#define URNIC_NVMF_HOST_CONTROLLER_INTERNAL_H

#include "nvmf/host/controller/controller.h"

enum {
	HOST_CONNECT_BYTES = 1024,
	HOST_ADMIN_DEPTH = 31, /* the smallest Admin queue of Fabrics has 32 entries, one unused */
	HOST_EVENTS = 1, /* pending Asynchronous Event Requests */
};

struct host_queue_state {
	struct host_controller *controller;
	uint16_t qid;
	struct host_queue *transport; /* NULL: the queue is closed */
	bool is_live; /* the queue takes requests of host_submit() */
	uint32_t depth;
	uint32_t pending;
	struct list commands; /* pending commands, linked by core_node, in order of submission */
	struct host_request connect;
	uint8_t connect_data[HOST_CONNECT_BYTES];
};

/* The steps from the Admin queue to HOST_LIVE, one after the other; `step` is the present one. */
enum host_step {
	HOST_STEP_ADMIN_QUEUE,
	HOST_STEP_CONNECT,
	HOST_STEP_CAP,
	HOST_STEP_VS,
	HOST_STEP_ENABLE,
	HOST_STEP_READY,
	HOST_STEP_IDENTIFY,
	HOST_STEP_QUEUES,
	HOST_STEP_EVENTS,
	HOST_STEP_IO_QUEUES,
	HOST_STEP_DONE,
};

/* What becomes of I/O requests while the controller is live. */
enum host_io {
	HOST_IO_FLOWS,
	HOST_IO_HELD, /* until host_allow_io() or host_refuse_io() */
	HOST_IO_REFUSED,
};

struct host_controller {
	struct host_controller_settings settings;
	enum host_state state;
	bool is_destroyed;
	bool fails_fast; /* `fast_fail_ns` has passed without a connection */
	int error;
	char reason[HOST_REASON_BYTES];
	enum host_io io_state;
	uint64_t reconnects;
	unsigned attempts; /* number of attempts to connect since the controller was last live */

	struct host_queue_state admin;
	struct host_queue_state *io; /* an array of settings.io_queues queues */
	unsigned io_count; /* how many I/O queues the controller has granted */
	unsigned io_live;
	unsigned io_next; /* the index at which the next search for an I/O queue begins */
	struct list waiting[2]; /* requests not sent yet: [0] I/O, [1] Admin */
	struct list repeated[2]; /* requests to send again, before those in `waiting` */

	struct loop_work recovery;
	struct loop_timer retry;
	struct loop_timer attempt; /* expires if the sequence takes too long */
	struct loop_timer fast_fail;
	struct loop_timer loss;
	struct loop_timer tick; /* looks for requests that exceed their time-out */
	struct loop_timer keep_alive;
	struct loop_timer ready; /* reads CSTS again */

	enum host_step step;
	struct host_request request; /* the Admin command of the present step */
	struct host_request alive;
	struct host_request abort;
	struct host_request events[HOST_EVENTS];
	bool is_alive_pending;
	bool is_abort_pending;

	uint16_t cntlid;
	uint64_t cap;
	uint32_t data_bytes_max;
	uint8_t identity[HOST_IDENTIFY_BYTES];
};

/* controller.c: the association is over; the recovery begins in the next step of the loop. */
void host_lose(struct host_controller *controller, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* controller.c: the sequence of steps has succeeded. */
void host_go_live(struct host_controller *controller);

/* controller_connect.c: begin the sequence of steps. */
void host_connect(struct host_controller *controller);
/* The timer `ready` has expired: read CSTS again. */
void host_ready_expired(struct loop_timer *timer);

/* controller_requests.c: send `request` now, in any state. The queue is open and has room. */
void host_queue_send(struct host_queue_state *queue, struct host_request *request);
/* Send waiting requests while the queues have room. */
void host_requests_pump(struct host_controller *controller);
/* End all waiting requests with `error`. */
void host_requests_fail(struct host_controller *controller, int error);
void host_tick_expired(struct loop_timer *timer);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subnet for tests, and what its adapters' user hears: the frames that were delivered, and the
 * events. The subnet of two_switches has four hosts:
 *
 *	h1 - s1[1]  s1[3] - s2[3]  s2[1] - h3
 *	h2 - s1[2]  s1[4] - s2[4]  s2[2] - h4
 */
#ifndef URNIC_TESTS_SUBNET_FIXTURE_H
#define URNIC_TESTS_SUBNET_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "subnet/manager/manager.h"
#include "subnet/subnet.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/smp.h"

static const char two_switches[] = "Switch 4 \"s1\"\n"
				   "[1] \"h1\"[1]\n"
				   "[2] \"h2\"[1]\n"
				   "[3] \"s2\"[3]\n"
				   "[4] \"s2\"[4]\n"
				   "\n"
				   "Switch 4 \"s2\"\n"
				   "[1] \"h3\"[1]\n"
				   "[2] \"h4\"[1]\n"
				   "\n"
				   "Ca 1 \"h1\"\n"
				   "\n"
				   "Ca 1 \"h2\"\n"
				   "\n"
				   "Ca 1 \"h3\"\n"
				   "\n"
				   "Ca 2 \"h4\"\n";

enum { S1, S2, H1, H2, H3, H4 };

enum { DELIVERED_MAX = 64, EVENTS_MAX = 256, TRACED_NODES = 512, TRACED_PORTS = 64 };

struct delivered {
	uint32_t node;
	uint32_t port;
	uint32_t bytes;
	uint8_t frame[SUBNET_FRAME_BYTES_MAX];
};

struct fixture {
	struct subnet *subnet;
	uint64_t now_ns;
	uint32_t delivered_count;
	uint32_t event_count;
	uint32_t traced; /* frames that crossed a cable */
	struct {
		uint64_t frames;
		uint64_t words;
	} log[TRACED_NODES][TRACED_PORTS]; /* of them, by the port that sent them */
	struct delivered delivered[DELIVERED_MAX];
	struct {
		uint32_t node;
		enum subnet_event event;
	} events[EVENTS_MAX];
};

static void fixture_deliver(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	struct fixture *fixture = context;
	struct delivered *delivered = &fixture->delivered[fixture->delivered_count % DELIVERED_MAX];

	assert_true(frame_bytes <= SUBNET_FRAME_BYTES_MAX);
	*delivered = (struct delivered){.node = node, .port = port, .bytes = frame_bytes};
	memcpy(delivered->frame, frame, frame_bytes);
	fixture->delivered_count++;
}

static void fixture_event(void *context, uint32_t node, uint32_t port, enum subnet_event event)
{
	struct fixture *fixture = context;

	(void)port;
	fixture->events[fixture->event_count % EVENTS_MAX].node = node;
	fixture->events[fixture->event_count % EVENTS_MAX].event = event;
	fixture->event_count++;
}

static void fixture_trace(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	struct fixture *fixture = context;

	(void)frame;
	assert_true(node < TRACED_NODES && port < TRACED_PORTS);
	fixture->traced++;
	fixture->log[node][port].frames++;
	fixture->log[node][port].words += frame_bytes / 4;
}

/* Without a manager no port is active. */
static inline void fixture_init(struct fixture *fixture, const char *text, bool has_manager)
{
	const struct subnet_user user = {
		.deliver = fixture_deliver,
		.event = fixture_event,
		.trace = fixture_trace,
		.context = fixture,
	};
	struct subnet_topology *topology;
	char why[TOPOLOGY_WHY_BYTES];
	uint32_t line;

	memset(fixture, 0, sizeof(*fixture));
	assert_int_equal(subnet_topology_read(text, strlen(text), &topology, &line, why), 0);
	assert_int_equal(subnet_create(topology, &user, &subnet_embedded_manager, &fixture->subnet), 0);
	subnet_topology_destroy(topology);
	subnet_manager_enable(fixture->subnet, has_manager);
	subnet_advance(fixture->subnet, fixture->now_ns);
}

static inline void fixture_done(struct fixture *fixture)
{
	subnet_destroy(fixture->subnet);
}

static inline struct subnet_port_view fixture_port(
	const struct fixture *fixture, uint32_t node, uint32_t port)
{
	struct subnet_port_view view;

	assert_true(subnet_port(fixture->subnet, node, port, &view));
	return view;
}

static inline uint16_t fixture_lid(const struct fixture *fixture, uint32_t node)
{
	struct subnet_node_view view;

	subnet_node(fixture->subnet, node, &view);
	return fixture_port(fixture, node, view.kind == TOPOLOGY_SWITCH ? 0 : 1).info->lid;
}

static inline void fixture_send_mad(
	struct fixture *fixture, uint32_t node, const struct mad_frame *to, const uint8_t *mad)
{
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	const uint32_t bytes = mad_frame_encode(to, mad, frame);

	subnet_send(fixture->subnet, node, 1, frame, bytes, fixture->now_ns);
	subnet_advance(fixture->subnet, fixture->now_ns);
}

/* The MAD of the last frame that was delivered, which went to a node. */
static inline const uint8_t *fixture_last_mad(
	const struct fixture *fixture, uint32_t node, struct mad_frame *ret_from)
{
	const struct delivered *last;
	struct mad_frame from;
	struct ib_frame headers;
	const uint8_t *mad;

	assert_true(fixture->delivered_count > 0);
	last = &fixture->delivered[(fixture->delivered_count - 1) % DELIVERED_MAX];
	assert_int_equal(last->node, node);
	assert_true(ib_icrc_verify(last->frame, last->bytes));
	assert_true(ib_frame_decode(&headers, last->frame, last->bytes));
	assert_true(mad_frame_decode(&from, &headers, last->frame, last->bytes, &mad));
	if (ret_from)
		*ret_from = from;
	return mad;
}

/* An SMP with a directed route: the output ports of each hop, ended by 0. */
struct smp_request {
	uint8_t method;
	uint16_t attribute_id;
	uint32_t modifier;
	uint64_t m_key;
	uint8_t path[8];
	uint8_t data[SMP_DATA_BYTES];
};

/*
 * Send it from h1. Returns the response's MAD, or NULL when there is none.
 */
static inline const uint8_t *fixture_smp(struct fixture *fixture, const struct smp_request *request)
{
	static const struct mad_frame frame = {.dlid = LID_PERMISSIVE,
		.slid = LID_PERMISSIVE,
		.vl = LRH_VL_MANAGEMENT,
		.pkey = 0xffff};
	const uint32_t before = fixture->delivered_count;
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_DIRECTED,
		.class_version = 1,
		.method = request->method,
		.class_specific = (uint16_t)strlen((const char *)request->path),
		.attribute_id = request->attribute_id,
		.attribute_modifier = request->modifier,
		.transaction_id = before + 1,
	};
	uint8_t mad[MAD_BYTES] = {0};

	mad_header_encode(&header, mad);
	put_be64(mad + SMP_M_KEY, request->m_key);
	put_be16(mad + SMP_DR_SLID, LID_PERMISSIVE);
	put_be16(mad + SMP_DR_DLID, LID_PERMISSIVE);
	memcpy(mad + SMP_DATA, request->data, SMP_DATA_BYTES);
	memcpy(mad + SMP_INITIAL_PATH + 1, request->path, sizeof(request->path));
	fixture_send_mad(fixture, H1, &frame, mad);
	return fixture->delivered_count > before ? fixture_last_mad(fixture, H1, NULL) : NULL;
}

static inline uint16_t smp_status(const uint8_t *mad)
{
	assert_non_null(mad);
	return get_be16(mad + 4) & 0x7fff;
}

#endif

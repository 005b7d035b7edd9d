/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ports of the MAD layer whose MADs cross a link of the test: in order, or with losses and
 * another order. Time is virtual. A test program includes this in its one source.
 */
#ifndef URNIC_TESTS_SUPPORT_MAD_LINK_H
#define URNIC_TESTS_SUPPORT_MAD_LINK_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mad/mad_layer.h"
#include "support/sim_random.h"
#include "wire/bytes.h"
#include "wire/infiniband/rmpp.h"

#define MS UINT64_C(1000000)

enum {
	QUEUE_MAX = 4096,
	DELIVERIES_MAX = 16,
	VENDOR_CLASS = 0x32,
	TIMEOUT_MS = 100,
};

/* A MAD on the link. */
struct crossing {
	uint32_t to; /* index of the port */
	uint32_t qpn;
	struct mad_address from;
	uint8_t mad[MAD_BYTES];
};

struct delivery {
	struct mad_address peer;
	int status;
	uint32_t count;
	uint8_t *bytes;
};

/* The context of an agent: what it has got. */
struct inbox {
	uint32_t count;
	struct delivery deliveries[DELIVERIES_MAX];
};

static struct {
	struct mad_layer *layer;
	struct mad_port *ports[2];
	uint64_t now_ns;
	struct crossing *queue; /* QUEUE_MAX */
	uint32_t queued;
	uint32_t crossed; /* MADs that were sent, since the test began */
	struct sim_random random;
	uint32_t loss_percent;
	bool is_shuffled;
	bool is_cut;
} link_;

static void link_transmit(
	void *context, uint32_t own_qpn, const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	uint32_t from = context == &link_.ports[1];
	struct crossing *crossing;

	link_.crossed++;
	if (link_.is_cut ||
		(link_.loss_percent && sim_random_below(&link_.random, 100) < link_.loss_percent))
		return;
	assert_true(link_.queued < QUEUE_MAX);
	crossing = &link_.queue[link_.queued++];
	*crossing = (struct crossing){.to = to->lid - 1, .qpn = to->qpn, .from = *to};
	crossing->from.lid = (uint16_t)(from + 1);
	crossing->from.qpn = own_qpn;
	memcpy(crossing->mad, mad, MAD_BYTES);
}

static void inbox_deliver(void *context, const struct mad_address *peer, int status,
	const uint8_t *bytes, uint32_t count)
{
	struct inbox *inbox = context;
	struct delivery *delivery = &inbox->deliveries[inbox->count++];

	assert_true(inbox->count <= DELIVERIES_MAX);
	*delivery = (struct delivery){
		.peer = *peer, .status = status, .count = count, .bytes = malloc(count)};
	memcpy(delivery->bytes, bytes, count);
}

static void inbox_empty(struct inbox *inbox)
{
	for (uint32_t i = 0; i < inbox->count; i++)
		free(inbox->deliveries[i].bytes);
	inbox->count = 0;
}

static int link_begin(void **state)
{
	static const struct mad_calls calls = {.transmit = link_transmit, .deliver = inbox_deliver};

	(void)state;
	memset(&link_, 0, sizeof(link_));
	link_.now_ns = MS;
	link_.random = (struct sim_random){1};
	link_.queue = calloc(QUEUE_MAX, sizeof(*link_.queue));
	if (mad_layer_create(&calls, &link_.layer))
		return -1;
	for (uint32_t i = 0; i < 2; i++)
		if (mad_port_create(link_.layer, &link_.ports[i], &link_.ports[i]))
			return -1;
	return 0;
}

static int link_end(void **state)
{
	(void)state;
	mad_port_destroy(link_.ports[0]);
	mad_port_destroy(link_.ports[1]);
	/* Every timer has gone with its port. */
	assert_int_equal(mad_layer_deadline_ns(link_.layer), UINT64_MAX);
	mad_layer_destroy(link_.layer);
	free(link_.queue);
	return 0;
}

/* Deliver the MADs that are on the link, and those that these cause. */
static void link_run(void)
{
	while (link_.queued > 0) {
		uint32_t index = link_.is_shuffled
			? (uint32_t)sim_random_below(&link_.random, link_.queued)
			: 0;
		struct crossing crossing = link_.queue[index];

		link_.queued--;
		memmove(&link_.queue[index], &link_.queue[index + 1],
			(link_.queued - index) * sizeof(crossing));
		if (crossing.to < 2)
			mad_port_receive(link_.ports[crossing.to], crossing.qpn, &crossing.from,
				crossing.mad, link_.now_ns);
	}
}

/* Run until no timer is left, or `until_ns`. */
static void link_run_until(uint64_t until_ns)
{
	link_run();
	while (mad_layer_deadline_ns(link_.layer) <= until_ns) {
		link_.now_ns = mad_layer_deadline_ns(link_.layer);
		mad_layer_advance(link_.layer, link_.now_ns);
		link_run();
	}
	link_.now_ns = until_ns;
}

static struct mad_agent *agent_make(
	uint32_t port, const struct mad_agent_spec *spec, struct inbox *inbox)
{
	struct mad_agent *agent;

	assert_int_equal(mad_agent_add(link_.ports[port], spec, inbox, &agent), 0);
	return agent;
}

static const struct mad_agent_spec sa_client = {
	.management_class = MAD_CLASS_SUBN_ADM, .class_version = 2, .has_rmpp = true, .qpn = 1};
static const struct mad_agent_spec sa_server = {.management_class = MAD_CLASS_SUBN_ADM,
	.class_version = 2,
	.has_rmpp = true,
	.qpn = 1,
	.method_mask = {
		1u << MAD_METHOD_GET | 1u << MAD_METHOD_GET_TABLE | 1u << MAD_METHOD_GET_MULTI}};

static void mad_fill(uint8_t *mad, uint8_t management_class, uint8_t method, uint64_t tid)
{
	const struct mad_header header = {.base_version = 1,
		.management_class = management_class,
		.class_version = management_class == MAD_CLASS_SUBN_ADM ? 2 : 1,
		.method = method,
		.attribute_id = 0x11,
		.transaction_id = tid};

	mad_header_encode(&header, mad);
}

static int send_to(struct mad_agent *agent, uint16_t lid, const uint8_t *bytes, uint32_t count,
	uint32_t timeout_ms, uint32_t retries)
{
	const struct mad_address to = {.lid = lid, .qpn = 1, .qkey = GSI_QKEY};

	return mad_agent_send(agent, &to, bytes, count, timeout_ms, retries, link_.now_ns);
}

#define MAD_TEST(name) cmocka_unit_test_setup_teardown(name, link_begin, link_end)

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration between two hosts: over IPv6 first, with IPv4 as the alternate path. IPv6 is cut
 * in the middle of traffic, which goes on over IPv4; later it goes back on request.
 *
 * With `-w ports`, over InfiniBand: from port 1 to port 1, with port 2 to port 2 as the alternate
 * path. The client cuts and mends the first one by the commands of MIGRATE_CUT and MIGRATE_MEND.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

enum {
	MESSAGE_BYTES = 4096,
	DEPTH = 16,
	ROUNDS = 50,
	ROUTE_NOTICED_US = 150000, /* a way that has just been used is trusted for a moment */
	WR_SEND = 1 << 20,
	ALTERNATE_GID_INDEX = 0,
	ALTERNATE_PORT = 2,
};

struct migrate {
	struct peer *peer;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *memory;
};

static void receive_post(struct migrate *migrate, uint64_t number)
{
	peer_post_recv(migrate->qp, number, migrate->memory,
		(size_t)(number % DEPTH) * MESSAGE_BYTES, MESSAGE_BYTES);
}

static void send_one(struct migrate *migrate)
{
	struct ibv_sge sge =
		peer_sge(migrate->memory, (size_t)DEPTH * MESSAGE_BYTES, MESSAGE_BYTES);
	struct ibv_send_wr wr = {
		.wr_id = WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	peer_post_send(migrate->qp, &wr);
}

/* `rounds` messages there and as many back. */
static void ping_pong(struct migrate *migrate, uint32_t rounds)
{
	bool is_server = peer_is_server(migrate->peer);
	uint32_t sent = 0;
	uint32_t received = 0;

	if (!is_server)
		send_one(migrate);
	while (sent < rounds || received < rounds) {
		struct ibv_wc wc = peer_success(migrate->cq);

		if (wc.wr_id == WR_SEND) {
			sent++;
			continue;
		}
		received++;
		receive_post(migrate, wc.wr_id);
		if (is_server || received < rounds)
			send_one(migrate);
	}
	peer_barrier(migrate->peer);
}

static struct ibv_qp_attr query(struct migrate *migrate)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(migrate->qp, &attr, IBV_QP_AV | IBV_QP_PATH_MIG_STATE, &init),
		"no attributes");
	return attr;
}

static void modify(struct migrate *migrate, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(migrate->qp, attr, mask);

	CHECK(!error, "mask %x: %s", mask, strerror(error));
}

static bool is_between_ports(const struct migrate *migrate)
{
	const char *what = migrate->peer->options.what;

	return what && strcmp(what, "ports") == 0;
}

static void alternate_port_load(struct migrate *migrate)
{
	struct ibv_qp_attr attr = {
		.alt_ah_attr = {.port_num = ALTERNATE_PORT},
		.alt_port_num = ALTERNATE_PORT,
		.alt_timeout = migrate->peer->options.timeout,
	};
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(migrate->peer->context, ALTERNATE_PORT, &port), "no second port");
	peer_exchange(migrate->peer, &port.lid, &attr.alt_ah_attr.dlid, sizeof(port.lid));
	modify(migrate, &attr, IBV_QP_ALT_PATH);
}

static void alternate_load(struct migrate *migrate)
{
	struct ibv_qp_attr attr = {
		.alt_ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
		.alt_port_num = 1,
		.alt_timeout = migrate->peer->options.timeout,
	};
	union ibv_gid ours;

	CHECK(!ibv_query_gid(migrate->peer->context, 1, ALTERNATE_GID_INDEX, &ours), "no GID");
	attr.alt_ah_attr.grh.sgid_index = ALTERNATE_GID_INDEX;
	peer_exchange(migrate->peer, &ours, &attr.alt_ah_attr.grh.dgid, sizeof(ours));
	modify(migrate, &attr, IBV_QP_ALT_PATH);
}

static void arm(struct migrate *migrate)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM};

	modify(migrate, &attr, IBV_QP_PATH_MIG_STATE);
	peer_barrier(migrate->peer);
	ping_pong(migrate, 2);
	CHECK(query(migrate).path_mig_state == IBV_MIG_ARMED, "not armed after a message each way");
}

static struct ibv_async_event event_take(struct migrate *migrate)
{
	struct pollfd fd = {.fd = migrate->peer->context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	CHECK(poll(&fd, 1, PEER_TIMEOUT_S * 1000) == 1, "no event");
	CHECK(!ibv_get_async_event(migrate->peer->context, &event), "none to get");
	ibv_ack_async_event(&event);
	return event;
}

static bool is_of_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE ||
		type == IBV_EVENT_CLIENT_REREGISTER || type == IBV_EVENT_SM_CHANGE;
}

/* The connection is on its first path again, or on the alternate one. */
static void expect_migrated(struct migrate *migrate, bool is_alternate)
{
	struct ibv_async_event event;
	struct ibv_ah_attr path;

	do
		event = event_take(migrate);
	while (is_between_ports(migrate) && is_of_port(event.event_type));
	CHECK(event.event_type == IBV_EVENT_PATH_MIG && event.element.qp == migrate->qp, "event %d",
		event.event_type);
	CHECK(query(migrate).path_mig_state == IBV_MIG_MIGRATED, "not migrated");
	path = query(migrate).ah_attr;
	if (is_between_ports(migrate))
		CHECK(path.port_num == (is_alternate ? ALTERNATE_PORT : 1), "port %u",
			path.port_num);
	else
		CHECK(path.grh.sgid_index == (is_alternate ? ALTERNATE_GID_INDEX
							   : migrate->peer->options.gid_index),
			"GID %u", path.grh.sgid_index);
	peer_barrier(migrate->peer);
}

/* Nothing goes to the other's IPv6 address from now on, or everything again. */
static void ipv6_cut(struct migrate *migrate, const char *what)
{
	char command[100];

	snprintf(command, sizeof(command), "ip -6 route %s blackhole fd00:99::%d/128", what,
		peer_is_server(migrate->peer) ? 2 : 1);
	CHECK(system(command) == 0, "%s fails", command);
	usleep(ROUTE_NOTICED_US);
	peer_barrier(migrate->peer);
}

static void port_cut(struct migrate *migrate, const char *variable)
{
	const char *command = getenv(variable);

	if (!peer_is_server(migrate->peer))
		CHECK(command && system(command) == 0, "%s fails", variable);
	peer_barrier(migrate->peer);
}

static void path_cut(struct migrate *migrate)
{
	if (is_between_ports(migrate))
		port_cut(migrate, "MIGRATE_CUT");
	else
		ipv6_cut(migrate, "add");
}

static void path_mend(struct migrate *migrate)
{
	if (is_between_ports(migrate))
		port_cut(migrate, "MIGRATE_MEND");
	else
		ipv6_cut(migrate, "del");
}

int main(int argc, char **argv)
{
	struct ibv_qp_attr back = {.path_mig_state = IBV_MIG_MIGRATED};
	struct peer_options options;
	struct migrate migrate = {0};
	struct peer peer;
	uint64_t start_ms;

	peer_parse(&options, argc, argv);
	peer_open(&peer, &options);
	peer_meet(&peer);
	migrate.peer = &peer;
	migrate.cq = peer_cq_create(&peer, 4 * DEPTH, NULL);
	migrate.qp = peer_qp_create(&peer, migrate.cq, DEPTH, 1, 0);
	migrate.memory = peer_memory(&peer, (size_t)(DEPTH + 1) * MESSAGE_BYTES);
	peer_qp_connect(&peer, migrate.qp, &peer_link_full);
	for (uint64_t i = 0; i < DEPTH; i++)
		receive_post(&migrate, i);
	if (is_between_ports(&migrate))
		alternate_port_load(&migrate);
	else
		alternate_load(&migrate);
	arm(&migrate);

	path_cut(&migrate);
	start_ms = peer_now_ms();
	ping_pong(&migrate, ROUNDS);
	printf("%llu ms with a path that is cut\n", (unsigned long long)(peer_now_ms() - start_ms));
	expect_migrated(&migrate, true);

	path_mend(&migrate);
	arm(&migrate);
	if (peer_is_server(&peer))
		modify(&migrate, &back, IBV_QP_PATH_MIG_STATE);
	ping_pong(&migrate, ROUNDS);
	expect_migrated(&migrate, false);
	ping_pong(&migrate, ROUNDS);

	CHECK(!ibv_destroy_qp(migrate.qp) && !ibv_destroy_cq(migrate.cq), "objects stay");
	peer_memory_free(migrate.memory);
	peer_close(&peer);
	return 0;
}

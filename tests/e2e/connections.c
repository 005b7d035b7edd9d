/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections by rdma_cm, one after the other and many at once: how long each step takes, and what is left over.
 *
 *   connections server ADDRESS
 *   connections client ADDRESS [ROUNDS [IN-A-ROW [AT-ONCE]]]
 *
 * Each connection has a completion queue and a queue pair of its own and carries one message. After each round both sides wait
 * until the connections' time wait is over and count their descriptors, resident memory, and NIC memory; the client fails when the
 * last round ends with more than the first did.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum {
	PORT = 7471,
	MESSAGE_BYTES = 64,
	DEPTH = 4,
	TIMEOUT_MS = 5000,
	SETTLE_MS = 3000, /* a time wait is 2.1 s */
	RESIDENT_SLACK = 512 << 10,
};

/* What a connection's private data say. */
enum wish { WISH_CONNECT, WISH_REPORT };

struct connection {
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

/* One region for all: slots of regions are taken in turn, on purpose, which would look like a leak. */
static uint8_t memory[MESSAGE_BYTES];
static struct ibv_mr *mr;

/* What a process has. Plain, for private data. */
struct holdings {
	uint32_t descriptors;
	uint32_t resident_kib;
	uint32_t nic_kib; /* of pages in use */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- what there is --- */

static struct holdings holdings_count(void)
{
	DIR *directory = opendir("/proc/self/fd");
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long total, resident;
	struct holdings have = {0};
	struct dirent *entry;

	CHECK(directory && file, "no /proc");
	while ((entry = readdir(directory))) {
		char name[PATH_MAX];
		struct stat status;
		ssize_t bytes;

		if (entry->d_name[0] == '.')
			continue;
		have.descriptors++;
		bytes = readlinkat(dirfd(directory), entry->d_name, name, sizeof(name) - 1);
		name[bytes > 0 ? bytes : 0] = '\0';
		if (strstr(name, "memfd:") &&
			fstatat(dirfd(directory), entry->d_name, &status, 0) == 0)
			have.nic_kib += (uint32_t)status.st_blocks / 2;
	}
	closedir(directory);
	CHECK(fscanf(file, "%llu %llu", &total, &resident) == 2, "no /proc/self/statm");
	fclose(file);
	have.resident_kib = (uint32_t)(resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024);
	return have;
}

/* --- one connection --- */

static void connection_equip(struct connection *connection, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	connection->id = id;
	id->context = connection;
	connection->channel = ibv_create_comp_channel(id->verbs);
	CHECK(connection->channel, "no completion channel: %m");
	connection->cq = ibv_create_cq(id->verbs, 2 * DEPTH, NULL, connection->channel, 0);
	CHECK(connection->cq, "no completion queue: %m");
	if (!mr)
		mr = ibv_reg_mr(id->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "no region: %m");
	init.send_cq = connection->cq;
	init.recv_cq = connection->cq;
	CHECK(rdma_create_qp(id, NULL, &init) == 0, "no queue pair: %m");
	sge = (struct ibv_sge){(uintptr_t)memory, MESSAGE_BYTES, mr->lkey};
	CHECK(ibv_post_recv(id->qp, &wr, &bad) == 0, "no receive request");
}

static void connection_destroy(struct connection *connection)
{
	rdma_destroy_qp(connection->id);
	CHECK(ibv_destroy_cq(connection->cq) == 0, "completion queue in use");
	CHECK(ibv_destroy_comp_channel(connection->channel) == 0, "completion channel in use");
	CHECK(rdma_destroy_id(connection->id) == 0, "identifier: %m");
}

static void message_send(struct connection *connection)
{
	struct ibv_sge sge = {(uintptr_t)memory, MESSAGE_BYTES, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	CHECK(ibv_post_send(connection->id->qp, &wr, &bad) == 0, "no send request");
	while (ibv_poll_cq(connection->cq, 1, &wc) == 0)
		;
	CHECK(wc.status == IBV_WC_SUCCESS, "message: %s", ibv_wc_status_str(wc.status));
}

/* --- the server --- */

static void serve_request(struct rdma_cm_event *event, struct connection *connection)
{
	const uint8_t *wish = event->param.conn.private_data;
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct holdings have;

	if (wish && *wish == WISH_REPORT) {
		have = holdings_count();
		CHECK(rdma_reject(event->id, &have, sizeof(have)) == 0, "reject: %m");
		return;
	}
	connection_equip(connection, event->id);
	CHECK(rdma_accept(event->id, &param) == 0, "accept: %m");
}

static void serve(struct sockaddr *address)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;

	CHECK(channel, "no event channel: %m");
	CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "no identifier: %m");
	CHECK(rdma_bind_addr(listener, address) == 0, "bind: %m");
	CHECK(rdma_listen(listener, 0) == 0, "listen: %m");
	while (rdma_get_cm_event(channel, &event) == 0) {
		struct rdma_cm_id *id = event->id;
		struct connection *connection = id->context;
		bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		bool is_over = event->event == RDMA_CM_EVENT_DISCONNECTED;

		if (is_request) {
			connection = calloc(1, sizeof(*connection));
			CHECK(connection, "no memory");
			serve_request(event, connection);
		}
		rdma_ack_cm_event(event);
		if (is_request && !connection->id) {
			rdma_destroy_id(id);
			free(connection);
		} else if (is_over) {
			rdma_disconnect(id);
			connection_destroy(connection);
			free(connection);
		}
	}
}

/* --- the client --- */

/* The steps that are timed. */
#define STEPS(STEP)        \
	STEP(create_id)    \
	STEP(resolve_addr) \
	STEP(resolve_route) STEP(create_qp) STEP(connect) STEP(disconnect) STEP(destroy)
enum step {
#define STEP(name) STEP_##name,
	STEPS(STEP)
#undef STEP
		STEP_COUNT
};

static uint64_t spent_ns[STEP_COUNT];
static uint64_t step_began_ns;

static void step_begin(void)
{
	step_began_ns = now_ns();
}

static void step_end(enum step step)
{
	uint64_t now = now_ns();

	spent_ns[step] += now - step_began_ns;
	step_began_ns = now;
}

/* Wait for an event of this kind on any identifier. */
static void await(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	do {
		CHECK(rdma_get_cm_event(channel, &event) == 0, "no event: %m");
		CHECK(event->event == wanted || event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT,
			"%s %d instead of %s", rdma_event_str(event->event), event->status,
			rdma_event_str(wanted));
		wanted = event->event == wanted ? (enum rdma_cm_event_type) - 1 : wanted;
		rdma_ack_cm_event(event);
	} while (wanted != (enum rdma_cm_event_type) - 1);
}

static void await_each(
	struct rdma_event_channel *channel, enum rdma_cm_event_type wanted, unsigned count)
{
	while (count--)
		await(channel, wanted);
}

/* `count` connections, each step for all of them before the next. */
static void connect_all(struct rdma_event_channel *channel, struct sockaddr *address,
	struct connection *connections, unsigned count)
{
	const uint8_t wish = WISH_CONNECT;
	struct rdma_conn_param param = {.private_data = &wish,
		.private_data_len = sizeof(wish),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7};

	step_begin();
	for (unsigned i = 0; i < count; i++)
		CHECK(rdma_create_id(channel, &connections[i].id, NULL, RDMA_PS_TCP) == 0,
			"no identifier: %m");
	step_end(STEP_create_id);
	for (unsigned i = 0; i < count; i++)
		CHECK(rdma_resolve_addr(connections[i].id, NULL, address, TIMEOUT_MS) == 0,
			"resolve_addr: %m");
	await_each(channel, RDMA_CM_EVENT_ADDR_RESOLVED, count);
	step_end(STEP_resolve_addr);
	for (unsigned i = 0; i < count; i++)
		CHECK(rdma_resolve_route(connections[i].id, TIMEOUT_MS) == 0, "resolve_route: %m");
	await_each(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, count);
	step_end(STEP_resolve_route);
	for (unsigned i = 0; i < count; i++)
		connection_equip(&connections[i], connections[i].id);
	step_end(STEP_create_qp);
	for (unsigned i = 0; i < count; i++)
		CHECK(rdma_connect(connections[i].id, &param) == 0, "connect: %m");
	await_each(channel, RDMA_CM_EVENT_ESTABLISHED, count);
	step_end(STEP_connect);
	for (unsigned i = 0; i < count; i++)
		message_send(&connections[i]);
	step_begin();
	for (unsigned i = 0; i < count; i++)
		CHECK(rdma_disconnect(connections[i].id) == 0, "disconnect: %m");
	await_each(channel, RDMA_CM_EVENT_DISCONNECTED, count);
	step_end(STEP_disconnect);
	for (unsigned i = 0; i < count; i++)
		connection_destroy(&connections[i]);
	step_end(STEP_destroy);
}

static void steps_print(const char *what, unsigned count)
{
	static const char *const names[] = {
#define STEP(name) #name,
		STEPS(STEP)
#undef STEP
	};
	uint64_t sum_ns = 0;

	for (unsigned i = 0; i < STEP_COUNT; i++)
		sum_ns += spent_ns[i];
	printf("%u %s: %.1f us each, %.0f per second;", count, what, (double)sum_ns / 1e3 / count,
		1e9 * count / (double)sum_ns);
	for (unsigned i = 0; i < STEP_COUNT; i++)
		printf(" %s %.1f", names[i], (double)spent_ns[i] / 1e3 / count);
	printf("\n");
	memset(spent_ns, 0, sizeof(spent_ns));
}

/* The server's report comes with its refusal. */
static struct holdings peer_holdings(struct rdma_event_channel *channel, struct sockaddr *address)
{
	const uint8_t wish = WISH_REPORT;
	struct rdma_conn_param param = {
		.private_data = &wish, .private_data_len = sizeof(wish), .qp_num = 1};
	struct rdma_cm_event *event;
	struct holdings have;
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "no identifier: %m");
	CHECK(rdma_resolve_addr(id, NULL, address, TIMEOUT_MS) == 0, "resolve_addr: %m");
	await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, TIMEOUT_MS) == 0, "resolve_route: %m");
	await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(rdma_connect(id, &param) == 0, "connect: %m");
	CHECK(rdma_get_cm_event(channel, &event) == 0, "no event: %m");
	CHECK(event->event == RDMA_CM_EVENT_REJECTED &&
			event->param.conn.private_data_len >= sizeof(have),
		"%s instead of a report", rdma_event_str(event->event));
	memcpy(&have, event->param.conn.private_data, sizeof(have));
	rdma_ack_cm_event(event);
	rdma_destroy_id(id);
	return have;
}

static void holdings_print(const char *whose, const struct holdings *have)
{
	printf("%s: %u descriptors, %u KiB resident, %u KiB of NIC memory\n", whose,
		have->descriptors, have->resident_kib, have->nic_kib);
}

static bool has_grown(const struct holdings *first, const struct holdings *last)
{
	return last->descriptors > first->descriptors || last->nic_kib > first->nic_kib ||
		last->resident_kib > first->resident_kib + RESIDENT_SLACK / 1024;
}

static void run_client(
	struct sockaddr *address, unsigned rounds, unsigned in_a_row, unsigned at_once)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct connection *connections = calloc(at_once + 1, sizeof(*connections));
	struct holdings first[2] = {{0}}, last[2] = {{0}};

	CHECK(channel, "no event channel: %m");
	CHECK(connections, "no memory");
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < in_a_row; i++)
			connect_all(channel, address, connections, 1);
		if (in_a_row)
			steps_print("in a row", in_a_row);
		if (at_once) {
			connect_all(channel, address, connections, at_once);
			steps_print("at once", at_once);
		}
		peer_sleep_ms(SETTLE_MS);
		last[0] = holdings_count();
		last[1] = peer_holdings(channel, address);
		holdings_print("client", &last[0]);
		holdings_print("server", &last[1]);
		if (round == 0)
			memcpy(first, last, sizeof(first));
	}
	rdma_destroy_event_channel(channel);
	free(connections);
	CHECK(!has_grown(&first[0], &last[0]), "something is left over at the client");
	CHECK(!has_grown(&first[1], &last[1]), "something is left over at the server");
}

static unsigned argument(int argc, char **argv, int index, unsigned otherwise)
{
	return index < argc ? (unsigned)strtoul(argv[index], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(argc >= 3 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1,
		"usage: connections server|client ADDRESS [ROUNDS [IN-A-ROW [AT-ONCE]]]");
	if (strcmp(argv[1], "server") == 0)
		serve((struct sockaddr *)&address);
	else
		run_client((struct sockaddr *)&address, argument(argc, argv, 3, 2),
			argument(argc, argv, 4, 1000), argument(argc, argv, 5, 200));
	return 0;
}

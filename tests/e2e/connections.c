/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections by rdma_cm, one after the other and many at once: the duration of each step, and
 * leaks.
 *
 *   connections server ADDRESS
 *   connections client ADDRESS [ROUNDS [IN-A-ROW [AT-ONCE]]]
 *
 * Each connection has a completion queue and a queue pair of its own and carries one message. After
 * each round both sides wait until the connections' time wait is over, and count their resources. A
 * leak per connection makes each count grow in every round. So the program runs at least two
 * rounds, and goes on until no count at either side has grown in a round. After ROUNDS rounds the
 * client fails. With a single round it only prints the counts.
 *
 * Resident memory is not counted, because it depends on the largest number of connections in time
 * wait, and so on the machine's speed. The number of allocated bytes is exact if malloc() has no
 * caches per thread and no arenas beside the heap (connections.sh). Then a leak of 16 bytes per
 * round is detected.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
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
	TIMEOUT_MS = 60000,
	SETTLE_MS = 3000, /* a time wait is 2.1 s */
};

/* What a connection's private data say. */
enum wish { WISH_CONNECT, WISH_REPORT };

struct connection {
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

/*
 * One region for all connections: the NIC assigns the slots of regions in rotation, which would
 * look like a leak.
 */
static uint8_t memory[MESSAGE_BYTES];
static struct ibv_mr *mr;

/* What a process holds. */
enum holding {
	HELD_DESCRIPTORS,
	HELD_HEAP_BYTES, /* allocated and not freed */
	HELD_MAPPED_KIB, /* the address space but the heap */
	HELD_NIC_KIB, /* pages in use of NIC memory */
	HELD_COUNT
};
static const char *const holding_names[HELD_COUNT] = {
	"descriptors", "bytes allocated", "KiB mapped", "KiB of NIC memory"};

/* Plain, for private data. */
struct holdings {
	uint32_t held[HELD_COUNT];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- what there is --- */

static uint32_t descriptors_count(uint32_t *ret_nic_kib)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	uint32_t count = 0;

	CHECK(directory, "no /proc/self/fd");
	*ret_nic_kib = 0;
	while ((entry = readdir(directory))) {
		char name[PATH_MAX];
		struct stat status;
		ssize_t bytes;

		if (entry->d_name[0] == '.')
			continue;
		count++;
		bytes = readlinkat(dirfd(directory), entry->d_name, name, sizeof(name) - 1);
		name[bytes > 0 ? bytes : 0] = '\0';
		if (strstr(name, "memfd:") &&
			fstatat(dirfd(directory), entry->d_name, &status, 0) == 0)
			*ret_nic_kib += (uint32_t)status.st_blocks / 2;
	}
	closedir(directory);
	return count;
}

static struct holdings holdings_count(void)
{
	struct holdings have;
	struct mallinfo2 heap;
	size_t mapped_pages;
	FILE *file;

	have.held[HELD_DESCRIPTORS] = descriptors_count(&have.held[HELD_NIC_KIB]);
	heap = mallinfo2();
	have.held[HELD_HEAP_BYTES] = (uint32_t)(heap.uordblks + heap.hblkhd);
	file = fopen("/proc/self/statm", "re");
	CHECK(file && fscanf(file, "%zu", &mapped_pages) == 1, "no /proc/self/statm");
	fclose(file);
	have.held[HELD_MAPPED_KIB] = (uint32_t)((mapped_pages * (size_t)sysconf(_SC_PAGESIZE) -
							heap.arena - heap.hblkhd) /
		1024);
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

/* The two sides, and which of their counts have once not grown in a round. */
struct account {
	struct holdings last[2];
	bool is_settled[2][HELD_COUNT];
};
static const char *const side_names[2] = {"client", "server"};

static void account_round(struct account *account, const struct holdings *now, bool is_first)
{
	for (unsigned side = 0; side < 2; side++) {
		printf("%s:", side_names[side]);
		for (unsigned i = 0; i < HELD_COUNT; i++) {
			printf(" %u %s%s", now[side].held[i], holding_names[i],
				i < HELD_COUNT - 1 ? "," : "\n");
			if (!is_first && now[side].held[i] <= account->last[side].held[i])
				account->is_settled[side][i] = true;
		}
		account->last[side] = now[side];
	}
}

/* What has grown in each round; NULL: nothing. */
static const char *account_leak(const struct account *account, const char **ret_side)
{
	for (unsigned side = 0; side < 2; side++)
		for (unsigned i = 0; i < HELD_COUNT; i++)
			if (!account->is_settled[side][i]) {
				*ret_side = side_names[side];
				return holding_names[i];
			}
	return NULL;
}

static void run_client(
	struct sockaddr *address, unsigned rounds, unsigned in_a_row, unsigned at_once)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct connection *connections = calloc(at_once + 1, sizeof(*connections));
	struct account account = {0};
	const char *leak = "", *side = "";

	CHECK(channel, "no event channel: %m");
	CHECK(connections, "no memory");
	for (unsigned round = 0; round < rounds && leak; round++) {
		struct holdings now[2];

		for (unsigned i = 0; i < in_a_row; i++)
			connect_all(channel, address, connections, 1);
		if (in_a_row)
			steps_print("in a row", in_a_row);
		if (at_once) {
			connect_all(channel, address, connections, at_once);
			steps_print("at once", at_once);
		}
		peer_sleep_ms(SETTLE_MS);
		now[0] = holdings_count();
		now[1] = peer_holdings(channel, address);
		account_round(&account, now, round == 0);
		leak = account_leak(&account, &side);
	}
	rdma_destroy_event_channel(channel);
	free(connections);
	CHECK(!leak || rounds == 1, "the %s has more %s after each of %u rounds", side, leak,
		rounds);
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
		run_client((struct sockaddr *)&address, argument(argc, argv, 3, 6),
			argument(argc, argv, 4, 1000), argument(argc, argv, 5, 200));
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send a target of NVMe over RDMA what no host may send, and say what comes back.
 *
 *     nvmf-capsules ADDRESS PORT NQN [CASE...]
 *
 * The cases that are named are left out.
 *
 * Each case has a connection of its own: a connection request, or a capsule on the Admin queue or
 * on an I/O queue. Prints one line per case: its name, a tab, and the class of the answer:
 *
 *     REJ N        the connection is rejected with this status of NVMe/RDMA
 *     status XXX   a response with that status code type and code; "ends" if the connection ends
 *     success      a response of success, or a connection
 *     ends         the connection ends without a response
 *     silence      none of these, for QUIET_MS
 *     not sent     the case was left out
 *
 * The namespace has blocks of 4,096 bytes. The formats are those of NVMe over Fabrics 1.1; no code
 * of urnic is used.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	BLOCK = 4096,
	RECEIVES = 32,
	CAPSULE_AT = RECEIVES * 16,
	DATA_AT = 65536,
	MEMORY_BYTES = DATA_AT + (1 << 20),
	RESOLVE_MS = 20000,
	CONNECT_MS = 60000,
	QUIET_MS = 10000,
	LINGER_MS = 400, /* after a response, for the end of its connection */
	SEND = RECEIVES, /* wr_id */
	FABRICS = 0x7f,
	KEYED = 0x40,
};

struct capsule {
	uint8_t bytes[64];
};

/* What a case changes of a right connection request and capsule. */
struct test_case {
	const char *name;
	enum { REQUEST, ADMIN, IO } queue;
	uint16_t recfmt;
	int hsqsize, hrqsize; /* -1: the right one */
	bool has_no_reads;
	enum ibv_wr_opcode send; /* 0, RDMA WRITE, stands for SEND */
	int send_bytes; /* 0: 64 */
	void (*make)(struct capsule *capsule);
};

struct host {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* remote READ and WRITE */
	struct ibv_mr *local; /* of the same memory, without them */
	uint8_t *memory;
	bool is_connected, is_over;
	int reject; /* -1: none */
	uint8_t cqe[16];
	unsigned responses;
};

static struct sockaddr_in target;
static const char *subnqn;
static uint16_t cntlid;
static struct host *current; /* whose keys make() uses; NULL between two cases */

static void put16(uint8_t *to, uint16_t value)
{
	value = htole16(value);
	memcpy(to, &value, 2);
}

static void put32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, 4);
}

static void put64(uint8_t *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, 8);
}

static uint16_t get16(const uint8_t *from)
{
	return (uint16_t)(from[0] | from[1] << 8);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- commands --- */

static struct capsule capsule_of(uint8_t opcode, uint32_t nsid, uint32_t length)
{
	struct capsule capsule = {{0}};
	uint8_t *sqe = capsule.bytes;

	sqe[0] = opcode;
	sqe[1] = 0x40;
	put16(sqe + 2, 1);
	put32(sqe + 4, nsid);
	put64(sqe + 24, (uintptr_t)current->memory + DATA_AT);
	put32(sqe + 32, length);
	put32(sqe + 35, current->mr->rkey);
	sqe[39] = KEYED;
	return capsule;
}

static struct capsule connect_of(uint16_t qid)
{
	struct capsule capsule = capsule_of(FABRICS, 1, 1024);
	uint8_t *data = current->memory + DATA_AT;

	put16(capsule.bytes + 42, qid);
	put16(capsule.bytes + 44, 31);
	memset(data, 0, 1024);
	data[0] = 1;
	put16(data + 16, qid ? cntlid : 0xffff);
	snprintf((char *)data + 256, 256, "%s", subnqn);
	snprintf((char *)data + 512, 256, "nqn.2026-01.org.example:capsules");
	return capsule;
}

static struct capsule property_of(uint8_t kind, uint32_t offset, uint32_t value)
{
	struct capsule capsule = capsule_of(FABRICS, kind, 0);

	put32(capsule.bytes + 44, offset);
	put32(capsule.bytes + 48, value);
	return capsule;
}

static struct capsule io_of(uint8_t opcode, uint32_t blocks, uint32_t length)
{
	struct capsule capsule = capsule_of(opcode, 1, length);

	put32(capsule.bytes + 48, blocks - 1);
	return capsule;
}

/* --- a connection --- */

static void receive_post(struct host *host, unsigned index)
{
	struct ibv_sge sge = {(uintptr_t)host->memory + index * 16, 16, host->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

	(void)ibv_post_recv(host->id->qp, &wr, &bad);
}

static void queue_pair_make(struct host *host)
{
	struct ibv_qp_init_attr attr = {.cap = {64, RECEIVES, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	host->pd = ibv_alloc_pd(host->id->verbs);
	host->cq = ibv_create_cq(host->id->verbs, 256, NULL, NULL, 0);
	host->memory = aligned_alloc(4096, MEMORY_BYTES);
	if (!host->pd || !host->cq || !host->memory)
		errx(1, "no resources");
	memset(host->memory, 0, MEMORY_BYTES);
	host->mr = ibv_reg_mr(host->pd, host->memory, MEMORY_BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	host->local = ibv_reg_mr(host->pd, host->memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
	attr.send_cq = attr.recv_cq = host->cq;
	if (!host->mr || !host->local || rdma_create_qp(host->id, host->pd, &attr))
		err(1, "no queue pair");
	for (unsigned i = 0; i < RECEIVES; i++)
		receive_post(host, i);
}

static void event_take(
	struct host *host, const struct rdma_cm_event *event, struct rdma_conn_param *param)
{
	const uint8_t *answer = event->param.conn.private_data;

	switch ((int)event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		queue_pair_make(host);
		if (rdma_resolve_route(host->id, RESOLVE_MS))
			err(1, "no route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (rdma_connect(host->id, param))
			err(1, "rdma_connect");
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		host->is_connected = true;
		break;
	case RDMA_CM_EVENT_REJECTED:
		host->is_over = true;
		host->reject = event->param.conn.private_data_len >= 4 ? get16(answer + 2) : 0;
		break;
	default:
		host->is_over = true;
		break;
	}
}

static void completion_take(struct host *host, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		host->is_over = true;
	} else if (wc->wr_id < RECEIVES) {
		memcpy(host->cqe, host->memory + wc->wr_id * 16, 16);
		host->responses++;
		receive_post(host, (unsigned)wc->wr_id);
	}
}

/* Until there is a connection, so many responses, or the end. False: the time is over. */
static bool host_wait(
	struct host *host, struct rdma_conn_param *param, unsigned responses, int timeout_ms)
{
	int64_t end_ms = now_ms() + timeout_ms;

	while (now_ms() < end_ms) {
		struct pollfd ready = {.fd = host->channel->fd, .events = POLLIN};
		struct rdma_cm_event *event;
		struct ibv_wc wc;

		if (poll(&ready, 1, 1) > 0 && rdma_get_cm_event(host->channel, &event) == 0) {
			event_take(host, event, param);
			rdma_ack_cm_event(event);
		}
		while (host->cq && ibv_poll_cq(host->cq, 1, &wc) == 1)
			completion_take(host, &wc);
		if (param ? host->is_connected : host->responses >= responses)
			return true;
		if (host->is_over)
			return true;
	}
	return false;
}

static void host_open(struct host *host, const struct test_case *row, uint16_t qid)
{
	uint8_t private_data[32] = {0};
	struct rdma_conn_param param = {.private_data = private_data,
		.private_data_len = sizeof(private_data),
		.responder_resources = row && row->has_no_reads ? 0 : 4,
		.retry_count = 7,
		.rnr_retry_count = 7};

	*host = (struct host){.reject = -1};
	put16(private_data, row ? row->recfmt : 0);
	put16(private_data + 2, qid);
	put16(private_data + 4, row && row->hrqsize >= 0 ? (uint16_t)row->hrqsize : 32);
	put16(private_data + 6, row && row->hsqsize >= 0 ? (uint16_t)row->hsqsize : 31);
	host->channel = rdma_create_event_channel();
	if (!host->channel || fcntl(host->channel->fd, F_SETFL, O_NONBLOCK) ||
		rdma_create_id(host->channel, &host->id, NULL, RDMA_PS_TCP) ||
		rdma_resolve_addr(host->id, NULL, (struct sockaddr *)&target, RESOLVE_MS))
		err(1, "no RDMA device reaches the target");
	current = host;
	if (!host_wait(host, &param, 0, CONNECT_MS))
		errx(1, "the target does not answer");
}

static void host_close(struct host *host)
{
	if (host->id->qp) {
		(void)rdma_disconnect(host->id);
		rdma_destroy_qp(host->id);
	}
	if (host->cq)
		(void)ibv_destroy_cq(host->cq);
	if (host->local)
		(void)ibv_dereg_mr(host->local);
	if (host->mr)
		(void)ibv_dereg_mr(host->mr);
	if (host->pd)
		(void)ibv_dealloc_pd(host->pd);
	free(host->memory);
	(void)rdma_destroy_id(host->id);
	rdma_destroy_event_channel(host->channel);
	current = NULL;
}

static void capsule_send(
	struct host *host, const struct capsule *capsule, const struct test_case *row)
{
	uint8_t *place = host->memory + CAPSULE_AT;
	struct ibv_sge sge = {(uintptr_t)place, 64, host->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	memcpy(place, capsule->bytes, 64);
	if (row && row->send)
		wr.opcode = row->send;
	if (row && row->send_bytes)
		sge.length = row->send_bytes < 0 ? 0 : (uint32_t)row->send_bytes;
	if (wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = 0x12345600;
	if (ibv_post_send(host->id->qp, &wr, &bad))
		errx(1, "ibv_post_send");
}

/* A command that must succeed; its result. */
static uint16_t command_run(struct host *host, struct capsule capsule)
{
	unsigned before = host->responses;

	capsule_send(host, &capsule, NULL);
	if (!host_wait(host, NULL, before + 1, CONNECT_MS) || host->responses == before ||
		get16(host->cqe + 14) >> 1)
		errx(1, "a right command fails: status %03x", get16(host->cqe + 14) >> 1 & 0x7ff);
	return get16(host->cqe);
}

static void host_enable(struct host *host)
{
	cntlid = command_run(host, connect_of(0));
	(void)command_run(host, property_of(0, 0x14, 6 << 16 | 4 << 20 | 1));
}

/* The class of what follows a capsule. */
static void answer_print(struct host *host, unsigned before)
{
	unsigned status;

	if (!host_wait(host, NULL, before + 1, QUIET_MS)) {
		puts("silence");
		return;
	}
	if (host->responses == before) {
		puts("ends");
		return;
	}
	status = get16(host->cqe + 14) >> 1 & 0x7ff;
	if (status)
		printf("status %03x", status);
	else
		printf("success");
	/* A connection that ends does so soon. */
	(void)host_wait(host, NULL, before + 2, LINGER_MS);
	puts(host->is_over ? ", ends" : "");
}

static void case_run(const struct test_case *row)
{
	struct host admin, io;
	struct host *host = &admin;
	struct capsule capsule;
	bool is_io = row->queue == IO;
	unsigned before;

	printf("%s\t", row->name);
	host_open(&admin, row, 0);
	if (row->queue == REQUEST) {
		if (admin.is_connected)
			puts("success");
		else if (admin.reject > 0)
			printf("REJ %d\n", admin.reject);
		else
			puts("ends");
		host_close(&admin);
		return;
	}
	if (is_io) {
		host_enable(&admin);
		host_open(&io, NULL, 1);
		host = &io;
		(void)command_run(&io, connect_of(1));
	}
	capsule = connect_of(0);
	if (row->make)
		row->make(&capsule);
	before = host->responses;
	capsule_send(host, &capsule, row);
	answer_print(host, before);
	fflush(stdout);
	if (is_io)
		host_close(&io);
	host_close(&admin);
}

/* --- the cases --- */

static void foreign_key(struct capsule *capsule)
{
	put32(capsule->bytes + 35, current->mr->rkey ^ 0x1000);
	capsule->bytes[39] = KEYED;
}

static void local_key(struct capsule *capsule)
{
	put32(capsule->bytes + 35, current->local->rkey);
	capsule->bytes[39] = KEYED;
}

static void beyond_region(struct capsule *capsule)
{
	put64(capsule->bytes + 24, (uintptr_t)current->memory + MEMORY_BYTES);
}

static void length_512(struct capsule *capsule)
{
	put16(capsule->bytes + 32, 512);
}

static void length_2048(struct capsule *capsule)
{
	put16(capsule->bytes + 32, 2048);
}

static void in_capsule(struct capsule *capsule)
{
	put64(capsule->bytes + 24, 0);
	put32(capsule->bytes + 32, 1024);
	put32(capsule->bytes + 36, 0);
	capsule->bytes[39] = 0x01;
}

static void transport_type(struct capsule *capsule)
{
	in_capsule(capsule);
	capsule->bytes[39] = 0x5a;
}

static void no_psdt(struct capsule *capsule)
{
	capsule->bytes[1] = 0;
}

static void property_get(struct capsule *capsule)
{
	*capsule = property_of(4, 8, 0);
}

static void identify(struct capsule *capsule)
{
	*capsule = capsule_of(0x06, 0, 4096);
	capsule->bytes[40] = 1;
}

static void read_right(struct capsule *capsule)
{
	*capsule = io_of(2, 1, BLOCK);
}

static void read_foreign(struct capsule *capsule)
{
	*capsule = io_of(2, 1, BLOCK);
	foreign_key(capsule);
}

static void read_local(struct capsule *capsule)
{
	*capsule = io_of(2, 1, BLOCK);
	local_key(capsule);
}

static void read_beyond(struct capsule *capsule)
{
	*capsule = io_of(2, 1, BLOCK);
	beyond_region(capsule);
}

static void read_more(struct capsule *capsule)
{
	*capsule = io_of(2, 2, BLOCK);
}

static void read_less(struct capsule *capsule)
{
	*capsule = io_of(2, 1, 2 * BLOCK);
}

static void read_none(struct capsule *capsule)
{
	*capsule = io_of(2, 1, 0);
}

static void write_foreign(struct capsule *capsule)
{
	*capsule = io_of(1, 1, BLOCK);
	foreign_key(capsule);
}

static void write_long(struct capsule *capsule)
{
	*capsule = io_of(1, 4095, 4095 * BLOCK);
}

static void write_in_capsule(struct capsule *capsule)
{
	*capsule = io_of(1, 1, BLOCK);
	in_capsule(capsule);
	put32(capsule->bytes + 32, BLOCK);
}

static void write_offset(struct capsule *capsule)
{
	write_in_capsule(capsule);
	put64(capsule->bytes + 24, UINT64_MAX - 1);
}

static void write_segment(struct capsule *capsule)
{
	write_in_capsule(capsule);
	capsule->bytes[39] = 0x31;
}

#define RIGHT .hsqsize = -1, .hrqsize = -1

static const struct test_case cases[] = {
	{"right request", REQUEST, RIGHT},
	{"record format 1", REQUEST, RIGHT, .recfmt = 1},
	{"HSQSIZE 0", REQUEST, .hsqsize = 0, .hrqsize = -1},
	{"HSQSIZE 65,535", REQUEST, .hsqsize = 65535, .hrqsize = -1},
	{"HRQSIZE 0", REQUEST, .hsqsize = -1, .hrqsize = 0},
	{"no RDMA READs", REQUEST, RIGHT, .has_no_reads = true},
	{"right Connect", ADMIN, RIGHT},
	{"SEND of 63 bytes", ADMIN, RIGHT, .send_bytes = 63},
	{"SEND of no bytes", ADMIN, RIGHT, .send_bytes = -1},
	{"SEND with immediate data", ADMIN, RIGHT, .send = IBV_WR_SEND_WITH_IMM},
	{"SEND with invalidation", ADMIN, RIGHT, .send = IBV_WR_SEND_WITH_INV},
	{"SEND of more than a capsule", ADMIN, RIGHT, .send_bytes = 32768},
	{"Connect with a foreign key", ADMIN, RIGHT, .make = foreign_key},
	{"Connect with a key without remote access", ADMIN, RIGHT, .make = local_key},
	{"Connect beyond its region", ADMIN, RIGHT, .make = beyond_region},
	{"Connect of 512 bytes", ADMIN, RIGHT, .make = length_512},
	{"Connect of 2,048 bytes", ADMIN, RIGHT, .make = length_2048},
	{"Connect in a capsule without data", ADMIN, RIGHT, .make = in_capsule},
	{"Connect with SGL type 5Ah", ADMIN, RIGHT, .make = transport_type},
	{"Connect without PSDT", ADMIN, RIGHT, .make = no_psdt},
	{"Property Get before Connect", ADMIN, RIGHT, .make = property_get},
	{"Identify before Connect", ADMIN, RIGHT, .make = identify},
	{"right read", IO, RIGHT, .make = read_right},
	{"read with a foreign key", IO, RIGHT, .make = read_foreign},
	{"read with a key without remote access", IO, RIGHT, .make = read_local},
	{"read beyond its region", IO, RIGHT, .make = read_beyond},
	{"read of more data than its buffer", IO, RIGHT, .make = read_more},
	{"read of less data than its buffer", IO, RIGHT, .make = read_less},
	{"read without buffer", IO, RIGHT, .make = read_none},
	{"write with a foreign key", IO, RIGHT, .make = write_foreign},
	{"write of 16 MiB", IO, RIGHT, .make = write_long},
	{"write in a capsule without data", IO, RIGHT, .make = write_in_capsule},
	{"write with an offset of 2^64 - 2", IO, RIGHT, .make = write_offset},
	{"write with a list of descriptors", IO, RIGHT, .make = write_segment},
};

static bool is_left_out(const char *name, char **names)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		errx(2, "usage: nvmf-capsules ADDRESS PORT NQN [CASE...]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	target.sin_family = AF_INET;
	target.sin_port = htons((uint16_t)atoi(argv[2]));
	if (inet_pton(AF_INET, argv[1], &target.sin_addr) != 1)
		errx(2, "%s is no address", argv[1]);
	subnqn = argv[3];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (is_left_out(cases[i].name, argv + 4))
			printf("%s\tnot sent\n", cases[i].name);
		else
			case_run(&cases[i]);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const struct peer_link peer_link_full = {
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
	.rd_atomic = 16,
	.dest_rd_atomic = 16,
};

void peer_fail(const char *file, int line, const char *condition, const char *format, ...)
{
	const char *name = strrchr(file, '/');
	va_list arguments;

	printf("failed: %s:%d: ", name ? name + 1 : file, line);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf(" (%s)\n", condition);
	exit(EXIT_FAILURE);
}

uint64_t peer_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void peer_sleep_ms(unsigned ms)
{
	const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

/* --- options ------------------------------------------------------------------------------ */

static uint32_t number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	CHECK(*text && !*end && value <= UINT32_MAX, "'%s' is not a number", text);
	return (uint32_t)value;
}

void peer_parse(struct peer_options *options, int argc, char **argv)
{
	int option;

	*options = (struct peer_options){
		.port = PEER_PORT, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	while ((option = getopt(argc, argv, "d:x:m:p:t:r:R:n:w:")) != -1) {
		switch (option) {
		case 'd':
			options->device = optarg;
			break;
		case 'x':
			options->gid_index = (uint8_t)number(optarg);
			break;
		case 'm':
			options->mtu_bytes = number(optarg);
			break;
		case 'p':
			options->port = (int)number(optarg);
			break;
		case 't':
			options->timeout = (uint8_t)number(optarg);
			break;
		case 'r':
			options->retry_cnt = (uint8_t)number(optarg);
			break;
		case 'R':
			options->rnr_retry = (uint8_t)number(optarg);
			break;
		case 'n':
			options->count = number(optarg);
			break;
		case 'w':
			options->what = optarg;
			break;
		default:
			exit(2);
		}
	}
	options->server = argv[optind];
}

/* --- the device --------------------------------------------------------------------------- */

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	CHECK(devices, "no list of devices: %s", strerror(errno));
	for (int i = 0; devices[i] && !context; i++)
		if (!name || !strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	ibv_free_device_list(devices);
	CHECK(context, "device %s does not open", name ? name : "");
	return context;
}

void peer_open(struct peer *peer, const struct peer_options *options)
{
	*peer = (struct peer){.options = *options, .socket = -1};
	alarm(6 * PEER_PATIENCE_S);
	peer->context = device_open(options->device);
	CHECK(!ibv_query_port(peer->context, 1, &peer->port), "no port");
	CHECK(!ibv_query_gid(peer->context, 1, options->gid_index, &peer->gid), "no GID %u",
		options->gid_index);
	peer->pd = ibv_alloc_pd(peer->context);
	CHECK(peer->pd, "no protection domain: %s", strerror(errno));
}

void peer_close(struct peer *peer)
{
	if (peer->socket >= 0)
		close(peer->socket);
	CHECK(!ibv_dealloc_pd(peer->pd), "something still uses the protection domain");
	CHECK(!ibv_close_device(peer->context), "the device does not close");
}

/* --- the TCP connection -------------------------------------------------------------------- */

static int listen_and_accept(int port)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)) && !listen(listener, 1),
		"TCP port %d: %s", port, strerror(errno));
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	return connection;
}

static int connect_to(const char *server, int port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	uint64_t until_ms = peer_now_ms() + (uint64_t)PEER_PATIENCE_S * 1000;
	struct addrinfo *address;
	char service[16];

	snprintf(service, sizeof(service), "%d", port);
	CHECK(!getaddrinfo(server, service, &hints, &address), "no address %s", server);
	for (;;) {
		int connection = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (!connect(connection, address->ai_addr, address->ai_addrlen)) {
			freeaddrinfo(address);
			return connection;
		}
		close(connection);
		CHECK(peer_now_ms() < until_ms, "no server at %s: %s", server, strerror(errno));
		peer_sleep_ms(20);
	}
}

void peer_meet(struct peer *peer)
{
	const struct timeval patience = {.tv_sec = PEER_PATIENCE_S};
	int on = 1;

	peer->socket = peer_is_server(peer) ? listen_and_accept(peer->options.port)
					    : connect_to(peer->options.server, peer->options.port);
	setsockopt(peer->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(peer->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

void peer_tell(struct peer *peer, const void *ours, size_t bytes)
{
	CHECK(send(peer->socket, ours, bytes, MSG_NOSIGNAL) == (ssize_t)bytes,
		"the other process is gone");
}

void peer_hear(struct peer *peer, void *theirs, size_t bytes)
{
	CHECK(recv(peer->socket, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes,
		"the other process is gone, or does not answer");
}

bool peer_has_told(struct peer *peer)
{
	char byte;

	return recv(peer->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) >= 0;
}

void peer_exchange(struct peer *peer, const void *ours, void *theirs, size_t bytes)
{
	peer_tell(peer, ours, bytes);
	peer_hear(peer, theirs, bytes);
}

void peer_barrier(struct peer *peer)
{
	char byte = 0;

	peer_exchange(peer, &byte, &byte, sizeof(byte));
}

/* --- queue pairs ---------------------------------------------------------------------------- */

struct ibv_cq *peer_cq_create(struct peer *peer, int entries, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(peer->context, entries, NULL, channel, 0);

	CHECK(cq, "no completion queue: %s", strerror(errno));
	return cq;
}

struct ibv_qp *peer_qp_create(struct peer *peer, struct ibv_cq *cq, uint32_t depth,
	uint32_t sge_count, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {depth, depth, sge_count, sge_count, inline_bytes},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(peer->pd, &init);

	CHECK(qp, "no queue pair: %s", strerror(errno));
	return qp;
}

static enum ibv_mtu mtu_of(uint32_t bytes)
{
	switch (bytes) {
	case 256:
		return IBV_MTU_256;
	case 512:
		return IBV_MTU_512;
	case 1024:
		return IBV_MTU_1024;
	case 2048:
		return IBV_MTU_2048;
	case 4096:
		return IBV_MTU_4096;
	default:
		CHECK(false, "no such MTU: %u", bytes);
	}
}

/* What a queue pair has to know of the other. */
struct address {
	uint32_t qpn;
	uint32_t psn;
	union ibv_gid gid;
	uint32_t mtu; /* enum ibv_mtu */
};

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(qp, attr, mask);

	CHECK(!error, "no transition to state %d: %s", attr->qp_state, strerror(error));
}

static void to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = (unsigned)access,
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void to_rtr(struct peer *peer, struct ibv_qp *qp, const struct address *ours,
	const struct address *theirs, uint8_t dest_rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)(ours->mtu < theirs->mtu ? ours->mtu : theirs->mtu),
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = dest_rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	attr.ah_attr.grh.dgid = theirs->gid;
	attr.ah_attr.grh.sgid_index = peer->options.gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	modify(qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static void to_rts(struct peer *peer, struct ibv_qp *qp, uint32_t psn, uint8_t rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = peer->options.timeout,
		.retry_cnt = peer->options.retry_cnt,
		.rnr_retry = peer->options.rnr_retry,
		.max_rd_atomic = rd_atomic,
	};

	modify(qp, &attr,
		IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

void peer_qp_connect(struct peer *peer, struct ibv_qp *qp, const struct peer_link *link)
{
	struct address theirs,
		ours = {
			.qpn = qp->qp_num,
			.psn = (qp->qp_num * 2654435761u) >> 8,
			.gid = peer->gid,
			.mtu = peer->options.mtu_bytes ? mtu_of(peer->options.mtu_bytes)
						       : peer->port.active_mtu,
		};

	peer_exchange(peer, &ours, &theirs, sizeof(ours));
	to_init(qp, link->access);
	to_rtr(peer, qp, &ours, &theirs, link->dest_rd_atomic);
	to_rts(peer, qp, ours.psn, link->rd_atomic);
	peer_barrier(peer);
}

enum ibv_qp_state peer_qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "the queue pair has no state");
	return attr.qp_state;
}

/* --- memory --------------------------------------------------------------------------------- */

struct ibv_mr *peer_memory(struct peer *peer, size_t bytes)
{
	void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	struct ibv_mr *mr;

	CHECK(memory, "no memory");
	memset(memory, 0, bytes);
	mr = ibv_reg_mr(peer->pd, memory, bytes, peer_link_full.access);
	CHECK(mr, "no memory region: %s", strerror(errno));
	return mr;
}

void peer_memory_free(struct ibv_mr *mr)
{
	void *memory = mr->addr;

	CHECK(!ibv_dereg_mr(mr), "the memory region stays");
	free(memory);
}

struct peer_buffer peer_buffer_of(const struct ibv_mr *mr)
{
	return (struct peer_buffer){
		.address = (uintptr_t)mr->addr,
		.rkey = mr->rkey,
		.bytes = (uint32_t)mr->length,
	};
}

struct ibv_sge peer_sge(const struct ibv_mr *mr, size_t offset, size_t bytes)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)mr->addr + offset,
		.length = (uint32_t)bytes,
		.lkey = mr->lkey,
	};
}

/* --- posting and polling -------------------------------------------------------------------- */

void peer_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(qp, wr, &bad);

	CHECK(!error, "a send request is refused: %s", strerror(error));
}

void peer_post_recv(
	struct ibv_qp *qp, uint64_t wr_id, struct ibv_mr *mr, size_t offset, size_t bytes)
{
	struct ibv_sge sge = peer_sge(mr, offset, bytes);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	int error = ibv_post_recv(qp, &wr, &bad);

	CHECK(!error, "a receive request is refused: %s", strerror(error));
}

struct ibv_wc peer_completion(struct ibv_cq *cq)
{
	uint64_t until_ms = peer_now_ms() + (uint64_t)PEER_PATIENCE_S * 1000;
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		CHECK(peer_now_ms() < until_ms, "no completion in %d s", PEER_PATIENCE_S);
	CHECK(count == 1, "polling fails: %d", count);
	return wc;
}

struct ibv_wc peer_success(struct ibv_cq *cq)
{
	struct ibv_wc wc = peer_completion(cq);

	CHECK(wc.status == IBV_WC_SUCCESS, "request %llu completes with status %d (%s), vendor %u",
		(unsigned long long)wc.wr_id, wc.status, ibv_wc_status_str(wc.status),
		wc.vendor_err);
	return wc;
}

void peer_no_completion(struct ibv_cq *cq, unsigned ms)
{
	uint64_t until_ms = peer_now_ms() + ms;
	struct ibv_wc wc;

	do
		CHECK(!ibv_poll_cq(cq, 1, &wc), "request %llu completes with status %d",
			(unsigned long long)wc.wr_id, wc.status);
	while (peer_now_ms() < until_ms);
}

/* --- patterns -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

uint64_t peer_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix(*state);
}

static uint64_t word(uint64_t seed, uint64_t index)
{
	return mix(seed * 0x9e3779b97f4a7c15ull + index);
}

uint8_t peer_pattern(uint64_t seed, uint64_t index)
{
	return (uint8_t)(word(seed, index / 8) >> index % 8 * 8);
}

void peer_pattern_fill(uint8_t *bytes, size_t count, uint64_t seed)
{
	size_t i;

	for (i = 0; i + 8 <= count; i += 8) {
		uint64_t value = word(seed, i / 8);

		memcpy(bytes + i, &value, sizeof(value));
	}
	for (; i < count; i++)
		bytes[i] = peer_pattern(seed, i);
}

void peer_pattern_check(const uint8_t *bytes, size_t count, uint64_t seed, const char *what)
{
	size_t i;

	for (i = 0; i + 8 <= count; i += 8) {
		uint64_t value;

		memcpy(&value, bytes + i, sizeof(value));
		if (value != word(seed, i / 8))
			break;
	}
	for (; i < count; i++)
		CHECK(bytes[i] == peer_pattern(seed, i),
			"%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, count, bytes[i],
			peer_pattern(seed, i));
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections by rdma_cm that are not made. */
#include <arpa/inet.h>
#include <pthread.h>

#include <rdma/rdma_cma.h>

#include "mistake.h"

enum { RESOLVE_MS = 500 };

static const char *const port = "7471";

/* rdma_getaddrinfo, rdma_create_id, rdma_resolve_addr; the calls wait for their events. */
static int address_resolve(const char *host, struct rdma_cm_id **ret_id)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *info;

	MUST(!rdma_getaddrinfo(host, port, &hints, &info));
	MUST(!rdma_create_id(NULL, ret_id, NULL, RDMA_PS_TCP));
	return rdma_resolve_addr(*ret_id, NULL, info->ai_dst_addr, RESOLVE_MS);
}

static int host_connect(const char *host)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct rdma_conn_param param = {.retry_count = 1};
	struct rdma_cm_id *id;

	MUST(!address_resolve(host, &id));
	MUST(!rdma_resolve_route(id, RESOLVE_MS));
	MUST(!rdma_create_qp(id, NULL, &init));
	return rdma_connect(id, &param);
}

/* The address of the first device, as text. */
static const char *own_address(const struct mistake *m)
{
	static char text[INET_ADDRSTRLEN];

	MUST(inet_ntop(AF_INET, m->gid.raw + 12, text, sizeof(text)));
	return text;
}

void mistake_nobody_listens(struct mistake *m)
{
	MUST(host_connect(own_address(m)));
}

void mistake_iwarp_nobody_listens(struct mistake *m)
{
	MUST(host_connect(own_address(m)));
}

static void *request_reject(void *listener)
{
	struct rdma_cm_id *request;

	MUST(!rdma_get_request(listener, &request));
	MUST(!rdma_reject(request, NULL, 0));
	return NULL;
}

void mistake_server_rejects(struct mistake *m)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *listener;
	pthread_t server;

	MUST(!rdma_getaddrinfo(own_address(m), port, &hints, &info));
	MUST(!rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP));
	MUST(!rdma_bind_addr(listener, info->ai_src_addr));
	MUST(!rdma_listen(listener, 1));
	MUST(!pthread_create(&server, NULL, request_reject, listener));
	MUST(host_connect(own_address(m)));
	MUST(!pthread_join(server, NULL));
}

/* The last byte of the device's address, in a network of 256, replaced. */
static const char *neighbour_address(struct mistake *m, uint8_t last)
{
	m->gid.raw[15] = last;
	return own_address(m);
}

void mistake_host_without_program(struct mistake *m)
{
	MUST(host_connect(neighbour_address(m, 2)));
}

void mistake_address_of_no_machine(struct mistake *m)
{
	struct rdma_cm_id *id;

	MUST(address_resolve(neighbour_address(m, 254), &id));
}

void mistake_address_without_route(struct mistake *m)
{
	struct rdma_cm_id *id;

	(void)m;
	MUST(address_resolve("203.0.113.1", &id));
}

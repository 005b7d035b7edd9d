/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/rdma/rdma.h"
#include "nvmf/target/tcp/tcp.h"
#include "transports.h"

static int rdma_listen_on(void *context, struct target *target, struct target_port *port,
	const struct sockaddr *address, const struct config_port *config, void **ret_listener,
	char *sentence)
{
	struct transports *transports = context;
	struct target_rdma_listener *listener;
	int error = 0;

	if (!transports->rdma) {
		error = target_rdma_create(target, transports->loop, &transports->rdma);
		if (error == 0)
			target_rdma_set_busy(transports->rdma, transports->is_busy);
	}
	if (error) {
		snprintf(sentence, SERVICE_SENTENCE_BYTES,
			"there is no RDMA here: %s; start the program by urnic run",
			strerror(-error));
		return error;
	}
	error = target_rdma_listen(transports->rdma, port, address, config->inline_bytes,
		config->queue_size, &listener, sentence);
	if (error == 0)
		*ret_listener = listener;
	return error;
}

static void rdma_unlisten(void *listener)
{
	target_rdma_unlisten(listener);
}

/*
 * A listener. tcp_unlisten() only makes it accept no more connections. The present connections use
 * the listener, so it stays until transports_done().
 */
struct tcp_listener {
	struct list node;
	struct target_tcp *tcp;
};

static int tcp_listen_on(void *context, struct target *target, struct target_port *port,
	const struct sockaddr *address, const struct config_port *config, void **ret_listener,
	char *sentence)
{
	struct transports *transports = context;
	struct tcp_listener *listener = calloc(1, sizeof(*listener));
	struct target_tcp_settings settings = {
		.target = target,
		.port = port,
		.in_capsule_bytes = config->inline_bytes,
	};
	int error;

	if (!listener) {
		snprintf(sentence, SERVICE_SENTENCE_BYTES, "no memory for a listener");
		return -ENOMEM;
	}
	memcpy(&settings.address, address,
		address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					       : sizeof(struct sockaddr_in));
	error = target_tcp_create(&settings, &listener->tcp, sentence);
	if (error) {
		free(listener);
		return error;
	}
	list_append(&transports->tcp, &listener->node);
	*ret_listener = listener;
	return 0;
}

static void tcp_unlisten(void *listener)
{
	target_tcp_stop(((struct tcp_listener *)listener)->tcp);
}

void transports_init(struct transports *transports)
{
	list_init(&transports->tcp);
	transports->table[transports->count++] = (struct service_transport){
		.transport = CONFIG_TCP,
		.listen = tcp_listen_on,
		.unlisten = tcp_unlisten,
		.context = transports,
	};
	transports->table[transports->count++] = (struct service_transport){
		.transport = CONFIG_RDMA,
		.listen = rdma_listen_on,
		.unlisten = rdma_unlisten,
		.context = transports,
	};
}

bool transports_are_idle(const struct transports *transports)
{
	list_for_each(listener, &transports->tcp, struct tcp_listener, node) {
		if (target_tcp_connection_count(listener->tcp) > 0)
			return false;
	}
	return !transports->rdma || target_rdma_queue_count(transports->rdma) == 0;
}

void transports_done(struct transports *transports)
{
	list_for_each_safe(listener, &transports->tcp, struct tcp_listener, node) {
		target_tcp_destroy(listener->tcp);
		free(listener);
	}
	list_init(&transports->tcp);
	target_rdma_destroy(transports->rdma);
	transports->rdma = NULL;
}

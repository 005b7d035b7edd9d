/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners of the TCP transport.
 */
#include "nvmf/target/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "nvmf/target/core/target.h"
#include "nvmf/target/tcp/tcp_queue.h"

enum {
	ACCEPTS_MAX = 16, /* how many connections one step of the loop accepts */
	H2C_BYTES_DEFAULT = 128 << 10,
	R2T_BYTES_DEFAULT = 256 << 10,
	DATA_BYTES_DEFAULT = 512 << 20,
	RETRY_NS = 100000000,
};

static void accept_one(struct target_tcp *tcp, int fd, const struct sockaddr_storage *peer)
{
	char text[TARGET_PEER_BYTES];

	network_address_text(peer, text, sizeof(text));
	if (target_tcp_attach(tcp, fd, text) == 0)
		tcp->counters.accepted++;
}

static void listener_ready(struct loop_watch *watch, uint32_t events)
{
	struct target_tcp *tcp = container_of(watch, struct target_tcp, watch);

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct sockaddr_storage peer = {0};
		int fd = tcp->network->accept(tcp->network, watch->fd, &peer);

		if (fd >= 0) {
			accept_one(tcp, fd, &peer);
			continue;
		}
		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
			/* Rest until RETRY_NS: epoll would report the socket in each step. */
			(void)loop_rewatch(tcp->loop, watch, EPOLLERR);
			loop_timer_set(tcp->loop, &tcp->retry, loop_now_ns(tcp->loop) + RETRY_NS);
		}
		return;
	}
}

static void retry_expired(struct loop_timer *timer)
{
	struct target_tcp *tcp = container_of(timer, struct target_tcp, retry);

	(void)loop_rewatch(tcp->loop, &tcp->watch, EPOLLIN);
}

static int address_refuse(int error, const struct sockaddr_storage *address, char *sentence)
{
	char text[TARGET_PEER_BYTES];
	const char *advice = "check the address";

	network_address_text(address, text, sizeof(text));
	if (error == EADDRINUSE)
		advice = "another program has this port: stop it, or choose another trsvcid";
	else if (error == EADDRNOTAVAIL)
		advice = "no interface of this machine has this address: correct traddr";
	else if (error == EACCES)
		advice = "ports below 1024 need root: choose another trsvcid";
	snprintf(sentence, TARGET_TCP_SENTENCE_BYTES, "cannot listen on %s (%s): %s", text,
		strerror(error), advice);
	return -error;
}

int target_tcp_create(
	const struct target_tcp_settings *settings, struct target_tcp **ret_tcp, char *sentence)
{
	struct loop *loop = target_loop(settings->target);
	struct network *network = loop_network(loop);
	struct target_tcp *tcp = calloc(1, sizeof(*tcp));
	int fd = tcp ? network->listen(network, &settings->address) : -ENOMEM;
	int error;

	if (fd < 0) {
		free(tcp);
		return address_refuse(-fd, &settings->address, sentence);
	}
	tcp->settings = *settings;
	if (!tcp->settings.h2c_bytes_max)
		tcp->settings.h2c_bytes_max = H2C_BYTES_DEFAULT;
	if (!tcp->settings.r2t_bytes_max)
		tcp->settings.r2t_bytes_max = R2T_BYTES_DEFAULT;
	if (!tcp->settings.data_bytes_max)
		tcp->settings.data_bytes_max = DATA_BYTES_DEFAULT;
	tcp->loop = loop;
	tcp->network = network;
	tcp->watch.ready = listener_ready;
	list_init(&tcp->queues);
	loop_timer_init(&tcp->retry, retry_expired);
	error = loop_watch(tcp->loop, &tcp->watch, fd, EPOLLIN);
	if (error) {
		network->close(network, fd);
		free(tcp);
		return address_refuse(-error, &settings->address, sentence);
	}
	*ret_tcp = tcp;
	return 0;
}

void target_tcp_stop(struct target_tcp *tcp)
{
	if (tcp->watch.fd < 0)
		return;
	loop_timer_cancel(&tcp->retry);
	loop_unwatch(tcp->loop, &tcp->watch);
	tcp->network->close(tcp->network, tcp->watch.fd);
	tcp->watch.fd = -1;
}

void target_tcp_destroy(struct target_tcp *tcp)
{
	if (!tcp)
		return;
	assert(tcp->count == 0);
	target_tcp_stop(tcp);
	free(tcp);
}

uint32_t target_tcp_connection_count(const struct target_tcp *tcp)
{
	return tcp->count;
}

uint64_t target_tcp_data_bytes(const struct target_tcp *tcp)
{
	return tcp->data_bytes;
}

uint16_t target_tcp_port_number(const struct target_tcp *tcp)
{
	struct sockaddr_in6 address = {0}; /* an IPv4 address has its port at the same place */
	socklen_t bytes = sizeof(address);

	if (getsockname(tcp->watch.fd, (struct sockaddr *)&address, &bytes) != 0)
		return 0;
	return ntohs(address.sin6_port);
}

const struct target_tcp_counters *target_tcp_counters(const struct target_tcp *tcp)
{
	return &tcp->counters;
}

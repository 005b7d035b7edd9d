/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo(3). The C library resolves names and services; the kernel's routing chooses the
 * local address. rdma_resolve_addrinfo() does this in a thread of its own, because a name server
 * may take long.
 */
#include <netdb.h>
#include <stdlib.h>

#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/event_cause.h"
#include "os/own_thread.h"

/* Flags that older headers do not name. */
enum {
	ADDRINFO_SA = 0x10, /* query the subnet administrator, which Ethernet does not have */
	ADDRINFO_DNS = 0x20, /* resolve by DNS, which is the default */
};

/* Returns 0 or EAI_MEMORY. */
static int copy_address(const struct sockaddr *address, socklen_t bytes, struct sockaddr **ret_copy,
	socklen_t *ret_bytes)
{
	struct sockaddr *copy = malloc(bytes);

	if (!copy)
		return EAI_MEMORY;
	memcpy(copy, address, bytes);
	*ret_copy = copy;
	*ret_bytes = bytes;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}

static struct addrinfo resolver_hints(const struct rdma_addrinfo *hints)
{
	struct addrinfo to = {.ai_socktype = SOCK_STREAM};

	if (!hints)
		return to;
	if (hints->ai_flags & RAI_PASSIVE)
		to.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		to.ai_flags |= AI_NUMERICHOST;
	if (hints->ai_flags & RAI_FAMILY)
		to.ai_family = hints->ai_family;
	if (hints->ai_port_space == RDMA_PS_UDP || hints->ai_qp_type == IBV_QPT_UD)
		to.ai_socktype = SOCK_DGRAM;
	return to;
}

static void set_kind(struct rdma_addrinfo *res, const struct rdma_addrinfo *hints)
{
	res->ai_flags = hints ? hints->ai_flags : 0;
	res->ai_port_space = hints ? hints->ai_port_space : 0;
	res->ai_qp_type = hints ? hints->ai_qp_type : 0;
	if (res->ai_port_space == 0)
		res->ai_port_space = res->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (res->ai_qp_type == 0)
		res->ai_qp_type =
			res->ai_port_space == RDMA_PS_UDP || res->ai_port_space == RDMA_PS_IPOIB
			? IBV_QPT_UD
			: IBV_QPT_RC;
}

/* Set the source address. A missing route is no error here: rdma_resolve_addr() reports it. */
static int set_source(struct rdma_addrinfo *res, const struct rdma_addrinfo *hints)
{
	struct sockaddr_storage local = {.ss_family = res->ai_dst_addr->sa_family};

	if (hints && hints->ai_src_addr && hints->ai_src_len > 0)
		return copy_address(
			hints->ai_src_addr, hints->ai_src_len, &res->ai_src_addr, &res->ai_src_len);
	if ((hints && hints->ai_flags & RAI_NOROUTE) ||
		address_source(res->ai_dst_addr, 0, &local) != 0)
		return 0;
	address_set_port((struct sockaddr *)&local, 0);
	return copy_address((struct sockaddr *)&local, address_bytes((struct sockaddr *)&local),
		&res->ai_src_addr, &res->ai_src_len);
}

static int addrinfo_fill(
	struct rdma_addrinfo *res, const struct addrinfo *found, const struct rdma_addrinfo *hints)
{
	bool is_passive = hints && (hints->ai_flags & RAI_PASSIVE);
	char *name = found->ai_canonname ? strdup(found->ai_canonname) : NULL;
	int rc;

	set_kind(res, hints);
	res->ai_family = found->ai_family;
	if (is_passive) {
		res->ai_src_canonname = name;
		return copy_address(
			found->ai_addr, found->ai_addrlen, &res->ai_src_addr, &res->ai_src_len);
	}
	res->ai_dst_canonname = name;
	rc = copy_address(found->ai_addr, found->ai_addrlen, &res->ai_dst_addr, &res->ai_dst_len);
	return rc ? rc : set_source(res, hints);
}

static bool is_address(const struct sockaddr *address, socklen_t bytes)
{
	return address && bytes >= sizeof(address->sa_family) && address_bytes(address) != 0 &&
		bytes >= address_bytes(address);
}

/* The program has given no name to resolve: copy the addresses from the hints. */
static int from_hints(struct rdma_addrinfo *res, const struct rdma_addrinfo *hints)
{
	int rc = 0;

	set_kind(res, hints);
	if (is_address(hints->ai_src_addr, hints->ai_src_len)) {
		res->ai_family = hints->ai_src_addr->sa_family;
		rc = copy_address(
			hints->ai_src_addr, hints->ai_src_len, &res->ai_src_addr, &res->ai_src_len);
	}
	if (!rc && is_address(hints->ai_dst_addr, hints->ai_dst_len)) {
		res->ai_family = hints->ai_dst_addr->sa_family;
		rc = copy_address(
			hints->ai_dst_addr, hints->ai_dst_len, &res->ai_dst_addr, &res->ai_dst_len);
	}
	return rc;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
	struct rdma_addrinfo **ret_res)
{
	struct addrinfo to = resolver_hints(hints), *found = NULL;
	struct rdma_addrinfo *res;
	int rc;

	if (!ret_res || (!node && !service && !hints))
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	if (devices_refresh() <= 0)
		return fail_errno(id_cause(REASON_CM_NO_DEVICES));
	res = calloc(1, sizeof(*res));
	if (!res) {
		rc = EAI_MEMORY;
	} else if (node || service) {
		rc = getaddrinfo(node, service, &to, &found);
		if (rc == 0)
			rc = addrinfo_fill(res, found, hints);
		if (found)
			freeaddrinfo(found);
	} else {
		rc = from_hints(res, hints);
	}
	if (rc) {
		if (rc == EAI_MEMORY)
			nic_failure_end("rdma_getaddrinfo", id_cause(REASON_NO_MEMORY));
		rdma_freeaddrinfo(res);
		return rc;
	}
	*ret_res = res;
	return 0;
}

/* --- in a thread --- */

/* A copy of the arguments of rdma_resolve_addrinfo(), for the thread. */
struct question {
	struct id *id; /* the question has a reference to the identifier */
	char *node, *service;
	struct rdma_addrinfo hints;
	bool has_hints;
};

static void question_free(struct question *question)
{
	free(question->node);
	free(question->service);
	free(question->hints.ai_src_addr);
	free(question->hints.ai_dst_addr);
	free(question);
}

static bool question_copy_hints(struct question *question, const struct rdma_addrinfo *hints)
{
	int rc = 0;

	question->has_hints = hints != NULL;
	if (!hints)
		return true;
	question->hints = (struct rdma_addrinfo){.ai_flags = hints->ai_flags,
		.ai_family = hints->ai_family,
		.ai_qp_type = hints->ai_qp_type,
		.ai_port_space = hints->ai_port_space};
	if (hints->ai_src_addr)
		rc = copy_address(hints->ai_src_addr, hints->ai_src_len,
			&question->hints.ai_src_addr, &question->hints.ai_src_len);
	if (!rc && hints->ai_dst_addr)
		rc = copy_address(hints->ai_dst_addr, hints->ai_dst_len,
			&question->hints.ai_dst_addr, &question->hints.ai_dst_len);
	return rc == 0;
}

static struct question *question_new(
	const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	struct question *question = calloc(1, sizeof(*question));

	if (!question)
		return NULL;
	question->node = node ? strdup(node) : NULL;
	question->service = service ? strdup(service) : NULL;
	if ((!node || question->node) && (!service || question->service) &&
		question_copy_hints(question, hints))
		return question;
	question_free(question);
	return NULL;
}

static void *question_answer(void *argument)
{
	struct question *question = argument;
	struct id *id = question->id;
	struct rdma_addrinfo *found = NULL;
	/*
	 * During this call the thread counts as asleep, so that fork() does not wait for a name
	 * server.
	 */
	int rc = rdma_getaddrinfo(question->node, question->service,
		question->has_hints ? &question->hints : NULL, &found);
	int status = rc == -1 ? -errno : rc;
	const char *why = rc == -1 ? strerror(errno) : gai_strerror(rc);

	own_thread_wake();
	pthread_mutex_lock(&id_lock);
	rdma_freeaddrinfo(id->addrinfo);
	id->addrinfo = found;
	id->is_resolving_addrinfo = false;
	if (status)
		id_fail_locked(id, CAUSE_NAME_UNKNOWN, status, why);
	else
		id_post_locked(id, &id->events[ID_EVENT_ADDRINFO_RESOLVED], 0);
	pthread_mutex_unlock(&id_lock);
	id_unref(id);
	question_free(question);
	own_thread_end();
	return NULL;
}

/*
 * Begin a question, unless another question of the identifier is pending. Returns whether the
 * question has begun. If it has, the identifier has one more reference.
 */
static bool question_begin(struct id *id)
{
	bool is_first;

	pthread_mutex_lock(&id_lock);
	is_first = !id->is_resolving_addrinfo;
	id->is_resolving_addrinfo = true;
	id->references += is_first;
	pthread_mutex_unlock(&id_lock);
	return is_first;
}

int rdma_resolve_addrinfo(struct rdma_cm_id *public, const char *node, const char *service,
	const struct rdma_addrinfo *hints)
{
	struct id *id = id_find(public);
	struct question *question;
	int rc;

	if (!id)
		return fail_errno(errno);
	if (!node && !service && !hints)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	if (hints && (hints->ai_flags & ADDRINFO_SA))
		return fail_errno(id_cause(REASON_UNSUPPORTED_BITS));
	question = question_new(node, service, hints);
	if (!question)
		return fail_errno(id_cause(REASON_NO_MEMORY));
	question->hints.ai_flags &= ~ADDRINFO_DNS;
	question->id = id;
	if (!question_begin(id)) {
		question_free(question);
		return fail_errno(id_cause(REASON_CM_RESOLVING));
	}
	rc = own_thread_start(NULL, "urnic-addrinfo", question_answer, question);
	if (rc) {
		pthread_mutex_lock(&id_lock);
		id->is_resolving_addrinfo = false;
		pthread_mutex_unlock(&id_lock);
		id_unref(id);
		question_free(question);
		return fail_errno(-rc);
	}
	return id_complete(id);
}

int rdma_query_addrinfo(struct rdma_cm_id *public, struct rdma_addrinfo **info)
{
	struct id *id = id_find(public);

	if (!id)
		return fail_errno(errno);
	if (!info)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	pthread_mutex_lock(&id_lock);
	*info = id->addrinfo;
	id->addrinfo = NULL;
	pthread_mutex_unlock(&id_lock);
	return *info ? 0 : fail_errno(id_cause(REASON_CM_NO_ADDRINFO));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer/nic_host.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "peer/nic_peer.h"

enum { DOMAINS_MAX = 4096 }; /* of other processes, at a time; number 0 is none */

static_assert(DOMAINS_MAX <= (int)MR_PD_ABROAD_END, "their numbers are told apart");
static_assert((int)FAR_LANES_MAX == (int)NIC_LANES_MAX, "every lane has its seats");

static struct list hosts = {&hosts, &hosts}; /* struct nic_host */

/*
 * By the numbers of their domains here. Written under the NIC's lock; a lane reads those of its
 * queue pairs.
 */
static struct far_domain *_Atomic domains[DOMAINS_MAX];
static uint32_t last_domain;

/* --- memory: under a lane's lock --- */

static const struct far_domain *domain_of(uint32_t pd)
{
	return pd < DOMAINS_MAX ? atomic_load_explicit(&domains[pd], memory_order_acquire) : NULL;
}

static enum mr_fault abroad_check(
	uint32_t key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes)
{
	const struct far_domain *domain = domain_of(user.pd);

	return domain ? far_check(domain, key, user.qpn, access, iova, bytes) : MR_FAULT_PD;
}

static enum mr_fault abroad_put(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, const uint8_t *from)
{
	const struct far_domain *domain = domain_of(user.pd);

	return domain ? far_put(domain, key, user.qpn, access, iova, bytes, from) : MR_FAULT_PD;
}

static enum mr_fault abroad_get(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, uint8_t *to)
{
	const struct far_domain *domain = domain_of(user.pd);

	return domain ? far_get(domain, key, user.qpn, access, iova, bytes, to) : MR_FAULT_PD;
}

static enum mr_fault abroad_apply(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
	const struct mr_word *word, uint64_t *ret_before)
{
	const struct far_domain *domain = domain_of(user.pd);

	return domain ? far_apply(domain, key, user.qpn, access, iova, word, ret_before)
		      : MR_FAULT_PD;
}

static const struct mr_abroad abroad = {
	.check = abroad_check,
	.put = abroad_put,
	.get = abroad_get,
	.apply = abroad_apply,
};

/* --- hosts --- */

/* struct far_owner.is_alive */
static bool is_alive(void *context, uint32_t who)
{
	const struct nic_host *host = container_of(context, struct nic_host, far);

	return nic_peer_has_guest(host->peer, who);
}

static struct far_owner owner = {.is_alive = is_alive};

int nic_host_get(struct nic_peer *peer, struct nic_host **ret_host)
{
	struct nic_host *host;

	list_for_each(known, &hosts, struct nic_host, link)
		if (known->peer == peer) {
			nic_peer_put(peer);
			known->users++;
			*ret_host = known;
			return 0;
		}
	host = calloc(1, sizeof(*host));
	if (!host)
		return -ENOMEM;
	owner.who = nic.owner.who;
	owner.pause = nic.owner.pause;
	host->peer = peer;
	host->users = 1;
	host->far.peer = &peer->peer;
	host->far.owner = &owner;
	host->far.guests = peer_at_shared(
		&peer->peer, peer->public->guests_offset, sizeof(struct guest_table));
	if (!host->far.guests) {
		free(host);
		return -ENOMEM;
	}
	list_append(&hosts, &host->link);
	*ret_host = host;
	return 0;
}

int nic_host_get_process(uint32_t pid, int memory, struct nic_host **ret_host)
{
	struct nic_peer *peer;
	int error = nic_peer_get_process(pid, memory, &peer);

	close(memory);
	if (error)
		return error;
	error = nic_host_get(peer, ret_host);
	if (error)
		nic_peer_put(peer);
	return error;
}

void nic_host_put(struct nic_host *host)
{
	if (--host->users)
		return;
	far_host_done(&host->far);
	list_remove(&host->link);
	nic_peer_put(host->peer);
	free(host);
}

/* --- protection domains --- */

int nic_domain_add(struct nic_host *host, uint32_t pd, uint32_t *ret_number)
{
	struct far_domain *domain = malloc(sizeof(*domain));

	if (!domain)
		return -ENOMEM;
	*domain = (struct far_domain){&host->far, pd};
	/* A number is used again as late as possible. */
	for (uint32_t i = 1; i < DOMAINS_MAX; i++) {
		last_domain = last_domain % (DOMAINS_MAX - 1) + 1;
		if (!atomic_load(&domains[last_domain])) {
			atomic_store(&domains[last_domain], domain);
			host->users++;
			*ret_number = last_domain;
			return 0;
		}
	}
	free(domain);
	return -ENOMEM;
}

void nic_domain_remove(uint32_t number)
{
	struct far_domain *domain = atomic_exchange(&domains[number], NULL);

	if (!domain)
		return;
	nic_for_each_worker(nic_worker_pass);
	nic_host_put(container_of(domain->host, struct nic_host, far));
	free(domain);
}

/* --- life --- */

static void hosts_start(void)
{
	nic.mrs.abroad = &abroad;
}

static void hosts_peer_exited(const struct nic_peer *peer)
{
	list_for_each(host, &hosts, struct nic_host, link)
		if (host->peer == peer)
			atomic_store(&host->far.is_gone, true);
}

static void hosts_forget(void)
{
	list_for_each_safe(host, &hosts, struct nic_host, link)
		free(host);
	list_init(&hosts);
	for (uint32_t i = 0; i < DOMAINS_MAX; i++)
		free(atomic_exchange(&domains[i], NULL));
}

const struct nic_part nic_host_part = {
	.start = hosts_start,
	.peer_exited = hosts_peer_exited,
	.forget = hosts_forget,
};

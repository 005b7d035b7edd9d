/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer/nic_owner.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "peer/nic_peer.h"

/* The numbers of borrowed domains are below this limit. Number 0 is not used. */
enum { DOMAINS_MAX = 4096 };

static_assert(DOMAINS_MAX <= (int)MR_PD_BORROWED_END, "their numbers are told apart");
static_assert((int)OWNER_LANES_MAX == (int)NIC_LANES_MAX, "every lane has its channels");

static struct list owners = {&owners, &owners}; /* a list of struct nic_owner */

/*
 * Borrowed domains, by their numbers in this process. A thread writes with the NIC locked. A lane
 * reads the domains of its queue pairs without that lock.
 */
static struct borrowed_domain *_Atomic domains[DOMAINS_MAX];
static uint32_t last_domain;

/* --- memory: under a lane's lock --- */

static const struct borrowed_domain *domain_of(uint32_t pd)
{
	return pd < DOMAINS_MAX ? atomic_load_explicit(&domains[pd], memory_order_acquire) : NULL;
}

static enum mr_fault domain_check(
	uint32_t key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes)
{
	const struct borrowed_domain *domain = domain_of(user.pd);

	return domain ? borrowed_check(domain, key, user.qpn, access, iova, bytes) : MR_FAULT_PD;
}

static enum mr_fault domain_put(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, const uint8_t *from)
{
	const struct borrowed_domain *domain = domain_of(user.pd);

	return domain ? borrowed_put(domain, key, user.qpn, access, iova, bytes, from)
		      : MR_FAULT_PD;
}

static enum mr_fault domain_get(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
	size_t bytes, uint8_t *to)
{
	const struct borrowed_domain *domain = domain_of(user.pd);

	return domain ? borrowed_get(domain, key, user.qpn, access, iova, bytes, to) : MR_FAULT_PD;
}

static enum mr_fault domain_apply(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
	const struct mr_word *word, uint64_t *ret_before)
{
	const struct borrowed_domain *domain = domain_of(user.pd);

	return domain ? borrowed_apply(domain, key, user.qpn, access, iova, word, ret_before)
		      : MR_FAULT_PD;
}

static const struct mr_borrowed borrowed = {
	.check = domain_check,
	.put = domain_put,
	.get = domain_get,
	.apply = domain_apply,
};

/* --- owners --- */

int nic_owner_get(struct nic_peer *peer, struct nic_owner **ret_owner)
{
	struct borrower_table *borrowers =
		peer_at_shared(&peer->peer, peer->public->borrowers_offset, sizeof(*borrowers));
	struct nic_owner *owner;

	list_for_each(known, &owners, struct nic_owner, link)
		if (known->peer == peer) {
			nic_peer_put(peer);
			known->users++;
			*ret_owner = known;
			return 0;
		}
	owner = calloc(1, sizeof(*owner));
	if (!owner || !borrowers) {
		free(owner);
		nic_peer_put(peer);
		return -ENOMEM;
	}
	owner->peer = peer;
	owner->users = 1;
	owner->process.peer = &peer->peer;
	owner->process.self = &nic.owner;
	owner->process.borrowers = borrowers;
	list_append(&owners, &owner->link);
	*ret_owner = owner;
	return 0;
}

int nic_owner_get_process(uint32_t pid, int memory, struct nic_owner **ret_owner)
{
	struct nic_peer *peer;
	int error = nic_peer_get_process(pid, memory, &peer);

	close(memory);
	return error ? error : nic_owner_get(peer, ret_owner);
}

void nic_owner_put(struct nic_owner *owner)
{
	if (--owner->users)
		return;
	owner_process_done(&owner->process);
	list_remove(&owner->link);
	nic_peer_put(owner->peer);
	free(owner);
}

/* --- protection domains --- */

int nic_domain_add(struct nic_owner *owner, uint32_t pd, uint32_t *ret_number)
{
	struct borrowed_domain *domain = malloc(sizeof(*domain));

	if (!domain)
		return -ENOMEM;
	*domain = (struct borrowed_domain){&owner->process, pd};
	/* Search from the last number on, so that a number is reused as late as possible. */
	for (uint32_t i = 1; i < DOMAINS_MAX; i++) {
		last_domain = last_domain % (DOMAINS_MAX - 1) + 1;
		if (!atomic_load(&domains[last_domain])) {
			atomic_store(&domains[last_domain], domain);
			owner->users++;
			*ret_number = last_domain;
			return 0;
		}
	}
	free(domain);
	return -ENOMEM;
}

void nic_domain_remove(uint32_t number)
{
	struct borrowed_domain *domain = atomic_exchange(&domains[number], NULL);

	if (!domain)
		return;
	nic_for_each_worker(nic_worker_pass);
	nic_owner_put(container_of(domain->owner, struct nic_owner, process));
	free(domain);
}

/* --- life --- */

static void owners_start(void)
{
	nic.mrs.borrowed = &borrowed;
}

static void owners_peer_exited(const struct nic_peer *peer)
{
	list_for_each(owner, &owners, struct nic_owner, link)
		if (owner->peer == peer)
			atomic_store(&owner->process.is_gone, true);
}

static void owners_forget(void)
{
	list_for_each_safe(owner, &owners, struct nic_owner, link)
		free(owner);
	list_init(&owners);
	for (uint32_t i = 0; i < DOMAINS_MAX; i++)
		free(atomic_exchange(&domains[i], NULL));
}

const struct nic_part nic_owner_part = {
	.start = owners_start,
	.peer_exited = owners_peer_exited,
	.forget = owners_forget,
};

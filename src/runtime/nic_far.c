/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/nic_far.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ib/rc/rc.h"
#include "os/cancel.h"
#include "os/kick.h"
#include "os/log.h"
#include "runtime/nic_internal.h"

enum {
	DOMAINS_MAX = 4096, /* of other processes, at a time; number 0 is none */
	FAR_SRQS_MAX = 1024,
};

static_assert(DOMAINS_MAX <= (int)MR_PD_ABROAD_END, "their numbers are told apart");
static_assert((int)FAR_LANES_MAX == (int)NIC_LANES_MAX, "every lane has its seats");

/* A shared receive queue of another process. */
struct nic_far_srq {
	struct far_srq far;
	struct list link; /* in nic.far_srqs */
	struct nic_host *host;
	uint32_t domain;
};

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

	list_for_each(known, &nic.hosts, struct nic_host, link)
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
	list_append(&nic.hosts, &host->link);
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

/* --- shared receive queues --- */

static void srq_link(struct nic_far_srq *srq)
{
	atomic_store(&srq->far.srq.next_afar, atomic_load(&nic.srqs->first_afar));
	atomic_store_explicit(&nic.srqs->first_afar, &srq->far.srq, memory_order_release);
	list_append(&nic.far_srqs, &srq->link);
	nic.far_srq_count++;
}

static void srq_unlink(struct nic_far_srq *srq)
{
	struct srq *_Atomic *at = &nic.srqs->first_afar;

	while (atomic_load(at) != &srq->far.srq)
		at = &atomic_load(at)->next_afar;
	atomic_store(at, atomic_load(&srq->far.srq.next_afar));
	list_remove(&srq->link);
	nic.far_srq_count--;
}

static void srq_drop(struct nic_far_srq *srq)
{
	srq_unlink(srq);
	nic_srq_forget_on_lanes(&srq->far.srq);
	nic_domain_remove(srq->domain);
	nic_host_put(srq->host);
	free(srq);
}

/* Drop those that are gone, or of this domain (0: none). */
static void srqs_sweep(uint32_t xrcd)
{
	struct list *link = nic.far_srqs.next;

	while (link != &nic.far_srqs) {
		struct nic_far_srq *srq = container_of(link, struct nic_far_srq, link);

		link = link->next;
		if (srq->far.srq.xrcd == xrcd || !srq->far.srq.afar->is_there(&srq->far.srq))
			srq_drop(srq);
	}
}

/* Is this queue's domain ours, too? */
static bool is_of_file(const struct srq_public *public, const struct nic_xrcd *xrcd)
{
	return public->owner == xrcd->ifindex && public->file.device == xrcd->file.device &&
		public->file.inode == xrcd->file.inode && public->cq_offset;
}

/* The queue of this number that the peer shares with `xrcd`: its offset; 0: none. */
static uint64_t srq_find(const struct nic_peer *peer, const struct nic_xrcd *xrcd, uint32_t number)
{
	uint64_t offset = atomic_load(&peer->public->first_srq_offset);

	for (uint32_t i = 0; i < NIC_SRQ_COUNT_MAX; i++) {
		const struct srq_public *public = peer_at(&peer->peer, offset, sizeof(*public));

		if (!public)
			return 0;
		if (atomic_load(&public->number) == number)
			return is_of_file(public, xrcd) ? offset : 0;
		offset = public->next_offset;
	}
	return 0;
}

/*
 * See the queue at `offset`, with a host that is used once more, and given back on failure. Returns
 * 0 or -errno.
 */
static int srq_see(struct nic_host *host, const struct nic_xrcd *xrcd, uint64_t offset)
{
	const struct srq_public *public = peer_at(&host->peer->peer, offset, sizeof(*public));
	struct nic_far_srq *srq = calloc(1, sizeof(*srq));
	int error = srq && public ? 0 : -ENOMEM;

	if (!error)
		error = nic_domain_add(host, public->pd, &srq->domain);
	if (!error && !far_srq_init(&srq->far, &host->far, offset, srq->domain, xrcd->id)) {
		nic_domain_remove(srq->domain);
		error = -ENOENT;
	}
	if (!error)
		error = nic_peer_reach_lane(
			host->peer, srq->far.lane, &host->far.bell_offset[srq->far.lane]);
	if (error) {
		free(srq);
		nic_host_put(host);
		return error;
	}
	srq->host = host;
	srq_link(srq);
	return 0;
}

static int srq_attach(const struct nic_xrcd *xrcd, uint32_t number)
{
	struct nic_peer *peer;
	struct nic_host *host;
	uint64_t offset;
	int error;

	srqs_sweep(0);
	if (nic.far_srq_count >= FAR_SRQS_MAX)
		return -ENOMEM;
	error = nic_peer_get((uint8_t)(number >> 16), &peer);
	if (error)
		return error;
	offset = peer->is_self ? 0 : srq_find(peer, xrcd, number);
	error = offset ? nic_host_get(peer, &host) : -ENOENT;
	if (error) {
		nic_peer_put(peer);
		return error;
	}
	return srq_see(host, xrcd, offset);
}

/*
 * See to it that queue pairs of the domain find the queue of this number, any value. Returns 0;
 * -ENOENT when there is none; or another -errno.
 */
static int srq_look(const struct nic_xrcd *xrcd, uint32_t number)
{
	return srq_table_find(nic.srqs, number) || srq_table_find_afar(nic.srqs, number, xrcd->id)
		? 0
		: srq_attach(xrcd, number);
}

/* --- asking --- */

int nic_far_start(void)
{
	uint64_t offset = arena_alloc(&nic.arena, sizeof(struct guest_table));

	if (!offset)
		return -ENOMEM;
	nic.asked = kick_create("no NIC");
	if (nic.asked < 0)
		return nic.asked;
	nic.guests = arena_peers_side(arena_at(&nic.arena, offset));
	nic.public->guests_offset = offset;
	nic.mrs.abroad = &abroad;
	nic_datagram_start();
	list_init(&nic.hosts);
	list_init(&nic.far_srqs);
	list_init(&nic.xrcds);
	list_init(&nic.openings);
	list_init(&nic.target_guests);
	nic.target_listener = -1;
	return 0;
}

void nic_far_ask(void)
{
	kick_ring(nic.asked);
}

/*
 * The queue pair of this number, if it is there still and waits for the answer. The worker is
 * locked.
 */
static struct qp *asking_still(struct worker *worker, uint32_t qpn, uint32_t number)
{
	uint32_t asked;
	struct qp *qp = engine_qp_asking(&worker->lane, &asked);

	return qp && qp->qpn == qpn && asked == number ? qp : NULL;
}

/* Answer one queue pair of the lane. False when none asks. */
static bool answer_one(struct worker *worker)
{
	struct nic_xrcd *xrcd;
	uint32_t number, qpn;
	struct qp *qp;
	int error;

	worker_lock(worker);
	qp = engine_qp_asking(&worker->lane, &number);
	qpn = qp ? qp->qpn : 0;
	xrcd = qp ? ((struct nic_qp *)qp->user)->xrcd : NULL;
	worker_unlock(worker);
	if (!qp)
		return false;
	xrcd->qp_count++; /* the queue pair may go while urnicd is asked */
	error = srq_look(xrcd, number);
	nic_xrcd_put(xrcd);
	if (error)
		log_write(LOG_INFO,
			"shared receive queue 0x%06x, named at queue pair 0x%06x, is not to be found: %s",
			number, qpn, strerror(-error));
	worker_lock(worker);
	qp = asking_still(worker, qpn, number);
	if (qp)
		rc_xrc_answer(rc_from_qp(qp), number);
	worker_unlock(worker);
	return true;
}

void nic_far_errand(void)
{
	kick_clear(nic.asked);
	nic_enter();
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		for (uint32_t done = 0; nic.worker[i] && done < LANE_QP_COUNT_MAX; done++)
			if (!answer_one(nic.worker[i]))
				break;
	nic_leave();
}

/* --- ends --- */

void nic_far_forget_peer(const struct nic_peer *peer)
{
	list_for_each(host, &nic.hosts, struct nic_host, link)
		if (host->peer == peer)
			atomic_store(&host->far.is_gone, true);
	nic_datagram_forget_peer(peer);
	srqs_sweep(0);
}

void nic_far_forget_xrcd(const struct nic_xrcd *xrcd)
{
	srqs_sweep(xrcd->id);
}

void nic_far_forget(void)
{
	nic_datagram_forget();
	list_for_each_safe(srq, &nic.far_srqs, struct nic_far_srq, link)
		free(srq);
	list_init(&nic.far_srqs);
	list_for_each_safe(host, &nic.hosts, struct nic_host, link)
		free(host);
	list_init(&nic.hosts);
	for (uint32_t i = 0; i < DOMAINS_MAX; i++)
		free(atomic_exchange(&domains[i], NULL));
	close(nic.asked);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parent domains and thread domains.
 *
 * A parent domain stands for a protection domain wherever a program names one (pd_ref() finds the
 * one behind it), and adds two things for the queue pairs, completion queues and shared receive
 * queues that are made through it: the program's allocator, which is asked for the memory of each
 * such object on the host (rings and keys are in NIC memory, where no program allocates), and a
 * thread domain, the program's word that one thread at a time uses them.
 *
 * A public thread domain has no handle, so its pointer is trusted.
 */
#ifndef URNIC_FRONT_VERBS_DOMAIN_H
#define URNIC_FRONT_VERBS_DOMAIN_H

#include <stdbool.h>

#include "front/verbs/pd.h"

/*
 * What the allocator is asked for: the lower half of its resource_type. The upper half, a driver's
 * number, is 0.
 */
enum domain_resource {
	DOMAIN_QP = 1,
	DOMAIN_CQ = 2,
	DOMAIN_SRQ = 3,
};

struct parent_domain {
	struct ibv_pd verbs;
	struct object object;
	struct object *pd; /* the protection domain behind it */
	struct object *td; /* NULL: none */
	struct ibv_parent_domain_init_attr attr;
};

struct td {
	struct ibv_td verbs;
	struct object object;
};

/* What an object keeps of the domain it was made through. Zeroed: of none. */
struct domain {
	struct object *parent; /* NULL: a plain protection domain */
	bool is_single_threaded;
	/* How its memory is given back; NULL when the allocator had no say. */
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	struct ibv_pd *pd;
	void *pd_context;
};

/*
 * Zeroed memory for an object that is made through `pd`, which becomes used by it if it is a parent
 * domain.
 *
 * `pd`          As the program named it; NULL for none.
 * `bytes`       Of the object. The allocator is asked for it at an alignment of 64.
 * `ret_domain`  For domain_leave() or domain_free(), one of the two.
 *
 * NULL when there is no memory.
 */
void *domain_alloc(const struct ibv_pd *pd, enum domain_resource resource, size_t bytes,
	struct domain *ret_domain);

/* The object is no more, but its memory stays: its parent domain may go. */
void domain_leave(struct domain *domain);

/*
 * Give back the memory of an object, in which `domain` may lie. Only then its parent domain may go.
 */
void domain_free(const struct domain *domain, enum domain_resource resource, void *memory);

/* alloc_parent_domain, alloc_td and dealloc_td of the table in the context. */
struct ibv_pd *parent_domain_alloc(
	struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *verbs);

/*
 * The part of ibv_dealloc_pd() for a handle that is not a protection domain's. 0 or a positive
 * errno.
 */
int parent_domain_dealloc(struct ibv_pd *pd);

/* Release all but the structure; the object is already out of the table. */
void parent_domain_release(struct object *object);
void td_release(struct object *object);

#endif

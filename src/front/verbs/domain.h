/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parent domains and thread domains.
 *
 * A parent domain can be named wherever a protection domain can; pd_ref() finds the protection
 * domain behind it. It adds two things to queue pairs, completion queues and shared receive queues
 * that are created through it. One is the program's allocator, which allocates the structure of
 * each object; rings and keys are in NIC memory, where no program allocates. The other is a thread
 * domain: the program's promise that one thread at a time uses the objects.
 *
 * A public thread domain has no handle, so its pointer is trusted.
 */
#ifndef URNIC_FRONT_VERBS_DOMAIN_H
#define URNIC_FRONT_VERBS_DOMAIN_H

#include <stdbool.h>

#include "front/verbs/pd.h"

/* The lower half of the allocator's resource_type. The upper half, a driver's number, is 0. */
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

/* An object's part of the domain that it was created through. Zeroed: none. */
struct domain {
	struct object *parent; /* NULL: a plain protection domain */
	bool is_single_threaded;
	/* Frees the object's memory; NULL when the program's allocator did not allocate it. */
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	struct ibv_pd *pd;
	void *pd_context;
};

/*
 * Allocate zeroed memory for an object that is created through `pd`. If `pd` is a parent domain,
 * the object becomes its user.
 *
 * `pd`          As the program named it; NULL for none.
 * `bytes`       Of the object. The allocator is called with an alignment of 64.
 * `ret_domain`  For domain_leave() or domain_free(), one of the two.
 *
 * NULL: out of memory.
 */
void *domain_alloc(const struct ibv_pd *pd, enum domain_resource resource, size_t bytes,
	struct domain *ret_domain);

/* The object is gone, but its memory stays. Its parent domain may go. */
void domain_leave(struct domain *domain);

/* Free the memory of an object, in which `domain` may lie. Its parent domain may go afterwards. */
void domain_free(const struct domain *domain, enum domain_resource resource, void *memory);

struct ibv_pd *parent_domain_alloc(
	struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *verbs);

/* ibv_dealloc_pd() for a handle that is not a protection domain's. */
int parent_domain_dealloc(struct ibv_pd *pd);

void parent_domain_release(struct object *object);
void td_release(struct object *object);

#endif

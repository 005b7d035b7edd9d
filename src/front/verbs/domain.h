/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parent domains and thread domains.
 *
 * A program can name a parent domain wherever it can name a protection domain; pd_ref() finds the
 * protection domain behind the parent domain. A parent domain adds two things to queue pairs,
 * completion queues and shared receive queues that are created through it. One is the program's
 * allocator, which allocates the structure of each object. (Rings and keys are in NIC memory, where
 * no program allocates.) The other is a thread domain: the program's promise that only one thread
 * at a time uses the objects.
 *
 * A public thread domain has no handle, so its pointer is trusted.
 */
#ifndef URNIC_FRONT_VERBS_DOMAIN_H
#define URNIC_FRONT_VERBS_DOMAIN_H

#include <stdbool.h>

#include "front/verbs/pd.h"

/*
 * The lower half of the allocator's argument resource_type. The upper half is the number of a
 * driver, here 0.
 */
enum domain_resource {
	DOMAIN_QP = 1,
	DOMAIN_CQ = 2,
	DOMAIN_SRQ = 3,
};

struct parent_domain {
	struct ibv_pd verbs;
	struct object object;
	struct object *pd; /* the protection domain behind the parent domain */
	struct object *td; /* NULL: none */
	struct ibv_parent_domain_init_attr attr;
};

struct td {
	struct ibv_td verbs;
	struct object object;
};

/*
 * Allocate zeroed memory for an object that is created through `pd`. If `pd` is a parent domain,
 * the object becomes a user of the parent domain.
 *
 * `pd`          The domain that the program named; NULL: none.
 * `bytes`       The size of the object. The allocator is called with an alignment of 64 bytes.
 * `ret_object`  Gets the initial value of the struct object, which the caller copies into the
 *               memory.
 *
 * NULL: out of memory.
 */
void *domain_alloc(const struct ibv_pd *pd, enum domain_resource resource, size_t bytes,
	struct object *ret_object);

/* Free the memory of an object. The caller drops the reference to its parent domain afterwards. */
void domain_free(const struct object *object, enum domain_resource resource, void *memory);

/* Was the object created through a parent domain with a thread domain? */
bool domain_is_single_threaded(const struct object *object);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions, as objects of the ABI around the NIC's.
 */
#ifndef URNIC_FRONT_VERBS_MR_H
#define URNIC_FRONT_VERBS_MR_H

#include "front/verbs/object.h"

struct mr {
	struct ibv_mr verbs;
	struct object object;
	pthread_mutex_t lock; /* for what ibv_rereg_mr() changes */
	struct object *pd;
	struct object *dm; /* the device memory that it is a part of, or NULL */
	struct {
		void *address; /* of a mapping that was made for the region, or NULL */
		size_t bytes;
		int fd; /* of the DMA-buf that is mapped */
	} mapping;
	uint64_t iova;
	unsigned int access;
	bool is_fixed; /* not of the program's own memory: cannot be registered again */
};

/*
 * Register a region of memory, wherever that comes from.
 *
 * `made`      What is known of it: address, length, dm, mapping; taken over on success.
 * `iova`      What its first byte is called, if it is not zero-based.
 * `access`    enum ibv_access_flags, any bits.
 * `is_own`    The program's own memory: it is looked at whether it is there.
 *
 * NULL with errno on failure.
 */
struct ibv_mr *mr_make(
	struct ibv_pd *pd, const struct mr *made, uint64_t iova, unsigned int access, bool is_own);

/* Release all but the structure; the object is already out of the table. */
void mr_release(struct object *object);

/* The operations that programs reach through the tables in a context. */
struct ibv_mr *mr_alloc_null(struct ibv_pd *pd);
int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	struct ibv_sge *sg_list, uint32_t num_sge);

#endif

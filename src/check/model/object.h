/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs objects of the program: where the program made and destroyed each object.
 *
 * A record stays after its object is destroyed, until another object has the same address. So the
 * checker can report a use after the destruction, with the place of the destruction. object_keep()
 * delays the reuse of the address.
 */
#ifndef URNIC_CHECK_MODEL_OBJECT_H
#define URNIC_CHECK_MODEL_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum object_kind {
	OBJECT_DEVICE,
	OBJECT_PD,
	OBJECT_MR,
	OBJECT_CQ,
	OBJECT_QP,
	OBJECT_SRQ,
	OBJECT_AH,
	OBJECT_CHANNEL,
	OBJECT_KIND_COUNT,
};

/* A device that the program has opened, with the functions that the checker replaced. */
struct context_record {
	struct ibv_context *context;
	uint32_t number;
	struct ibv_context_ops ops;
	struct ibv_cq_ex *(*create_cq_ex)(
		struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
	struct ibv_qp *(*create_qp_ex)(
		struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
	struct ibv_srq *(*create_srq_ex)(
		struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
};

struct object {
	const void *pointer;
	enum object_kind kind;
	_Atomic bool is_live;
	bool is_inherited; /* this process has inherited the object in a fork() */
	bool is_library; /* an RDMA library has made the object for itself */
	uint32_t site_made;
	uint32_t site_destroyed;
	void *record; /* a queue_record, a cq_record, a context_record, or NULL */
};

/* The name of a kind, as a sentence uses it: "queue pair". */
const char *object_kind_name(enum object_kind kind);

/*
 * A record of `bytes` zero bytes for a new object. If a destroyed object of this kind had the same
 * address, the function reuses that object's record. A record is never freed, because other threads
 * may look at it. Returns NULL when out of memory.
 */
void *object_record(enum object_kind kind, const void *pointer, size_t bytes);

/* Note a new object. Returns the object, or NULL when out of memory. */
struct object *object_add(enum object_kind kind, const void *pointer, void *record, uint32_t site);

/* The object at this address, live or destroyed; NULL: unknown. */
struct object *object_find(const void *pointer);

/*
 * The program passes an object to `call`. If the program has destroyed the object, or has inherited
 * it in a fork, the function reports that and returns false.
 */
bool object_use(const void *pointer, enum object_kind kind, const char *call, uint32_t site);

/* The process is a forked child: all objects are the parent's. */
void objects_inherit(void);

/* The object is destroyed. */
void object_remove(const void *pointer, uint32_t site);

/* The next live object that the program itself has made, for a loop that starts with *i at 0. */
struct object *object_next(uint32_t *i);

struct context_record *context_of(const struct ibv_context *context);

/* Replace the functions of a context that was just opened. */
void context_hook(struct ibv_context *context, uint32_t site);

#endif

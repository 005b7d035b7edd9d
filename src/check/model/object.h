/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs objects of the program: where each was made, and where it was destroyed.
 *
 * A record stays after its object is destroyed, until another object has the same address. So a use
 * after that can be reported with the place of the destruction. object_keep() delays the reuse.
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
	bool is_inherited; /* this process has it from its parent by fork() */
	bool is_library; /* a library of RDMA has made it for itself */
	uint32_t site_made;
	uint32_t site_destroyed;
	void *record; /* a queue_record, a cq_record, a context_record, or NULL */
};

/* The name of a kind, for a sentence: "queue pair". */
const char *object_kind_name(enum object_kind kind);

/*
 * A record of `bytes` zero bytes for a new object: the record of a destroyed object of this kind
 * that had the same address, or a new one. It is never freed, because other threads may look at it.
 * NULL without memory.
 */
void *object_record(enum object_kind kind, const void *pointer, size_t bytes);

/* Note a new object. Returns it, or NULL without memory. */
struct object *object_add(enum object_kind kind, const void *pointer, void *record, uint32_t site);

/* The record of an object that has this address, also a destroyed one; NULL: unknown. */
struct object *object_find(const void *pointer);

/*
 * The program passes an object to `call`. Returns false, after a report, if it has destroyed the
 * object, or has it from its parent.
 */
bool object_use(const void *pointer, enum object_kind kind, const char *call, uint32_t site);

/* The process is a forked child: all objects are the parent's. */
void objects_inherit(void);

/* The object is destroyed. */
void object_remove(const void *pointer, uint32_t site);

/* Live objects that the program itself made, for a loop that starts with *i at 0. */
struct object *object_next(uint32_t *i);

struct context_record *context_of(const struct ibv_context *context);

/* Replace the functions of a context that was just opened. */
void context_hook(struct ibv_context *context, uint32_t site);

#endif

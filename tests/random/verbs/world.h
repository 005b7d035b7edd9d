/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_RANDOM_VERBS_WORLD_H
#define URNIC_TESTS_RANDOM_VERBS_WORLD_H

/*
 * A random program: one thread's objects, and a model of their dependencies.
 *
 * Each thread has a world of its own: openings of the devices, and objects made through them. No
 * other thread uses them, so the model knows the result of each call: an object that others depend
 * on refuses destruction with EBUSY, any other can be destroyed, and a call with right arguments
 * succeeds. commons.h has the objects that threads share.
 *
 * A call with another result ends the program, which prints the seed, the thread and the number of
 * the call.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/arith.h"
#include "support/sim_random.h"

enum {
	OPENINGS = 3, /* two of the first device, one of the second */
	ITEMS_MAX = 256,
	PARENTS_MAX = 6,
	CORPSES = 32,
	CORPSE_AGE_MAX =
		1000, /* creations of the process; a handle comes back after some thousands */
	BUFFER_BYTES = 1 << 16,
	QUEUE_DEPTH_MAX = 32,
};

/* KIND(name, public structure, its handle): an object comes after those that it may be built on. */
#define KINDS_WITH_HANDLE(KIND)                           \
	KIND(PD, ibv_pd, handle)                          \
	KIND(DM, ibv_dm, handle)                          \
	KIND(MR, ibv_mr, handle)                          \
	KIND(MW, ibv_mw, handle)                          \
	KIND(CQ, ibv_cq, handle)                          \
	KIND(SRQ, ibv_srq, handle)                        \
	KIND(WQ, ibv_wq, handle)                          \
	KIND(WQ_TABLE, ibv_rwq_ind_table, ind_tbl_handle) \
	KIND(QP, ibv_qp, handle)                          \
	KIND(FLOW, ibv_flow, handle)                      \
	KIND(AH, ibv_ah, handle)

enum kind {
#define KIND(name, type, handle) KIND_##name,
	KINDS_WITH_HANDLE(KIND)
#undef KIND
		KIND_WITH_HANDLE_COUNT,
	KIND_CHANNEL = KIND_WITH_HANDLE_COUNT,
	KIND_TD,
	KIND_XRCD,
	KIND_COUNTERS,
	KIND_COUNT,
};

struct opening {
	struct ibv_context *context;
	union ibv_gid gid; /* of index 0 */
};

struct item {
	enum kind kind;
	void *verbs; /* the public structure; NULL: this item is free */
	unsigned opening;
	unsigned users; /* items built on this one, and multicast groups */
	struct item *parents[PARENTS_MAX]; /* what this one is built on */
	struct item *base; /* of a parent domain */
	uint32_t id; /* of this one and no other of the world; 31 bits */
	uint32_t groups; /* of a queue pair: multicast groups, a bit each */
	bool is_xrc; /* of a shared receive queue */
	bool is_matching; /* likewise: one with tags */
	bool is_extended; /* of a completion queue or a queue pair */
	struct {
		uint32_t length;
		bool is_of_dm;
		bool may_be_bound; /* a window was asked for */
	} mr;
	enum ibv_qp_type type;
	uint32_t number; /* of a queue pair or a shared receive queue */
	struct {
		uint32_t sges;
		uint32_t posted; /* requests */
		/* The request after the last one that was completed; shared queues: how many */
		uint32_t done;
	} send, recv; /* of a queue pair or a receive queue */
};

/* A copy of a public structure whose object is gone. */
struct corpse {
	enum kind kind;
	uint64_t created; /* creation_count when it went; 0: none */
	union {
#define KIND(name, type, handle) struct type name;
		KINDS_WITH_HANDLE(KIND)
#undef KIND
	} verbs;
};

struct world {
	struct sim_random random;
	uint64_t seed;
	unsigned thread;
	struct opening openings[OPENINGS];
	struct item items[ITEMS_MAX];
	struct corpse corpses[CORPSES];
	unsigned corpse_next;
	uint8_t *buffer; /* BUFFER_BYTES, of this thread only */
	uint64_t call_count;
	_Atomic(const char *) call; /* in progress */
	_Atomic uint64_t beats; /* for the watchdog */
};

/* Objects made by all threads; the age of a corpse is counted in them. */
extern _Atomic uint64_t creation_count;

/* The numbers of queue pairs of all threads, destroyed ones included: destinations of requests. */
enum { QPNS = 64 };
extern _Atomic uint32_t known_qpns[QPNS];
extern _Atomic uint32_t known_srqns[QPNS];

__attribute__((noreturn, format(printf, 4, 5))) void world_fail(
	const struct world *world, const char *file, int line, const char *format, ...);

/* `condition` or the end, with the rest of the arguments in the message. */
#define CHECK(world, condition, ...)                                                        \
	do {                                                                                \
		if (!(condition))                                                           \
			world_fail(world, __FILE__, __LINE__, #condition ": " __VA_ARGS__); \
	} while (0)

static inline uint32_t below(struct world *world, uint32_t limit)
{
	return (uint32_t)sim_random_below(&world->random, limit);
}

static inline bool percent(struct world *world, uint32_t percents)
{
	return below(world, 100) < percents;
}

/* Some living item of this kind (of this opening); NULL when there is none. */
struct item *item_pick(struct world *world, enum kind kind);
struct item *item_pick_of(struct world *world, enum kind kind, unsigned opening);

/* Is there room for another one? Makes that likely to be so. */
bool world_has_room(const struct world *world);

/* An object that was made. `parents` ends with NULL. */
struct item *item_add(struct world *world, enum kind kind, void *verbs, unsigned opening,
	struct item *const parents[]);

/* An object was destroyed: its parents have a user less, and what was its structure is a corpse. */
void item_drop(struct world *world, struct item *item, const struct corpse *corpse);
struct corpse corpse_of(const struct item *item);

/* A random destroyed object; NULL when there is none. */
struct corpse *corpse_pick(struct world *world);

/* The handle in a public structure of this kind. */
uint32_t *handle_of(enum kind kind, void *verbs);
size_t kind_bytes(enum kind kind);

/* The address of the queue pairs of this opening, as the attributes of an address handle. */
struct ibv_ah_attr world_address(const struct world *world, unsigned opening);

/* A scatter/gather entry; mostly one that a queue pair of this domain may use. */
struct ibv_sge world_sge(struct world *world, unsigned opening);

/* One random call. */
void world_step(struct world *world);

/* Destroy everything in some order that the model allows; close_device takes the rest. */
void world_end(struct world *world);

/* Whole calls, by what they are about (calls_*.c). */
struct call {
	const char *name;
	unsigned weight;
	void (*run)(struct world *world);
};
extern const struct call calls_objects[];
extern const struct call calls_memory[];
extern const struct call calls_queues[];
extern const struct call calls_data[];
extern const struct call calls_wrong[];

/* What objects are built on: the domain, or the one behind it. */
static inline struct item *base_of(struct item *pd)
{
	return pd->base ? pd->base : pd;
}

/* Detach a queue pair from all multicast groups. */
void leave_groups(struct world *world, struct item *qp);

/* Destroy an item: 0 or EBUSY as the model says. */
void item_destroy(struct world *world, struct item *item);

#endif

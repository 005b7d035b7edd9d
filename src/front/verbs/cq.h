/* SPDX-License-Identifier: BSD-2-Clause */
/* The ABI's completion queues and channels. Each embeds or refers to an object of the NIC. */
#ifndef URNIC_FRONT_VERBS_CQ_H
#define URNIC_FRONT_VERBS_CQ_H

#include <endian.h>

#include "front/verbs/async.h"
#include "front/verbs/domain.h"
#include "front/verbs/object.h"
#include "nic/object/nic.h"

/*
 * Completion channels: the descriptor on which a program waits for completion events of many
 * queues.
 *
 * A completion queue embeds the event that it posts to its channel. The public structure has no
 * handle, so a channel's pointer is trusted. A channel is still an object, so that its queues keep
 * it from being destroyed.
 */
struct channel {
	struct ibv_comp_channel verbs;
	struct object object;
	struct event_queue queue;
	struct nic_channel *nic;
};

static inline struct channel *channel_of(struct ibv_comp_channel *verbs)
{
	return container_of(verbs, struct channel, verbs);
}

/* State of polling an extended queue; see cq_ex.c. */
struct cq_cursor {
	pthread_mutex_t lock; /* locked from start_poll to end_poll, if is_locking */
	bool is_locking;
	bool has_wallclock;
	uint64_t wallclock_offset_ns; /* the time of day, less the time of the NIC's clock */
	struct cqe cqe; /* the current completion */
};

struct cq_front {
	union {
		struct ibv_cq verbs;
		struct ibv_cq_ex extended; /* begins with struct ibv_cq */
	};
	struct object object;
	struct nic_cq *nic;
	struct channel *channel; /* NULL: no completion events */
	struct event completion; /* the completion event; it waits in the channel's queue */
	struct async_event error; /* the error event; it waits in the context's queue */
	size_t pinned_bytes; /* counted by strict_pin() */
	struct cq_cursor cursor; /* only an extended queue uses it */
};

/* Convert the program's pointer. Only the data path uses this, because it trusts such pointers. */
static inline struct cq_front *cq_of(struct ibv_cq *verbs)
{
	return container_of(verbs, struct cq_front, verbs);
}

/*
 * Create a completion queue. The caller has checked init->comp_mask, and applies init->wc_flags and
 * init->flags. NULL with errno on failure.
 */
struct cq_front *cq_create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *init);

/*
 * The value of imm_data in a struct ibv_wc: immediate data in network order, or an invalidated key
 * in host order.
 */
static inline uint32_t cqe_imm_data(const struct cqe *cqe)
{
	return cqe->flags & WC_WITH_IMM ? htobe32(cqe->imm) : cqe->imm;
}

/* The header fields of a datagram (struct cqe); 0 for other completions, which have none. */
static inline uint32_t cqe_datagram_header(const struct cqe *cqe)
{
	return cqe->flags & (WC_GRH | WC_LID) ? cqe->service_level : 0;
}

/*
 * The service level of a datagram (enum wc_service_level). 0 for other completions, which have
 * none.
 */
static inline uint8_t cqe_service_level(const struct cqe *cqe)
{
	return (uint8_t)cqe_datagram_header(cqe);
}

/* The path bits of the LID to which a datagram came. */
static inline uint8_t cqe_path_bits(const struct cqe *cqe)
{
	return (uint8_t)(cqe_datagram_header(cqe) >> 8);
}

/* The LID from which a datagram came; 0 over Ethernet. */
static inline uint16_t cqe_source_lid(const struct cqe *cqe)
{
	return (uint16_t)(cqe_datagram_header(cqe) >> 16);
}

void cq_free(void *memory);

#endif

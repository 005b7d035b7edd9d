/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive doubly linked list.
 *
 * A node that is in no list points to itself, so list_remove() is always allowed. A list neither
 * allocates nor owns its nodes. The caller serializes all access.
 */
#ifndef URNIC_NVMF_COMMON_LIST_H
#define URNIC_NVMF_COMMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

#ifndef container_of
#define container_of(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#endif

struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *node)
{
	node->next = node;
	node->prev = node;
}

static inline bool list_is_linked(const struct list *node)
{
	return node->next != node;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Append `node`, which is in no list. */
static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

#define list_first(head, type, member) container_of((head)->next, type, member)

#define list_for_each(iterator, head, type, member)                                        \
	for (type *iterator = list_first(head, type, member); &iterator->member != (head); \
		iterator = list_first(&iterator->member, type, member))

/* list_for_each() for a body that removes or frees the node at `iterator`, but no other node. */
#define list_for_each_safe(iterator, head, type, member)                          \
	for (type *iterator = list_first(head, type, member),                     \
		  *iterator##_next = list_first(&iterator->member, type, member); \
		&iterator->member != (head); iterator = iterator##_next,          \
		  iterator##_next = list_first(&iterator##_next->member, type, member))

#endif

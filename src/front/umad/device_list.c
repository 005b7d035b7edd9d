/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_get_ca_device_list(3): the adapters as a list. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "front/umad/abi.h"

struct umad_device_node *umad_get_ca_device_list(void)
{
	char names[1][UMAD_CA_NAME_LEN];
	struct umad_device_node *node;
	char *name;

	errno = 0;
	if (umad_get_cas_names(names, 1) < 1)
		return NULL;
	/* The name is in the same allocation as the node, so that one free() frees both. */
	node = malloc(sizeof(*node) + sizeof(names[0]));
	if (!node) {
		errno = ENOMEM;
		return NULL;
	}
	name = (char *)(node + 1);
	memcpy(name, names[0], sizeof(names[0]));
	*node = (struct umad_device_node){.ca_name = name};
	return node;
}

void umad_free_ca_device_list(struct umad_device_node *head)
{
	while (head) {
		struct umad_device_node *next = head->next;

		free(head);
		head = next;
	}
}

/*
 * Sort a list by name. The library's own list has one adapter at most, but the caller may have made
 * a longer one.
 */
int umad_sort_ca_device_list(struct umad_device_node **head, size_t size)
{
	struct umad_device_node *sorted = NULL;

	if (!head)
		return EINVAL;
	for (size_t count = 0; *head && (size == 0 || count < size); count++) {
		struct umad_device_node *node = *head;
		struct umad_device_node **place = &sorted;

		*head = node->next;
		while (*place && strcmp((*place)->ca_name, node->ca_name) <= 0)
			place = &(*place)->next;
		node->next = *place;
		*place = node;
	}
	*head = sorted;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_GROUP_H
#define URNIC_URNICD_GROUP_H

/*
 * The receive sockets of one local address: a SO_REUSEPORT group on (address, 4791), whose members
 * belong to slots.
 *
 * A classic BPF program selects the member by the top byte of the packet's destination QPN, which
 * is the slot. The kernel numbers members in the order in which they were bound, and a close
 * changes numbers. So urnicd opens several members at a time, and closes none before it closes all.
 * Member 0 belongs to slot 0, urnicd's own, and receives packets for slots without a member.
 *
 * A slot gets a member when its process opens the address. It keeps the member after the process
 * has returned the slot, until another slot needs one. So a group has about as many members as
 * slots were in use at one time.
 *
 * A member whose slot is not leased is barred: its filter drops all packets, so that its queue
 * stays empty.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_protocol.h"
#include "urnicd/lease/ledger.h"

enum {
	/*
	 * A step opens as many members as the group has already, within these bounds, and puts them
	 * into the fd store.
	 */
	GROUP_STEP_MIN = 4,
	GROUP_STEP_MAX = 64,
};

struct group {
	struct agent_address address;
	uid_t maker; /* user of the process that first requested the address; 0 after a restart */
	uint32_t count; /* sockets[count] and above are not open */
	int sockets[AGENT_SLOTS]; /* members */
	uint8_t slot_of_member[AGENT_SLOTS]; /* 0: no slot */
	uint8_t member_of_slot[AGENT_SLOTS]; /* 0: none */
	bool is_given[AGENT_SLOTS]; /* a process has received this member */
};

/* Close all sockets. */
void group_done(struct group *group);

/* The slot that needs a member, and the members that it may get. */
struct group_need {
	uint8_t slot;
	/* urnicd keeps the member, so it must be one that no process has received. */
	bool is_kept;
	const struct agent_slots *leased; /* slots that keep their members */
};

/* How many sockets group_assign() would open. */
uint32_t group_sockets_missing(const struct group *group, const struct group_need *need);

/*
 * Assign a member to a slot. The member is barred unless the slot had it before. For slot 0, open
 * the first sockets of the group.
 *
 * `store`  The fd store, which gets new sockets as well.
 *
 * Returns 0; -EADDRINUSE when another program of any user has the port; -EADDRNOTAVAIL when the
 * address is not this host's; or another -errno. Sockets opened so far stay open and in order.
 */
int group_assign(struct group *group, const struct group_need *need, int store);

/*
 * Adopt sockets that an earlier urnicd opened. group_restore() assigns their slots.
 *
 * `first`  The place of fds[0] among the members, from 0.
 * `fds`    `count` sockets; owned by the group on success, else by the caller.
 *
 * Returns false unless `first` equals the group's present count, and each socket is a RoCEv2 socket
 * of this user on the group's address.
 */
bool group_adopt(struct group *group, uint32_t first, const int *fds, uint32_t count);

/*
 * Assign members to slots as the ledger of an earlier urnicd says, as far as its entries are legal,
 * and steer to them.
 */
void group_restore(struct group *group, const struct ledger_group *noted);

/* Fill the ledger's entry of the group. */
void group_note(const struct group *group, struct ledger_group *ret_noted);

/*
 * After -EADDRINUSE from group_assign(): does the port belong to the group of an earlier urnicd of
 * this user? Then a survivor still has sockets of that group.
 */
bool group_has_survivors(const struct agent_address *address);

/* The socket of a slot; -1: the slot has none. */
int group_socket(const struct group *group, uint8_t slot);

/*
 * Is the socket of a slot barred? Its filter is then a single instruction; the filter that a
 * process installs is longer.
 */
bool group_is_barred(const struct group *group, uint8_t slot);

/* Bar a slot's socket, if the slot has one. */
void group_bar(struct group *group, uint8_t slot);

/* Remove the bar. `is_new_owner`: drop the queued packets, which are for the former owner. */
void group_admit(struct group *group, uint8_t slot, bool is_new_owner);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_GROUP_H
#define URNIC_URNICD_GROUP_H

/*
 * The receive sockets of one local address: a SO_REUSEPORT group on (address, 4791), the members of
 * which slots share.
 *
 * A classic BPF program picks the member by the top byte of the packet's destination QPN, which is
 * the slot. The kernel numbers members in the order in which they were bound, so they are opened
 * some at a time, and none is closed before all are. Member 0 is slot 0's, urnicd's own, and gets
 * what is for a slot that has no member.
 *
 * A slot gets a member when its process opens the address, and keeps it after the slot was given
 * back, until another slot needs one. So a group has about as many members as slots that are in use
 * at one time, whatever numbers they have.
 *
 * A member whose slot nobody leases is barred: a filter drops what comes, so that nothing queues
 * up.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_protocol.h"
#include "urnicd/ledger.h"

enum {
	GROUP_STEP_MIN =
		4, /* members opened, and put into the fd store, at a time: as many as there are */
	GROUP_STEP_MAX = 64,
};

struct group {
	struct agent_address address;
	uid_t maker; /* whose process was the first to ask for it; 0 after a restart */
	uint32_t count; /* sockets[count] and above are not open */
	int sockets[AGENT_SLOTS]; /* members */
	uint8_t slot_of_member[AGENT_SLOTS]; /* 0: nobody's */
	uint8_t member_of_slot[AGENT_SLOTS]; /* 0: none */
	bool is_given[AGENT_SLOTS]; /* a process has had this member */
};

/* An address without sockets. */
void group_init(struct group *group, const struct agent_address *address);

/* Close all sockets. */
void group_done(struct group *group);

/* Which slots are in use, and which members may be given to a slot. */
struct group_wish {
	uint8_t slot;
	bool is_kept; /* by urnicd: a member that no process has had */
	const struct agent_slots *leased; /* slots whose members stay theirs */
};

/* How many sockets group_assign() would open. */
uint32_t group_sockets_missing(const struct group *group, const struct group_wish *wish);

/*
 * Have a slot have a member, barred unless it had this one before. Slot 0: have the group have
 * sockets.
 *
 * `store`  Where new ones are put as well.
 *
 * Returns 0; -EADDRINUSE when somebody else has the port, of whichever user; -EADDRNOTAVAIL when
 * the address is not this host's; or another -errno. Sockets opened so far stay, still in order.
 */
int group_assign(struct group *group, const struct group_wish *wish, int store);

/* Have packets go where the table of members says. Nothing is to be done after group_assign(). */
int group_steer(const struct group *group);

/*
 * Take over sockets that an earlier urnicd opened. Their slots come with group_restore().
 *
 * `first`  Their number among the members.
 * `fds`    `count` sockets; owned by the group on success, else by the caller.
 *
 * Returns false unless they continue the group, and each is a RoCEv2 socket of ours on its address.
 */
bool group_adopt(struct group *group, uint32_t first, const int *fds, uint32_t count);

/*
 * Have members belong to slots as an earlier urnicd wrote down, as far as that can be; steer to
 * them.
 */
void group_restore(struct group *group, const struct ledger_group *noted);

/* Write down whose members are. */
void group_note(const struct group *group, struct ledger_group *ret_noted);

/*
 * After group_assign() said -EADDRINUSE: are they sockets of this very user that an earlier urnicd
 * opened, in the hands of a process that has not brought them back?
 */
bool group_has_survivors(const struct agent_address *address);

/* The socket of a slot; -1: it has none. */
int group_socket(const struct group *group, uint8_t slot);

/* A process gets the socket of a slot. */
void group_give(struct group *group, uint8_t slot);

/*
 * Is the socket of a slot barred? A filter of its owner's, which is longer than the bar's one
 * instruction, is no bar.
 */
bool group_is_barred(const struct group *group, uint8_t slot);

/* Let nothing into a slot's socket any more. Nothing happens if there is none. */
void group_bar(struct group *group, uint8_t slot);

/* Let packets in. `is_new_owner`: throw away what is queued, which was for another. */
void group_admit(struct group *group, uint8_t slot, bool is_new_owner);

#endif

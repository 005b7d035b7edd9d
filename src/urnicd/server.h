/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_SERVER_H
#define URNIC_URNICD_SERVER_H

/*
 * urnicd's server: one thread, one epoll loop.
 *
 * server.c owns the loop, the connections and the clock; requests.c answers messages;
 * fd_store_adopt.c takes over what an earlier urnicd left. All of it is bounded by the tables below
 * and allocated at start.
 *
 * After a start a second may have to pass before a slot can be given away: sockets of this user
 * that are open on port 4791 show that an earlier urnicd was killed, and only a survivor that
 * claims its slots brings the fd store. Until then (`settled_at_ms`) requests that depend on it
 * wait.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_protocol.h"
#include "urnicd/claim.h"
#include "urnicd/group.h"
#include "urnicd/gsi.h"
#include "urnicd/relay.h"
#include "urnicd/slot.h"

enum {
	SERVER_CLIENTS_MAX = 512, /* twice the slots: tools that only look need none */
	SERVER_GROUPS_MAX =
		LEDGER_GROUPS_MAX, /* local addresses; bounded by what the fd store can hold */
	SERVER_SETTLE_MS = 1000,
	SERVER_FOREIGN_MAX = 64, /* clients that are of other network namespaces, at a time */
};

struct client {
	int fd; /* -1: unused */
	int pidfd; /* its process; -1 if it cannot be watched */
	int memory; /* memfd of its NIC memory, or -1 */
	int gsi; /* where packets for QP1 go to it, or -1 */
	pid_t pid;
	uid_t uid;
	char comm[PROCESS_NAME_BYTES];
	struct agent_slots slots;
	bool is_foreign; /* of another network namespace: may ask for processes, and nothing else */
	bool is_greeted;
	bool is_survivor; /* of an earlier urnicd: it resumed */
	bool is_over_quota; /* to be told so */
	uint32_t claims; /* that it has */
	bool is_unwanted; /* accepted with the last descriptor, to be told so */
	bool is_waiting; /* `waiting` is to be answered later; until then nothing is read */
	struct agent_message waiting;
};

struct server {
	bool is_system;
	uint32_t idle_ms; /* without clients; 0: for ever */
	uint32_t sockets_max; /* in all groups together */
	int epoll;
	int listener;
	int reserve; /* a descriptor to accept with when there are no others, or -1: in use */
	bool is_useless; /* no program is connected, and none can connect */
	bool is_resting; /* the listener is not watched */
	uint64_t rests_until_ms;
	uint64_t netns; /* its network namespace: agent/place.h */
	uint64_t host; /* its host identity: agent/namespace_lookup.h */
	int fd_store;
	int ledger; /* in the fd store, too; or -1 */
	uint32_t generation; /* of it */
	bool has_adopted; /* a fd store with sockets or leases in it */
	bool has_survivors; /* is to be expected */
	uint64_t settled_at_ms;
	uint64_t idle_since_ms; /* while there are no clients */
	uint32_t client_count;
	uint32_t foreign_count; /* of them */
	uint32_t group_count;
	struct agent_counters counters;
	struct slot_table slots;
	struct client clients[SERVER_CLIENTS_MAX];
	struct group groups[SERVER_GROUPS_MAX];
	struct gsi_port gsi_ports[SERVER_GROUPS_MAX]; /* slot 0 of each group */
	/* Of packets for users other than root; NULL: this is not the system's urnicd */
	struct relay *relay;
	uint32_t closed_channels; /* that the fd store still has */
	struct claim_table claims;
	/* Of an urnicd that died: others may still have to claim what is theirs */
	bool is_successor;
	uint64_t started_at_ms;
};

struct server_settings {
	int listener; /* bound and listening; the caller's */
	int fd_store; /* empty, or inherited from an urnicd that died; the caller's */
	bool is_system; /* serve every user */
	uint32_t idle_ms; /* leave after so long without clients; 0: never */
	uint32_t sockets_max; /* open no more than these */
};

/* Returns 0 or -errno. */
int server_create(const struct server_settings *settings, struct server **ret_server);

/* Serve until idle. Returns 0, or -errno when the loop broke. */
int server_run(struct server *server);

/* Close everything but the settings' descriptors. NULL is fine. */
void server_destroy(struct server *server);

/* For the other files of urnicd. */

uint64_t server_now_ms(void);

/* Have all survivors had time to claim what is theirs? */
bool server_is_settled(const struct server *server);

/* The group of an address; NULL: there is none. */
struct group *server_group_find(struct server *server, const struct agent_address *address);

/*
 * Find or start the group of an address. Returns NULL when there are too many, those not counted
 * whose address has gone and that nobody uses: they are closed.
 */
struct group *server_group(struct server *server, const struct agent_address *address);

/* Is it an address of this network namespace's, and not one of many that nobody has set up? */
bool server_address_lasts(const struct agent_address *address);

/* Close the groups whose addresses do not last and that nobody uses. Returns how many they were. */
uint32_t server_drop_groups(struct server *server);

/* Have a slot have a socket of an address; slot 0: urnicd itself. As group_assign(). */
int server_group_assign(struct server *server, struct group *group, uint8_t slot, uid_t uid);

/* How many sockets that would open. */
uint32_t server_group_missing(
	const struct server *server, const struct group *group, uint8_t slot, uid_t uid);

/* Poll slot 0 of a group, which just got its sockets. */
void server_watch_group(struct server *server, struct group *group);

/* Write into the ledger what has changed. */
void server_note_group(struct server *server, const struct group *group);
void server_note_lease(struct server *server, uint8_t slot);

/* May this user's processes have members of groups? Others have channels (urnicd/relay.h). */
bool server_gives_members(const struct server *server, uid_t uid);

/* Bar a slot's sockets, close its channels. */
void server_clear_slot(struct server *server, uint8_t slot);

/* The slot has no owner any more: return it, bar its sockets, close its channels. */
void server_release_slot(struct server *server, uint8_t slot);

#endif

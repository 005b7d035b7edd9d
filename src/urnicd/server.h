/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_SERVER_H
#define URNIC_URNICD_SERVER_H

/*
 * urnicd's server: one thread, one epoll loop.
 *
 * server.c has the loop and the clock, server_clients.c the connections, server_groups.c groups and
 * leases. requests.c answers messages. fd_store_adopt.c adopts the sockets of an earlier urnicd.
 * All memory is bounded by the tables below and allocated at start.
 *
 * Open sockets of this user on port 4791 at the start show that an earlier urnicd was killed. Only
 * a survivor that resumes its slots can pass on the fd store. So requests that depend on the leases
 * wait for a second, until `survivors_until_ms`.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_protocol.h"
#include "urnicd/gsi.h"
#include "urnicd/lease/claim.h"
#include "urnicd/lease/group.h"
#include "urnicd/lease/relay.h"
#include "urnicd/lease/slot.h"

enum {
	SERVER_CLIENTS_MAX = 512, /* twice the slots: tools that only read need no slot */
	SERVER_GROUPS_MAX =
		LEDGER_GROUPS_MAX, /* local addresses; the fd store's size bounds them */
	SERVER_SURVIVORS_MS = 1000,
	SERVER_FOREIGN_MAX = 64, /* present clients from other network namespaces */
};

struct client {
	int fd; /* -1: unused */
	int pidfd; /* pidfd of its process; -1 if urnicd cannot watch the process */
	int memory; /* memfd of its NIC memory, or -1 */
	int gsi; /* socket for its packets for QP1, or -1 */
	pid_t pid;
	uid_t uid;
	char comm[PROCESS_NAME_BYTES];
	struct agent_slots slots;
	/* From another network namespace: the client may send no request but AGENT_FIND. */
	bool is_foreign;
	bool is_greeted; /* urnicd has answered its HELLO */
	bool is_survivor; /* it resumed slots of an earlier urnicd */
	bool had_low_port; /* the survivor had a port below 1024 */
	bool is_over_quota; /* the user had reached its quota: the first request is refused */
	uint32_t claims; /* the number of its claims */
	uint64_t gsi_groups; /* a bit for each group at whose address the client listens to QP1 */
	/* Accepted on the descriptor of server.reserve; its first request is refused. */
	bool is_unwanted;
	bool is_waiting; /* `waiting` is answered later; until then urnicd reads no other request */
	struct agent_message waiting;
};

struct server {
	bool is_system;
	uint32_t idle_ms; /* leave after this time without clients; 0: never */
	uint32_t sockets_max; /* limit on the sockets of all groups together */
	int epoll;
	int listener;
	int reserve; /* a descriptor to close when accept() finds no free one; -1: closed */
	bool is_useless; /* no program is connected, and none can connect */
	bool is_resting; /* the loop does not watch the listener until rests_until_ms */
	uint64_t rests_until_ms;
	uint64_t netns; /* number of our network namespace: agent/place.h */
	uint64_t host; /* our host identity: agent/namespace_lookup.h */
	int fd_store;
	int ledger; /* the ledger, which is also in the fd store; or -1 */
	uint32_t generation; /* generation of the ledger */
	bool has_adopted; /* this urnicd has adopted sockets or leases */
	bool has_survivors; /* survivors of an earlier urnicd may still connect */
	uint64_t survivors_until_ms;
	uint64_t idle_since_ms; /* when the last client left; valid while there are no clients */
	uint32_t client_count;
	uint32_t foreign_count; /* number of clients with is_foreign */
	uint32_t group_count;
	struct agent_counters counters;
	struct slot_table slots;
	struct client clients[SERVER_CLIENTS_MAX];
	struct group groups[SERVER_GROUPS_MAX];
	struct gsi_port gsi_ports[SERVER_GROUPS_MAX]; /* QP1 at slot 0 of each group */
	/* Passes packets to processes of users other than root; NULL: not the system's urnicd */
	struct relay *relay;
	/* Channels closed since the last sweep of the fd store, which still has them. */
	uint32_t closed_channels;
	struct claim_table claims;
	bool is_successor; /* an earlier urnicd died; survivors may still repeat their claims */
	uint64_t started_at_ms;
};

struct server_settings {
	int listener; /* bound and listening; the caller's */
	int fd_store; /* empty, or inherited from an urnicd that died; the caller's */
	bool is_system; /* serve every user */
	uint32_t idle_ms; /* leave after this time without clients; 0: never */
	uint32_t sockets_max; /* limit on the sockets of all groups together */
};

/* Create a server, which first adopts the sockets in the fd store. Returns 0 or -errno. */
int server_create(const struct server_settings *settings, struct server **ret_server);

/* Serve until the server is idle or useless. Returns 0, or -errno when epoll_wait() fails. */
int server_run(struct server *server);

/* Close everything but the settings' descriptors. NULL is fine. */
void server_destroy(struct server *server);

/* --- for the other files of urnicd --- */

/* The subject of an epoll event: the kind in the upper half of its data, an index in the lower. */
enum watch { WATCH_LISTENER, WATCH_CLIENT, WATCH_PROCESS, WATCH_GROUP };

/* epoll_ctl() for one subject. Returns 0 or -errno. */
int server_epoll_watch(struct server *server, int operation, int fd, uint32_t events,
	enum watch what, uint64_t index);

/* Accept one connection (server_clients.c). Returns false when none was waiting. */
bool server_accept(struct server *server);

/* Watch the listener again, once it has rested after a shortage of descriptors. */
void server_listener_wake(struct server *server);

/* Close a connection and release the slots, claims and channels of its process. */
void server_client_drop(struct server *server, struct client *client);

/* Watch a client's connection, unless its request waits: a client has one request at a time. */
void server_client_rearm(struct server *server, struct client *client);

uint64_t server_now_ms(void);

/* Have all survivors had time to resume? */
bool server_has_waited(const struct server *server);

/* The group of an address; NULL: none. */
struct group *server_group_find(struct server *server, const struct agent_address *address);

/*
 * Find or start the group of an address. When the table is full, closes unused groups: those whose
 * address no interface has or, if there are none, all. Returns NULL when the table stays full.
 */
struct group *server_group(struct server *server, const struct agent_address *address);

/* Does an interface here have the address? Of 127.0.0.0/8, only 127.0.0.1 counts. */
bool server_address_lasts(const struct agent_address *address);

/* Which unused groups to close. */
enum server_drop {
	SERVER_DROP_GONE, /* those whose addresses no interface has */
	SERVER_DROP_UNUSED, /* all */
};

/* Close unused groups. Returns their number. */
uint32_t server_drop_groups(struct server *server, enum server_drop which);

/* Assign a socket of a group to a slot; slot 0 is urnicd's own. Returns as group_assign(). */
int server_group_assign(struct server *server, struct group *group, uint8_t slot, uid_t uid);

/* The client listens to QP1 at the group's address from now on. */
void server_note_listener(
	const struct server *server, struct client *client, const struct group *group);

/* How many sockets server_group_assign() would open. */
uint32_t server_group_missing(
	const struct server *server, const struct group *group, uint8_t slot, uid_t uid);

/* Watch slot 0's socket of a group whose first sockets are open now. */
void server_watch_group(struct server *server, struct group *group);

/* Write a changed group or lease into the ledger. */
void server_note_group(struct server *server, const struct group *group);
void server_note_lease(struct server *server, uint8_t slot);

/* May this user's processes receive members of groups? Others get channels (lease/relay.h). */
bool server_gives_members(const struct server *server, uid_t uid);

/* Bar a slot's sockets and close its channels. */
void server_clear_slot(struct server *server, uint8_t slot);

/* End the lease of a slot: do what server_clear_slot() does, and make the slot free. */
void server_release_slot(struct server *server, uint8_t slot);

#endif

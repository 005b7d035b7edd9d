/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SUBNET_MANAGER_MANAGER_INTERNAL_H
#define URNIC_SUBNET_MANAGER_MANAGER_INTERNAL_H

/*
 * The embedded subnet manager. A sweep (manager_route.c) finds all nodes that the manager's port
 * reaches, gives them LIDs, computes shortest routes, spread over equal ones, and sets ports
 * active. The sweep changes nodes by function calls, not by SMPs. SMPs and queries from other nodes
 * reach the manager as frames.
 *
 * manager.c makes the manager and handles SMPs to it, manager_handover.c has its state among other
 * subnet managers. manager_answer.c answers as the subnet administrator, with the records of
 * manager_record.c, manager_path.c and manager_group.c.
 */

#include "base/gid.h"
#include "mad/mad_layer.h"
#include "subnet/subnet_internal.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"

enum {
	RECORDS_MAX = 1 << 18, /* of one answer */
	PACKET_LIFE = 12, /* 4.096 us * 2^12 */
	SM_KEY = 1, /* OpenSM's default, too */
	GROUPS_MAX = MULTICAST_FDB_CAP,
	MANAGER_PEERS_MAX = 16, /* other managers; the embedded one ignores more */
};

struct manager_member {
	uint32_t node;
	uint8_t port;
	uint8_t join_state;
};

struct manager_group {
	struct gid mgid;
	uint16_t mlid;
	uint16_t pkey;
	uint32_t qkey;
	uint32_t flow_label;
	uint8_t mtu;
	uint8_t rate;
	uint8_t life;
	uint8_t sl;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t scope;
	uint32_t member_count;
	struct manager_member *members;
};

/* The end port that has a LID. */
struct manager_lid {
	uint32_t node; /* its number + 1; 0: nobody's */
	uint8_t port;
};

/* Another subnet manager, at a port of a CA with IsSM. */
struct manager_peer {
	uint32_t node;
	uint8_t port;
	uint8_t hops;
	uint8_t path[SMP_PATH_BYTES]; /* the directed route to it, from byte 1 */
	uint8_t lost; /* polls without an answer, since its last answer */
	bool has_answered;
	uint64_t get_transaction; /* of the SubnGet without an answer; 0: none */
	uint64_t set_transaction; /* of the SubnSet without an answer; 0: none */
	struct ib_sm_info info; /* its last answer */
};

struct subnet_manager {
	uint32_t node; /* the manager's node */
	uint32_t port;
	bool is_enabled;
	bool is_disabled; /* by SubnSet(SMInfo) */
	bool is_change_pending;
	bool is_new_master; /* it has not swept since it became the master */
	enum ib_sm_state state;
	uint32_t act_count;
	uint32_t transaction;
	uint32_t polls_without_master; /* polls since a master answered; not used by a master */
	uint32_t peer_count;
	uint64_t poll_ns; /* when to poll the others again */
	struct manager_peer peers[MANAGER_PEERS_MAX];
	struct manager_lid *lids; /* LINEAR_FDB_CAP */
	uint16_t lid_last; /* the highest in use */
	struct manager_group **groups; /* by MLID; NULL: none */
	struct manager_answers *answers;
};

/* Something has changed that a sweep would find. */
void manager_notice_change(struct subnet *subnet);

/* Returns 0; -ENOMEM; or -ENOSPC when the subnet has more end ports than there are LIDs. */
int manager_sweep(struct subnet *subnet);
/* Set the MulticastForwardingTables for the groups. Returns 0 or -ENOMEM. */
int manager_route_groups(struct subnet *subnet);

/*
 * Find the ports of CAs with IsSM that the manager reaches, and directed routes to them. Returns 0
 * or -ENOMEM.
 */
int manager_find_peers(
	struct subnet *subnet, struct manager_peer found[MANAGER_PEERS_MAX], uint32_t *ret_count);

/* --- manager_handover.c --- */

/* The only function that assigns the manager's state. It sets IsSM of the manager's port. */
void manager_set_state(struct subnet *subnet, enum ib_sm_state state);
/*
 * The manager's SMInfo. It shows the SM_Key to every requester, as OpenSM does. OpenSM ignores a
 * manager that shows another key than its own, or zero.
 */
struct ib_sm_info manager_sm_info(const struct subnet *subnet);
/* Look for other managers, poll them, and change the state. */
void manager_handover_advance(struct subnet *subnet);
uint64_t manager_handover_deadline_ns(const struct subnet *subnet);
/* The caller has disabled the embedded manager: forget the other managers. */
void manager_handover_stop(struct subnet *subnet);
/* SubnSet(SMInfo) from another manager; returns the status. */
uint16_t manager_control(struct subnet *subnet, uint32_t control, const struct ib_sm_info *sender);
/* A response has arrived at the manager's port. Returns whether it was to the manager. */
bool manager_receive_response(struct subnet *subnet, const uint8_t mad[MAD_BYTES]);

/* --- queries --- */

/* A query, decoded. */
struct manager_query {
	uint8_t method;
	uint16_t attribute_id;
	uint32_t modifier;
	uint64_t component_mask;
	bool is_trusted; /* the sender knows the SM_Key, so the answer shows members of groups */
	const uint8_t *record; /* SA_DATA_BYTES, in the query's MAD */
};

/* The records of an answer. */
struct manager_records {
	uint8_t *bytes;
	uint32_t count;
	uint32_t capacity;
	uint32_t record_bytes; /* a multiple of 8 */
	/* More than RECORDS_MAX records, too many candidates that do not fit, or no memory. */
	bool is_too_long;
};

/* Room for one more record, zeroed; NULL: none is left. */
uint8_t *manager_records_add(struct manager_records *records);

/*
 * Each of these executes a query. It adds the answer's records to `records`, and returns the status
 * for the response's MAD header.
 */
uint16_t manager_records_get(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records);
uint16_t manager_paths_get(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records);
uint16_t manager_groups_answer(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records);

/* The GID of an end port. */
struct gid manager_port_gid(const struct node_port *port);
/* The end port that has the GID; NULL: none that the manager reaches. */
const struct manager_lid *manager_find_gid(const struct subnet *subnet, const struct gid *gid);
/* The rate of a link, as SA records encode it. */
uint8_t manager_rate_code(uint32_t mbps);
uint32_t manager_rate_mbps(uint8_t code);
/* The group of a GID; NULL: none. */
struct manager_group *manager_find_group(
	const struct subnet_manager *manager, const struct gid *mgid);
void manager_groups_clear(struct subnet_manager *manager);

/* A MAD of subnet administration has arrived at the manager's node. */
void manager_receive_query(
	struct subnet *subnet, const struct mad_frame *from, const uint8_t mad[MAD_BYTES]);
int manager_answer_create(struct subnet *subnet);
void manager_answer_destroy(struct subnet_manager *manager);
void manager_answer_advance(struct subnet *subnet);
uint64_t manager_answer_deadline_ns(const struct subnet_manager *manager);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_AGENT_CLIENT_H
#define URNIC_AGENT_AGENT_CLIENT_H

/*
 * A process's connection to urnicd: slots, receive sockets, packets that went astray.
 *
 * One per process. agent_client_connect() finds the system's urnicd, else the user's own
 * (agent/place.h), else starts one. urnicd may die at any time; the sockets it gave us go on. Its
 * death shows as end of file on agent_client_fd(): agent_client_receive() says -ECONNRESET, and the
 * caller calls agent_client_resume(), which finds or starts a new urnicd, hands it the sockets that
 * it needs to carry on (the fd store) and claims our slots again. A request that meets a dead urnicd
 * does the same by itself, once.
 *
 * The caller serializes all calls on one client. They wait for a second at most while urnicd is
 * well, and for AGENT_ANSWER_TIMEOUT_S when it is stopped. agent_client_receive(), _forward() and
 * _forget() never wait; _detach() and _unclaim() wait some milliseconds. A caller that shares the
 * client between threads gives it a `pause`, which lets go of the caller's lock while a call waits.
 * At each of these points all descriptors of the client are in the struct, so that a child of a
 * fork at that point can close them.
 *
 * After fork() the child calls agent_client_forget() and may then connect anew: the connection is
 * its parent's.
 *
 * A call that fails leaves a sentence for the user in `why`.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_protocol.h"
#include "base/list.h"

enum {
	/*
	 * urnicd answers at once, but for a second in which it waits for survivors of its
	 * predecessor. The rest is for machines that are busy, or were suspended.
	 */
	AGENT_ANSWER_TIMEOUT_S = 20,
	/* Destroying what urnicd knows of does not wait for longer. */
	AGENT_GIVE_BACK_MS = 50,
};

/* Around each wait: let go of the lock that serializes the calls, and take it again. */
struct agent_pause {
	void (*begin)(void);
	void (*end)(void);
};

struct agent_client {
	const struct agent_pause *pause; /* NULL: the thread waits with whatever it has locked */
	int fd; /* the connection, or -1 */
	int watcher; /* epoll of the connection, whichever it is, or -1 */
	int fd_store; /* dup of urnicd's fd store, or -1; never read here */
	int old_fd_store; /* that of the urnicd that has died, while another is told; or -1 */
	int memory; /* our NIC memory's memfd (the caller's), or -1 */
	uint32_t agent_pid; /* process number of urnicd, for messages; 0: it has not said yet */
	uint32_t sequence; /* of the last request */
	bool is_silent; /* the last request was not answered, and nothing has come since */
	struct agent_slots slots; /* that we lease */
	struct agent_slots lost; /* that a new urnicd had given away before we could resume */
	struct list claims; /* of struct agent_claim: made again when urnicd is */
	uint32_t claims_made; /* ever: names the next one */
	uint64_t forwards_dropped; /* packets that arrived while we waited for an answer */
	char why[AGENT_WHY_BYTES];
};

/*
 * A service ID, claimed from urnicd against all processes. The caller's memory, from
 * agent_client_claim() to agent_client_unclaim().
 */
struct agent_claim {
	struct list node;
	uint64_t service_id;
	struct agent_address address;
	uint32_t flags; /* enum agent_claim_flags */
	uint32_t id;
	bool is_lost; /* after the death of urnicd, another process was faster */
	bool is_repeated; /* the new urnicd was asked for it */
};

/* A packet for one of our slots that reached another process, or another lane of ours. */
struct agent_packet {
	struct agent_forward head;
	uint8_t data[AGENT_PACKET_BYTES_MAX];
};

/* One process that urnicd serves. */
struct agent_process {
	uint32_t pid;
	uint32_t uid;
	char comm[PROCESS_NAME_BYTES];
	struct agent_slots slots;
	int memory; /* its NIC memory, owned by the caller; -1 if none, or another user's */
};

/*
 * Initialize a client that is not connected: agent_client_forget() is all that may be called, and
 * agent_client_begin(), which connects it as agent_client_connect() does.
 *
 * `pause`  NULL, or what to do around each wait. Kept.
 */
void agent_client_init(struct agent_client *client, const struct agent_pause *pause);
int agent_client_begin(struct agent_client *client);

/*
 * Connect to urnicd, starting it if need be.
 *
 * `client`  Uninitialized. After a failure it needs no done().
 *
 * Returns 0; -ENOENT when the program urnicd is not found; -ENOTDIR when it finds no directory for
 * its socket; -ETIMEDOUT when it does not take the connection or does not answer; or another
 * -errno.
 */
int agent_client_connect(struct agent_client *client);

/* Like connect, but -ECONNREFUSED when no urnicd runs: for tools that only look. */
int agent_client_connect_running(struct agent_client *client);

/* Close the connection, which gives all slots back. */
void agent_client_done(struct agent_client *client);

/* In a forked child: close the descriptors, leave the parent's leases alone. */
void agent_client_forget(struct agent_client *client);

/*
 * The descriptor to poll for input: there is something to receive, or urnicd has died. The same
 * from connect to done, over all resumptions.
 */
int agent_client_fd(const struct agent_client *client);

/*
 * Lease a slot.
 *
 * `memory`  memfd of the process's NIC memory, whose counters tools of the same user may read; or
 *           -1. One per process: a later one replaces it. Stays the caller's and open as long as
 *           the client.
 *
 * Returns 0 and a slot from 1 to 255, -ENOSPC when all are leased, -EDQUOT when our user has its
 * share of them, or another -errno.
 */
int agent_client_attach(struct agent_client *client, int memory, uint8_t *ret_slot);

/*
 * Give a slot back. The caller has closed the sockets that came with it. Waits for the answer for
 * AGENT_GIVE_BACK_MS, and not at all while urnicd is silent; it is given back all the same.
 */
void agent_client_detach(struct agent_client *client, uint8_t slot);

/*
 * Get the receive socket of (`slot`, `address`), bound to port 4791: nonblocking, UDP_GRO, TOS
 * reported.
 *
 * `slot`  One that we lease.
 *
 * Returns 0 and a socket that the caller owns; -EADDRINUSE when something else has the port (`why`
 * says who, and what to do); -EADDRNOTAVAIL when the address is not this host's; -EUSERS for too
 * many addresses; -ENOSPC for too many sockets; or another -errno.
 */
int agent_client_open(struct agent_client *client, uint8_t slot,
	const struct agent_address *address, int *ret_socket);

/*
 * Pass on a packet that is for another slot.
 *
 * `data`  `head->data_bytes` bytes, BTH to pad, its ICRC already checked.
 *
 * Returns 0; or -EAGAIN or another -errno: the packet is lost, as a network may lose it.
 */
int agent_client_forward(
	struct agent_client *client, const struct agent_forward *head, const uint8_t *data);

/*
 * Take the next packet that was passed on to us.
 *
 * Returns 0 and the packet; -EAGAIN when there is none; -ECONNRESET when urnicd is gone: resume.
 */
int agent_client_receive(struct agent_client *client, struct agent_packet *ret_packet);

/*
 * After urnicd died: find or start another and carry on.
 *
 * `client->lost` gains the slots that could not be claimed again. Their lanes receive nothing any
 * more: the caller closes their sockets and puts their queue pairs into error.
 *
 * Returns 0, or the -errno of connecting; sockets in use go on either way, and the call may be
 * repeated.
 */
int agent_client_resume(struct agent_client *client);

/* Has urnicd ended, or is there no connection? */
bool agent_client_has_ended(const struct agent_client *client);

/*
 * Leave the sentence in `why` for a call that would wait for a silent urnicd. Returns -ETIMEDOUT.
 */
int agent_client_fail_silent(struct agent_client *client);

/*
 * List who urnicd serves, one process per call.
 *
 * `index`  0 at first; moved on by each call.
 *
 * Returns 0 and a process, -ENOENT after the last, or another -errno.
 */
int agent_client_list(
	struct agent_client *client, uint32_t *index, struct agent_process *ret_process);

/*
 * Get the socket on which packets for QP1 come that are for this process: messages AGENT_FORWARD,
 * for agent_message_receive(). At its end urnicd has died: ask again.
 *
 * `slot`  One that we lease; our communication IDs have it as their top byte.
 *
 * Returns 0 and a socket that the caller owns, or -errno.
 */
int agent_client_gsi_open(struct agent_client *client, uint8_t slot, int *ret_socket);

/*
 * Have urnicd take in what comes for QP1 at a local address. Returns 0, or -errno as
 * agent_client_open().
 */
int agent_client_gsi_address(struct agent_client *client, const struct agent_address *address);

/*
 * Claim a service ID, or change the address or flags of a claim that is in the list.
 *
 * `claim`  Zeroed before its first use, but for service_id, address, flags. With port 0 a free one
 *          is chosen. Unchanged on failure.
 *
 * Returns 0; -EADDRINUSE when another claim has the same port of the same address, or
 * -EADDRNOTAVAIL of any address (the two that rdma_bind_addr(3) tells apart); -EACCES for a port
 * below 1024 without CAP_NET_BIND_SERVICE; -EDQUOT when our user has its share of ports; -ENOSPC;
 * or another -errno.
 */
int agent_client_claim(struct agent_client *client, struct agent_claim *claim);

/* Give a claim back. One that was never made is fine. Waits as agent_client_detach() does. */
void agent_client_unclaim(struct agent_client *client, struct agent_claim *claim);

/* The same without a wait: also while another thread waits in a call on the same client. */
void agent_client_unclaim_unanswered(struct agent_client *client, struct agent_claim *claim);

/*
 * Who has this slot?
 *
 * Returns 0 and a process, whose slots and name are not said; -ENOENT: nobody; or another -errno.
 */
int agent_client_find(struct agent_client *client, uint8_t slot, struct agent_process *ret_process);

/*
 * The process that the answer to a FIND tells of. Its memory is the caller's; all else that came is
 * closed.
 */
void agent_process_found(const struct agent_message *answer, struct passed_fds *descriptors,
	struct agent_process *ret_process);

/* Read urnicd's own counters. Returns 0 or -errno. */
int agent_client_stat(struct agent_client *client, struct agent_counters *ret_counters);

#endif

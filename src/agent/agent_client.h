/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_AGENT_CLIENT_H
#define URNIC_AGENT_AGENT_CLIENT_H

/*
 * A process's connection to urnicd: slots, receive sockets, misdirected packets.
 *
 * A process has one client. agent_client_connect() finds the system's urnicd, else the user's own
 * (agent/place.h), else starts one. urnicd may die at any time; sockets in use keep working. The
 * end of file on agent_client_fd() reports its death, and agent_client_receive() returns
 * -ECONNRESET. The caller then calls agent_client_resume(), which finds or starts a new urnicd,
 * passes it the fd store of its predecessor, and resumes the leases of this process. If a request
 * finds urnicd dead, the client calls agent_client_resume() itself, and sends the request once
 * more.
 *
 * The caller serializes all calls on one client. A call waits for a second at most while urnicd
 * runs, and for AGENT_ANSWER_TIMEOUT_S when urnicd is stopped (SIGSTOP). agent_client_receive(),
 * _forward() and _forget() never wait; _detach() and _unclaim() wait for milliseconds. A caller
 * that shares the client between threads sets `pause`, which releases the caller's lock while a
 * call waits. During such a wait struct agent_client holds all descriptors of the client, so that
 * the child of a fork can close them.
 *
 * The connection belongs to the process that made it. After fork() the child calls
 * agent_client_forget() and may connect anew.
 *
 * A call that fails leaves a sentence for the user in `why`.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_protocol.h"
#include "base/list.h"

enum {
	/*
	 * urnicd waits for survivors of its predecessor for a second and otherwise answers at once.
	 * The rest of this time is for a machine that is busy or was suspended.
	 */
	AGENT_ANSWER_TIMEOUT_S = 20,
	/* The longest wait of a call that returns a slot or a claim. */
	AGENT_GIVE_BACK_MS = 50,
};

/*
 * The calls around each wait: begin() releases the lock that serializes the calls, end() takes it
 * again.
 */
struct agent_pause {
	void (*begin)(void);
	void (*end)(void);
};

struct agent_client {
	const struct agent_pause *pause; /* NULL: the thread keeps its locks while it waits */
	int fd; /* the connection, or -1 */
	int watcher; /* epoll set with the present connection in it, or -1 */
	int fd_store; /* dup of urnicd's fd store, or -1; never read here */
	int old_fd_store; /* fd store of the dead urnicd, during a resumption; or -1 */
	int memory; /* memfd of our NIC memory (the caller's), or -1 */
	uint32_t agent_pid; /* process number of urnicd, for messages; 0: not known yet */
	uint32_t sequence; /* number of the last request */
	bool is_silent; /* the last request timed out, and no message has arrived since */
	struct agent_slots slots; /* leased to this client */
	struct agent_slots lost; /* leased by a new urnicd to others before we could resume */
	struct list claims; /* list of struct agent_claim, which are repeated at each new urnicd */
	uint32_t claims_made; /* number of claims so far; the next claim's id is one more */
	char why[AGENT_WHY_BYTES];
};

/*
 * A service ID that urnicd keeps for this process. The caller owns the memory, to which the client
 * refers from agent_client_claim() to agent_client_unclaim().
 */
struct agent_claim {
	struct list node;
	uint64_t service_id;
	struct agent_address address;
	uint32_t flags; /* enum agent_claim_flags */
	uint32_t id; /* chosen by the client; 0: not claimed */
	bool is_repeated; /* this claim was made again at the new urnicd */
};

/* A packet for a slot of this process that reached another process, or another of our lanes. */
struct agent_packet {
	struct agent_forward head;
	uint8_t data[AGENT_PACKET_BYTES_MAX];
};

/* A process that urnicd serves. */
struct agent_process {
	uint32_t pid;
	uint32_t uid;
	char comm[PROCESS_NAME_BYTES];
	struct agent_slots slots;
	int memory; /* its NIC memory, owned by the caller; -1: none, or it is another user's */
};

/*
 * Initialize a client that is not connected. The only calls that may follow are
 * agent_client_forget() and agent_client_begin(). The latter connects as agent_client_connect()
 * does.
 *
 * `pause`  NULL, or the calls around each wait. The client keeps the pointer.
 */
void agent_client_init(struct agent_client *client, const struct agent_pause *pause);
int agent_client_begin(struct agent_client *client);

/*
 * Connect to urnicd, and start it if none runs.
 *
 * `client`  Uninitialized. After a failure it needs no agent_client_done().
 *
 * Returns 0; -ENOENT when the program urnicd is not found; -ENOTDIR when urnicd finds no directory
 * for its socket; -ETIMEDOUT when urnicd does not accept or does not answer; or another -errno.
 */
int agent_client_connect(struct agent_client *client);

/* Like agent_client_connect(), but -ECONNREFUSED when no urnicd runs: for tools that only read. */
int agent_client_connect_running(struct agent_client *client);

/* Close the connection, which returns all slots. */
void agent_client_done(struct agent_client *client);

/* In a forked child: close the descriptors; the parent's leases stay. */
void agent_client_forget(struct agent_client *client);

/*
 * The descriptor to poll for input. It is readable when a message waits or urnicd has died. The
 * descriptor stays the same until agent_client_done(), over all resumptions.
 */
int agent_client_fd(const struct agent_client *client);

/*
 * Lease a slot.
 *
 * `memory`  memfd of the process's NIC memory, whose counters tools of the same user may read; or
 *           -1. A process has one memfd; a later one replaces it. The caller keeps the memfd open
 *           as long as the client.
 *
 * Returns 0 and a slot from 1 to 255, -ENOSPC when all are leased, -EDQUOT when our user has used
 * up its quota, or another -errno.
 */
int agent_client_attach(struct agent_client *client, int memory, uint8_t *ret_slot);

/*
 * Return a slot, whose sockets the caller has closed. Waits for the answer for at most
 * AGENT_GIVE_BACK_MS, and not at all while urnicd is silent. urnicd gets the slot back even if its
 * answer does not come in this time.
 */
void agent_client_detach(struct agent_client *client, uint8_t slot);

/*
 * Get the receive socket of (`slot`, `address`), bound to port 4791: nonblocking, UDP_GRO, TOS
 * reported.
 *
 * `slot`  Leased to this client.
 *
 * Returns 0 and a socket that the caller owns; -EADDRINUSE when another program has the port (`why`
 * names it and the remedy); -EADDRNOTAVAIL when the address is not this host's; -EUSERS for too
 * many addresses; -ENOSPC for too many sockets; or another -errno.
 */
int agent_client_open(struct agent_client *client, uint8_t slot,
	const struct agent_address *address, int *ret_socket);

/*
 * Pass a packet on to the process of another slot.
 *
 * `data`  `head->data_bytes` bytes, BTH to pad, its ICRC already checked.
 *
 * Returns 0; or -EAGAIN or another -errno: the packet is dropped, as a network may drop it.
 */
int agent_client_forward(
	struct agent_client *client, const struct agent_forward *head, const uint8_t *data);

/*
 * Receive the next packet that another process passed on to this one.
 *
 * Returns 0 and the packet; -EAGAIN when there is none; -ECONNRESET when urnicd has died (then call
 * agent_client_resume()).
 */
int agent_client_receive(struct agent_client *client, struct agent_packet *ret_packet);

/*
 * After the death of urnicd: connect to another urnicd, which the call starts if none runs, and
 * resume the leases and claims.
 *
 * `client->lost` gains the slots that could not be resumed. Their lanes receive no more packets, so
 * the caller puts their queue pairs into error. If another process has claimed the service ID of a
 * listener first, the listener gets no more requests. The log has a sentence about each of these
 * slots and listeners.
 *
 * Returns 0, or the -errno of connecting. Sockets in use keep working in both cases, and the caller
 * may repeat the call.
 */
int agent_client_resume(struct agent_client *client);

/* Has urnicd ended, or is there no connection? */
bool agent_client_has_ended(const struct agent_client *client);

/*
 * urnicd has not answered in time: store in client->why the sentence that says so. Returns
 * -ETIMEDOUT.
 */
int agent_client_fail_silent(struct agent_client *client);

/*
 * List the processes that urnicd serves, one per call.
 *
 * `index`  0 at first; each call advances it.
 *
 * Returns 0 and a process, -ENOENT after the last, or another -errno.
 */
int agent_client_list(
	struct agent_client *client, uint32_t *index, struct agent_process *ret_process);

/*
 * Get the socket on which urnicd passes this process its packets for QP1. Each packet comes in a
 * message AGENT_FORWARD, which agent_message_receive() reads. End of file means that urnicd has
 * died; then call this function again.
 *
 * `slot`  Leased to this client; the top byte of our communication IDs.
 *
 * Returns 0 and a socket that the caller owns, or -errno.
 */
int agent_client_gsi_open(struct agent_client *client, uint8_t slot, int *ret_socket);

/* Have urnicd receive QP1's packets at a local address. Returns as agent_client_open(). */
int agent_client_gsi_address(struct agent_client *client, const struct agent_address *address);

/*
 * Claim a service ID, or change the address or flags of a claim that is in the list.
 *
 * `claim`  Zeroed before its first use, except for service_id, address and flags. For port 0 urnicd
 *          chooses a free port. Unchanged on failure.
 *
 * Returns 0; -EADDRINUSE when another claim has the same port at the same address; -EADDRNOTAVAIL
 * when another claim has the same port, and one of the two claims is for any address
 * (rdma_bind_addr(3) tells the two errors apart); -EACCES for a port below 1024 without
 * CAP_NET_BIND_SERVICE; -EDQUOT when our user has used up its quota of ports; -ENOSPC; or another
 * -errno.
 */
int agent_client_claim(struct agent_client *client, struct agent_claim *claim);

/*
 * Return a claim. Does nothing if the claim was never made. If `may_wait` is set, waits as
 * agent_client_detach() does. If it is not set, this call is allowed even while another thread
 * waits in a call on the same client.
 */
void agent_client_unclaim(struct agent_client *client, struct agent_claim *claim, bool may_wait);

/*
 * Find the process that leases a slot.
 *
 * Returns 0 and a process, without its slots and name; -ENOENT: the slot is free; or another
 * -errno.
 */
int agent_client_find(struct agent_client *client, uint8_t slot, struct agent_process *ret_process);

/*
 * Read the process from a FIND's answer. The caller owns the descriptor of that process's memory;
 * other descriptors are closed.
 */
void agent_process_found(const struct agent_message *answer, struct passed_fds *descriptors,
	struct agent_process *ret_process);

/* Read urnicd's own counters. Returns 0 or -errno. */
int agent_client_stat(struct agent_client *client, struct agent_counters *ret_counters);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/lease/group.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"
#include "port/address.h"
#include "port/socket.h"
#include "urnicd/lease/fd_store.h"
#include "wire/roce.h"

enum {
	RECEIVE_BUFFER_BYTES = 8 << 20,
	/* The steering program halves the slots until this many are left, then compares each. */
	LEAF_SLOTS = 8,
	PROGRAM_INSTRUCTIONS_MAX = 1024,
	QPN_TOP_BYTE = 5, /* its offset in the BTH, which begins the UDP payload: IBTA 9.2 */
};

static_assert((int)GROUP_STEP_MAX <= (int)FD_STORE_DESCRIPTORS_MAX,
	"a step is one message in the fd store");

void group_done(struct group *group)
{
	while (group->count > 0)
		close(group->sockets[--group->count]);
}

/* Set the options that the lane needs. They apply to all descriptors of the socket. */
static int set_options(int fd, bool is_ipv4)
{
	int rc;

	if ((rc = socket_set(fd, SOL_UDP, UDP_GRO, 1)))
		return rc;
	if (is_ipv4)
		rc = socket_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
	else if (!(rc = socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) &&
		!(rc = socket_set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1)))
		rc = socket_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	/* A smaller buffer, where the limit is lower, is no error. */
	if (socket_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES))
		socket_set(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_BYTES);
	return rc;
}

static int bind_socket(int fd, const struct agent_address *address)
{
	union socket_address name;
	socklen_t bytes =
		socket_address_make(&name, &address->gid, address->scope_ifindex, ROCE_UDP_PORT);

	return bind(fd, &name.base, bytes) ? -errno : 0;
}

/* Returns a socket or -errno. */
static int udp_socket(const struct agent_address *address)
{
	int fd = socket(gid_is_ipv4(&address->gid) ? AF_INET : AF_INET6,
		SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);

	return fd < 0 ? -errno : fd;
}

/*
 * Is the port free? The bind() of a member does not tell, because it would succeed in the group of
 * an earlier urnicd of the same user, behind sockets that this urnicd does not know.
 */
static int address_probe(const struct agent_address *address)
{
	int fd = udp_socket(address);
	int rc;

	if (fd < 0)
		return fd;
	rc = bind_socket(fd, address);
	close(fd);
	return rc;
}

/* Returns the next member, barred, or -errno. */
static int member_open(const struct agent_address *address)
{
	int fd = udp_socket(address);
	int rc;

	if (fd < 0)
		return fd;
	if ((rc = set_options(fd, gid_is_ipv4(&address->gid))) ||
		(rc = socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1)) ||
		(rc = socket_refuse_input(fd)) || (rc = bind_socket(fd, address))) {
		close(fd);
		return rc;
	}
	return fd;
}

bool group_has_survivors(const struct agent_address *address)
{
	/*
	 * The socket is the last member: the program steers no packet to it, and its close moves no
	 * other member.
	 */
	int fd = member_open(address);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* The steering program, under construction. */
struct program {
	struct sock_filter code[PROGRAM_INSTRUCTIONS_MAX];
	uint16_t count;
};

static void program_emit(struct program *program, struct sock_filter instruction)
{
	assert(program->count < PROGRAM_INSTRUCTIONS_MAX);
	program->code[program->count++] = instruction;
}

/*
 * Emit code that finds the slot, which is in the accumulator, and returns the slot's member. The
 * code halves the `count` ordered slots until few are left, and compares with each. The default is
 * member 0.
 */
static void emit_choice(
	struct program *program, const struct group *group, const uint8_t *slots, uint32_t count)
{
	uint32_t half = count / 2;
	uint16_t jump;

	if (count <= LEAF_SLOTS) {
		for (uint32_t i = 0; i < count; i++) {
			program_emit(program,
				(struct sock_filter)BPF_JUMP(
					BPF_JMP | BPF_JEQ | BPF_K, slots[i], 0, 1));
			program_emit(program,
				(struct sock_filter)BPF_STMT(
					BPF_RET | BPF_K, group->member_of_slot[slots[i]]));
		}
		program_emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0));
		return;
	}
	program_emit(program,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, slots[half], 0, 1));
	jump = program->count;
	program_emit(program, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	emit_choice(program, group, slots, half);
	program->code[jump].k = (uint32_t)(program->count - jump - 1);
	emit_choice(program, group, slots + half, count - half);
}

/* Attach the program that steers by the table of members. */
static int group_steer(const struct group *group)
{
	struct program program = {.count = 0};
	struct sock_fprog filter;
	uint8_t slots[AGENT_SLOTS];
	uint32_t count = 0;

	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
		if (group->member_of_slot[slot])
			slots[count++] = (uint8_t)slot;
	program_emit(
		&program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, QPN_TOP_BYTE));
	emit_choice(&program, group, slots, count);
	filter = (struct sock_fprog){.len = (unsigned short)program.count, .filter = program.code};
	return setsockopt(group->sockets[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &filter,
		       sizeof(filter))
		? -errno
		: 0;
}

static uint32_t next_step(const struct group *group)
{
	uint32_t step = max_u32(min_u32(group->count, GROUP_STEP_MAX), GROUP_STEP_MIN);

	return min_u32(step, AGENT_SLOTS - group->count);
}

static int grow_step(struct group *group, int store)
{
	struct fd_store_label label = {
		.version = AGENT_VERSION,
		.kind = FD_STORE_SOCKETS,
		.address = group->address,
		.first = group->count,
	};
	uint32_t end = group->count + next_step(group);
	int rc;

	while (group->count < end) {
		rc = member_open(&group->address);
		if (rc < 0)
			goto fail_close;
		group->sockets[group->count++] = rc;
	}
	label.count = group->count - label.first;
	rc = fd_store_put(store, &label, group->sockets + label.first);
	if (rc)
		goto fail_close;
	/* These sockets now stay open even if urnicd dies, because the fd store has them. */
	return 0;
fail_close:
	/* These are the last members: closing them moves no other. */
	while (group->count > label.first)
		close(group->sockets[--group->count]);
	return rc;
}

/* Open a group's first members, and steer to them. Returns 0 or -errno. */
static int group_begin(struct group *group, int store)
{
	int rc = address_probe(&group->address);

	if (!rc)
		rc = grow_step(group, store);
	if (!rc)
		rc = group_steer(group);
	if (!rc)
		group_admit(group, 0, false);
	return rc;
}

/* The member that the slot has or may get without a new socket; 0: none. */
static uint8_t member_for(const struct group *group, const struct group_need *need)
{
	uint8_t best = group->member_of_slot[need->slot];

	if (best && !(need->is_kept && group->is_given[best]))
		return best;
	best = 0;
	for (uint32_t member = 1; member < group->count; member++) {
		uint8_t slot = group->slot_of_member[member];

		if (need->is_kept && group->is_given[member])
			continue;
		if (!slot)
			return (uint8_t)member;
		if (!best && !agent_slots_has(need->leased, slot))
			best = (uint8_t)member;
	}
	return best;
}

uint32_t group_sockets_missing(const struct group *group, const struct group_need *need)
{
	if (group->count > 0 && (need->slot == 0 || member_for(group, need)))
		return 0;
	return next_step(group);
}

/*
 * Assign the member to this slot alone. Entry 0 of both tables stays 0, because 0 means "none" in
 * them.
 */
static void table_put(struct group *group, uint8_t slot, uint8_t member)
{
	group->slot_of_member[group->member_of_slot[slot]] = 0;
	group->member_of_slot[group->slot_of_member[member]] = 0;
	group->slot_of_member[member] = slot;
	group->member_of_slot[slot] = member;
}

int group_assign(struct group *group, const struct group_need *need, int store)
{
	uint8_t member;
	int rc = group->count == 0 ? group_begin(group, store) : 0;

	if (rc || need->slot == 0)
		return rc;
	member = member_for(group, need);
	if (!member) {
		rc = group->count == AGENT_SLOTS ? -ENOSPC : grow_step(group, store);
		if (rc)
			return rc;
		member = member_for(group, need);
	}
	if (group->member_of_slot[need->slot] == member)
		return 0;
	socket_refuse_input(group->sockets[member]);
	table_put(group, need->slot, member);
	return group_steer(group);
}

int group_socket(const struct group *group, uint8_t slot)
{
	uint8_t member = group->member_of_slot[slot];

	return group->count > 0 && (slot == 0 || member) ? group->sockets[member] : -1;
}

void group_note(const struct group *group, struct ledger_group *ret_noted)
{
	*ret_noted = (struct ledger_group){.address = group->address, .is_used = group->count > 0};
	for (uint32_t member = 0; member < group->count; member++) {
		ret_noted->slot_of_member[member] = group->slot_of_member[member];
		ret_noted->is_given[member] = group->is_given[member];
	}
}

void group_restore(struct group *group, const struct ledger_group *noted)
{
	memset(group->slot_of_member, 0, sizeof(group->slot_of_member));
	memset(group->member_of_slot, 0, sizeof(group->member_of_slot));
	for (uint32_t member = 1; member < group->count; member++) {
		if (noted->slot_of_member[member])
			table_put(group, noted->slot_of_member[member], (uint8_t)member);
		group->is_given[member] = noted->is_given[member] != 0;
	}
	group_steer(group);
}

/* Is `fd` a socket with the properties of member_open(), created by this user? */
static bool is_member(int fd, const struct agent_address *address)
{
	union socket_address name = {0};
	socklen_t bytes = sizeof(name);
	int type, reuse;
	socklen_t type_bytes = sizeof(type), reuse_bytes = sizeof(reuse);
	struct gid gid;
	struct stat status;

	if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
		return false;
	if (getsockname(fd, &name.base, &bytes) != 0 ||
		(name.base.sa_family != AF_INET && name.base.sa_family != AF_INET6))
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &type, &type_bytes) != 0 ||
		getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &reuse, &reuse_bytes) != 0)
		return false;
	gid = socket_address_gid(&name);
	return type == IPPROTO_UDP && reuse && socket_address_port(&name) == ROCE_UDP_PORT &&
		gid_is_equal(&gid, &address->gid) &&
		(!gid_is_link_local(&gid) || name.ipv6.sin6_scope_id == address->scope_ifindex);
}

bool group_adopt(struct group *group, uint32_t first, const int *fds, uint32_t count)
{
	if (first != group->count || count > AGENT_SLOTS - group->count)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_member(fds[i], &group->address))
			return false;
	}
	for (uint32_t i = 0; i < count; i++)
		group->sockets[group->count++] = fds[i];
	return true;
}

bool group_is_barred(const struct group *group, uint8_t slot)
{
	socklen_t instructions = 0;

	/* The filter that the slot's process attaches (port/udp/udp_bypass.c) is longer. */
	return getsockopt(group_socket(group, slot), SOL_SOCKET, SO_GET_FILTER, NULL,
		       &instructions) == 0 &&
		instructions == 1;
}

void group_bar(struct group *group, uint8_t slot)
{
	int fd = group_socket(group, slot);

	if (fd >= 0)
		socket_refuse_input(fd);
}

void group_admit(struct group *group, uint8_t slot, bool is_new_owner)
{
	int fd = group_socket(group, slot);
	const int unused = 0;
	uint8_t byte;

	if (fd < 0)
		return;
	/* The filter still drops new packets, so the loop ends. */
	while (is_new_owner && recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
	if (group_is_barred(group, slot))
		setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}

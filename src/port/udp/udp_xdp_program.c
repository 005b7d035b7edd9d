/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/udp/udp_xdp_program.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arith.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/roce_frame.h"

#define XDP_PROGRAM_NAME "urnic_roce"

enum {
	XDP_ADDRESSES_MAX = 4096, /* of all queues of the interface */
	XDP_JOIN_ATTEMPTS = 8, /* another process may attach or leave at the same time */
	XDP_SLOT_OFFSET = 5, /* in a BTH: the top byte of the destination QPN */
	/* Frames shorter than these hold no BTH and ICRC. */
	XDP_IPV4_BYTES_MIN =
		ROCE_ETHERNET_BYTES + IPV4_BYTES + ROCE_UDP_BYTES + BTH_BYTES + ROCE_ICRC_BYTES,
	XDP_IPV6_BYTES_MIN = XDP_IPV4_BYTES_MIN + IPV6_BYTES - IPV4_BYTES,
};

/* A key of the map of addresses: the queue redirects packets to this address and slot. */
struct xdp_address {
	uint8_t gid[16];
	uint32_t queue;
	uint32_t slot;
};

/* The value of that key: the Ethernet address of the packets. */
struct xdp_link_address {
	uint8_t mac[6];
	uint8_t unused[2];
};

/*
 * An extra key of the map of addresses. Its value is twice the cookie of the network namespace,
 * plus 1 for a generic program. No queue has this number.
 */
static const struct xdp_address netns_key = {.queue = UINT32_MAX, .slot = UINT32_MAX};

static int bpf_call(enum bpf_cmd command, union bpf_attr *attr)
{
	int rc = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	return rc < 0 ? -errno : rc;
}

static uint64_t bpf_pointer(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* --- the program --- */

/*
 * A program under construction. Its conditions jump to the last instructions, which pass the packet
 * to the network stack.
 */
struct xdp_code {
	struct bpf_insn insn[96];
	uint8_t count;
};

enum { PASS = INT16_MAX }; /* a jump to the instructions that pass the packet */

/* Registers that a call of the kernel keeps. */
enum { R_CONTEXT = BPF_REG_6, R_FRAME, R_END, R_UDP };

static void code_add(struct xdp_code *code, int op, int to, int from, int offset, int32_t value)
{
	code->insn[code->count++] = (struct bpf_insn){
		.code = (uint8_t)op,
		.dst_reg = (uint32_t)to & 0xfu,
		.src_reg = (uint32_t)from & 0xfu,
		.off = (int16_t)offset,
		.imm = value,
	};
}

static void code_copy(struct xdp_code *code, int to, int from)
{
	code_add(code, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

static void code_set(struct xdp_code *code, int to, int32_t value)
{
	code_add(code, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}

static void code_increase(struct xdp_code *code, int to, int32_t value)
{
	code_add(code, BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}

/* Load `size` (BPF_B, BPF_H or BPF_W) at `base` + `offset`. */
static void code_load(struct xdp_code *code, int size, int to, int base, int offset)
{
	code_add(code, BPF_LDX | BPF_MEM | size, to, base, offset, 0);
}

static void code_store(struct xdp_code *code, int size, int base, int offset, int from)
{
	code_add(code, BPF_STX | BPF_MEM | size, base, from, offset, 0);
}

/* Pass the packet if the comparison is true. */
static void code_pass_if(struct xdp_code *code, int comparison, int left, int32_t right)
{
	code_add(code, BPF_JMP | comparison | BPF_K, left, 0, PASS, right);
}

static void code_pass_if_reg(struct xdp_code *code, int comparison, int left, int right)
{
	code_add(code, BPF_JMP | comparison | BPF_X, left, right, PASS, 0);
}

/* Pass the packet unless the `size` bytes at `base` + `offset` have this value (network order). */
static void code_require(struct xdp_code *code, int size, int base, int offset, uint16_t value)
{
	code_load(code, size, BPF_REG_3, base, offset);
	code_pass_if(code, BPF_JNE, BPF_REG_3, size == BPF_H ? htons(value) : value);
}

/* Pass a frame of less than `bytes`. */
static void code_require_bytes(struct xdp_code *code, int32_t bytes)
{
	code_copy(code, BPF_REG_2, R_FRAME);
	code_increase(code, BPF_REG_2, bytes);
	code_pass_if_reg(code, BPF_JGT, BPF_REG_2, R_END);
}

static void code_map(struct xdp_code *code, int to, int map)
{
	code_add(code, BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map);
	code_add(code, 0, 0, 0, 0, 0);
}

/* The place of the key's field on the stack. */
#define KEY_AT(field) ((int)offsetof(struct xdp_address, field) - (int)sizeof(struct xdp_address))

static void code_store_word(struct xdp_code *code, int offset, uint32_t value)
{
	code_set(code, BPF_REG_3, (int32_t)value);
	code_store(code, BPF_W, BPF_REG_10, offset, BPF_REG_3);
}

static void code_udp_at(struct xdp_code *code, int32_t offset)
{
	code_copy(code, R_UDP, R_FRAME);
	code_increase(code, R_UDP, offset);
}

static void code_ipv4(struct xdp_code *code)
{
	const int ip = ROCE_ETHERNET_BYTES;

	code_require(code, BPF_B, R_FRAME, ip, IPV4_VERSION_AND_WORDS);
	code_load(code, BPF_H, BPF_REG_3, R_FRAME, ip + IPV4_FLAGS);
	code_pass_if(code, BPF_JSET, BPF_REG_3, htons(IPV4_FRAGMENT));
	code_require(code, BPF_B, R_FRAME, ip + IPV4_PROTOCOL, IP_PROTOCOL_UDP);
	code_store_word(code, KEY_AT(gid), 0);
	code_store_word(code, KEY_AT(gid) + 4, 0);
	code_store_word(code, KEY_AT(gid) + 8, htonl(0xffff));
	code_load(code, BPF_W, BPF_REG_3, R_FRAME, ip + IPV4_ADDRESSES + 4);
	code_store(code, BPF_W, BPF_REG_10, KEY_AT(gid) + 12, BPF_REG_3);
	code_udp_at(code, ip + IPV4_BYTES);
}

static void code_ipv6(struct xdp_code *code)
{
	const int ip = ROCE_ETHERNET_BYTES;

	code_require_bytes(code, XDP_IPV6_BYTES_MIN);
	code_require(code, BPF_B, R_FRAME, ip + IPV6_NEXT_HEADER, IP_PROTOCOL_UDP);
	for (int i = 0; i < 16; i += 4) {
		code_load(code, BPF_W, BPF_REG_3, R_FRAME, ip + IPV6_ADDRESSES + 16 + i);
		code_store(code, BPF_W, BPF_REG_10, KEY_AT(gid) + i, BPF_REG_3);
	}
	code_udp_at(code, ip + IPV6_BYTES);
}

/*
 * Pass the packet unless the map of addresses has the key that is on the stack, and its value is
 * the frame's Ethernet address.
 */
static void code_look_up(struct xdp_code *code, int addresses)
{
	code_map(code, BPF_REG_1, addresses);
	code_copy(code, BPF_REG_2, BPF_REG_10);
	code_increase(code, BPF_REG_2, -(int)sizeof(struct xdp_address));
	code_add(code, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
	code_pass_if(code, BPF_JEQ, BPF_REG_0, 0);
	code_load(code, BPF_W, BPF_REG_3, BPF_REG_0, 0);
	code_load(code, BPF_W, BPF_REG_4, R_FRAME, 0);
	code_pass_if_reg(code, BPF_JNE, BPF_REG_3, BPF_REG_4);
	code_load(code, BPF_H, BPF_REG_3, BPF_REG_0, 4);
	code_load(code, BPF_H, BPF_REG_4, R_FRAME, 4);
	code_pass_if_reg(code, BPF_JNE, BPF_REG_3, BPF_REG_4);
}

/* Let the jump at `from` lead to the next instruction. */
static void code_land(struct xdp_code *code, uint8_t from)
{
	code->insn[from].off = (int16_t)(code->count - from - 1);
}

/*
 * Append the end of the program: first the redirection of the packet, then the instructions that
 * pass it, to which the jumps of the conditions lead.
 */
static void code_end(struct xdp_code *code, int sockets)
{
	code_map(code, BPF_REG_1, sockets);
	code_load(code, BPF_W, BPF_REG_2, R_CONTEXT, offsetof(struct xdp_md, rx_queue_index));
	code_set(code, BPF_REG_3, XDP_PASS); /* for a queue without a socket */
	code_add(code, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
	code_add(code, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	for (uint8_t i = 0; i < code->count; i++)
		if (code->insn[i].off == PASS)
			code_land(code, i);
	code_set(code, BPF_REG_0, XDP_PASS);
	code_add(code, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void code_make(struct xdp_code *code, const struct xdp_program *program)
{
	uint8_t to_ipv4, to_udp;

	code_copy(code, R_CONTEXT, BPF_REG_1);
	code_load(code, BPF_W, R_FRAME, R_CONTEXT, offsetof(struct xdp_md, data));
	code_load(code, BPF_W, R_END, R_CONTEXT, offsetof(struct xdp_md, data_end));
	code_copy(code, BPF_REG_2, R_FRAME);
	code_increase(code, BPF_REG_2, XDP_FRAME_BYTES_MAX);
	code_pass_if_reg(code, BPF_JLT, BPF_REG_2, R_END);
	code_require_bytes(code, XDP_IPV4_BYTES_MIN);
	code_load(code, BPF_H, BPF_REG_3, R_FRAME, ROCE_MACS_BYTES);
	to_ipv4 = code->count;
	code_add(code, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_3, 0, 0, htons(ETHER_TYPE_IPV4));
	code_pass_if(code, BPF_JNE, BPF_REG_3, htons(ETHER_TYPE_IPV6));
	code_ipv6(code);
	to_udp = code->count;
	code_add(code, BPF_JMP | BPF_JA, 0, 0, 0, 0);
	code_land(code, to_ipv4);
	code_ipv4(code);
	code_land(code, to_udp);
	code_require(code, BPF_H, R_UDP, 2, ROCE_UDP_PORT);
	code_load(code, BPF_B, BPF_REG_3, R_UDP, ROCE_UDP_BYTES + XDP_SLOT_OFFSET);
	code_store(code, BPF_W, BPF_REG_10, KEY_AT(slot), BPF_REG_3);
	code_load(code, BPF_W, BPF_REG_3, R_CONTEXT, offsetof(struct xdp_md, rx_queue_index));
	code_store(code, BPF_W, BPF_REG_10, KEY_AT(queue), BPF_REG_3);
	code_look_up(code, program->addresses);
	code_end(code, program->sockets);
}

/* --- maps --- */

static int map_create(
	enum bpf_map_type type, uint32_t key_bytes, uint32_t value_bytes, uint32_t entries)
{
	union bpf_attr attr = {
		.map_type = type,
		.key_size = key_bytes,
		.value_size = value_bytes,
		.max_entries = entries,
	};

	return bpf_call(BPF_MAP_CREATE, &attr);
}

static int map_set(int map, const void *key, const void *value)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map, .key = bpf_pointer(key), .value = bpf_pointer(value)};

	return bpf_call(BPF_MAP_UPDATE_ELEM, &attr);
}

static int map_get(int map, const void *key, void *ret_value)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map, .key = bpf_pointer(key), .value = bpf_pointer(ret_value)};

	return bpf_call(BPF_MAP_LOOKUP_ELEM, &attr);
}

static int map_remove(int map, const void *key)
{
	union bpf_attr attr = {.map_fd = (uint32_t)map, .key = bpf_pointer(key)};

	return bpf_call(BPF_MAP_DELETE_ELEM, &attr);
}

/* Get the key that follows `key` in the map; `key` NULL: the first one. */
static int map_next(int map, const void *key, void *ret_key)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map, .key = bpf_pointer(key), .next_key = bpf_pointer(ret_key)};

	return bpf_call(BPF_MAP_GET_NEXT_KEY, &attr);
}

static int maps_make(struct xdp_program *program, uint64_t netns)
{
	const uint64_t place = netns << 1 | program->is_generic;

	static_assert(sizeof(place) == sizeof(struct xdp_link_address), "the size of values");
	program->addresses = map_create(BPF_MAP_TYPE_HASH, sizeof(struct xdp_address),
		sizeof(struct xdp_link_address), XDP_ADDRESSES_MAX);
	if (program->addresses < 0)
		return program->addresses;
	program->sockets =
		map_create(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), sizeof(uint32_t), XDP_QUEUES_MAX);
	if (program->sockets < 0)
		return program->sockets;
	return map_set(program->addresses, &netns_key, &place);
}

int xdp_program_load(struct xdp_program *program, bool is_generic, uint64_t netns)
{
	struct xdp_code code = {.count = 0};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insns = bpf_pointer(code.insn),
		.license = bpf_pointer("BSD"),
		.prog_name = XDP_PROGRAM_NAME,
		.expected_attach_type = BPF_XDP,
	};
	int rc;

	*program = (struct xdp_program){-1, -1, -1, is_generic};
	rc = maps_make(program, netns);
	if (!rc) {
		code_make(&code, program);
		attr.insn_cnt = code.count;
		rc = bpf_call(BPF_PROG_LOAD, &attr);
	}
	if (rc < 0)
		xdp_program_leave(program);
	return rc;
}

/* --- joining --- */

static int program_attach(
	struct xdp_program *program, uint32_t ifindex, bool is_generic, uint64_t netns)
{
	int fd = xdp_program_load(program, is_generic, netns);
	union bpf_attr attr = {
		.link_create = {
			.prog_fd = (uint32_t)fd,
			.target_ifindex = ifindex,
			.attach_type = BPF_XDP,
			.flags = is_generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE,
		}};

	if (fd < 0)
		return fd;
	program->link = bpf_call(BPF_LINK_CREATE, &attr);
	close(fd);
	if (program->link >= 0)
		return 0;
	fd = program->link;
	xdp_program_leave(program);
	return fd;
}

static int info_get(int fd, void *ret_info, uint32_t bytes)
{
	union bpf_attr attr = {
		.info = {.bpf_fd = (uint32_t)fd, .info_len = bytes, .info = bpf_pointer(ret_info)}};

	return bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

static int fd_by_id(enum bpf_cmd command, uint32_t id)
{
	union bpf_attr attr = {.prog_id = id}; /* the union has each kind of number at this place */

	return bpf_call(command, &attr);
}

/* Does the map have this layout? Another version of urnic may have another. */
static bool is_map_of(int map, enum bpf_map_type type, size_t key_bytes, size_t value_bytes)
{
	struct bpf_map_info info = {.type = 0};

	return !info_get(map, &info, sizeof(info)) && info.type == (uint32_t)type &&
		info.key_size == key_bytes && info.value_size == value_bytes;
}

/* Open the maps of the program with this number, if it is urnic's for this network namespace. */
static int maps_join(struct xdp_program *program, uint32_t id, uint64_t netns)
{
	uint32_t maps[2] = {0, 0};
	struct bpf_prog_info info = {.nr_map_ids = ARRAY_COUNT(maps), .map_ids = bpf_pointer(maps)};
	uint64_t found = 0;
	int fd = fd_by_id(BPF_PROG_GET_FD_BY_ID, id);
	int rc = fd < 0 ? fd : info_get(fd, &info, sizeof(info));

	fd_close(&fd);
	if (rc)
		return rc;
	if (strcmp(info.name, XDP_PROGRAM_NAME) != 0 || info.nr_map_ids != ARRAY_COUNT(maps))
		return -EBUSY;
	/* The kernel lists the maps in the order of their first use. */
	program->addresses = fd_by_id(BPF_MAP_GET_FD_BY_ID, maps[0]);
	program->sockets = fd_by_id(BPF_MAP_GET_FD_BY_ID, maps[1]);
	if (program->addresses < 0 || program->sockets < 0)
		return -ENOENT;
	if (!is_map_of(program->addresses, BPF_MAP_TYPE_HASH, sizeof(struct xdp_address),
		    sizeof(struct xdp_link_address)) ||
		!is_map_of(
			program->sockets, BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), sizeof(uint32_t)))
		return -EBUSY;
	if (map_get(program->addresses, &netns_key, &found) || found >> 1 != netns)
		return -EBUSY;
	program->is_generic = found & 1;
	return 0;
}

/* Join the program behind a link with this number, if it is urnic's on this interface. */
static int link_join(struct xdp_program *program, uint32_t id, uint32_t ifindex, uint64_t netns)
{
	struct bpf_link_info info = {.type = 0};
	int rc;

	*program = (struct xdp_program){-1, -1, -1, false};
	program->link = fd_by_id(BPF_LINK_GET_FD_BY_ID, id);
	if (program->link < 0)
		return program->link;
	rc = info_get(program->link, &info, sizeof(info));
	if (!rc && (info.type != BPF_LINK_TYPE_XDP || info.xdp.ifindex != ifindex))
		rc = -EBUSY;
	if (!rc)
		rc = maps_join(program, info.prog_id, netns);
	if (rc)
		xdp_program_leave(program);
	return rc;
}

/*
 * Join urnic's program on the interface. Returns 0, -EBUSY if none is there, or another -errno.
 */
static int program_find(struct xdp_program *program, uint32_t ifindex, uint64_t netns)
{
	union bpf_attr attr = {.start_id = 0};
	int rc;

	while (!(rc = bpf_call(BPF_LINK_GET_NEXT_ID, &attr))) {
		rc = link_join(program, attr.next_id, ifindex, netns);
		if (rc == 0 || rc == -EPERM)
			return rc;
		attr.start_id = attr.next_id;
	}
	return rc == -ENOENT ? -EBUSY : rc;
}

int xdp_program_join(struct xdp_program *program, uint32_t ifindex, bool is_generic, uint64_t netns)
{
	int rc = -EBUSY;

	/* Another process may attach its program before program_attach(), or leave after it. */
	for (int i = 0; i < XDP_JOIN_ATTEMPTS && rc == -EBUSY; i++) {
		rc = program_attach(program, ifindex, is_generic, netns);
		if (rc == -EBUSY || rc == -EEXIST)
			rc = program_find(program, ifindex, netns);
	}
	return rc;
}

int xdp_program_take_queue(const struct xdp_program *program, uint32_t queue, int socket)
{
	struct xdp_address key, next;
	bool has_next = map_next(program->addresses, NULL, &next) == 0;

	while (has_next) {
		key = next;
		has_next = map_next(program->addresses, &key, &next) == 0;
		if (key.queue == queue)
			map_remove(program->addresses, &key);
	}
	return map_set(program->sockets, &queue, &socket);
}

static struct xdp_address key_of(uint32_t queue, const struct gid *gid, uint8_t slot)
{
	struct xdp_address key = {.queue = queue, .slot = slot};

	memcpy(key.gid, gid->raw, sizeof(key.gid));
	return key;
}

int xdp_program_redirect(const struct xdp_program *program, uint32_t queue, const struct gid *gid,
	uint8_t slot, const uint8_t mac[6])
{
	const struct xdp_address key = key_of(queue, gid, slot);
	struct xdp_link_address value = {.unused = {0}};

	memcpy(value.mac, mac, sizeof(value.mac));
	return map_set(program->addresses, &key, &value);
}

void xdp_program_pass(
	const struct xdp_program *program, uint32_t queue, const struct gid *gid, uint8_t slot)
{
	const struct xdp_address key = key_of(queue, gid, slot);

	map_remove(program->addresses, &key);
}

void xdp_program_leave(struct xdp_program *program)
{
	fd_close(&program->addresses);
	fd_close(&program->sockets);
	fd_close(&program->link);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Set-up of the socket that bypasses UDP (udp_bypass.c): its filters, its ring, and the interface.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/arith.h"
#include "os/kernel.h"
#include "port/udp/udp_internal.h"
#include "port/udp/udp_xdp.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/opcode.h"

enum {
	BYPASS_BLOCK_BYTES = 1 << 16,
	BYPASS_SHORT_BYTES = 1500, /* longest frame that the ring gets whole, with its headers */
	BYPASS_SOCKETS_MAX = 8, /* on one interface, because each filters every packet there */
};

/*
 * A classic BPF program under construction. It is a list of conditions, and a packet has to meet
 * all of them.
 */
enum { OTHERWISE = UINT8_MAX }; /* a jump to the instruction after program_otherwise() */

struct program {
	struct sock_filter code[32];
	uint8_t count;
};

/*
 * Append a condition: load `size` (BPF_B, BPF_H or BPF_W) at `offset` of the packet, and compare it
 * with `value`. With BPF_JEQ the condition holds if both are equal, with BPF_JSET if they have no
 * common bit. If the condition holds, the program continues with the next one.
 */
static void program_require(
	struct program *program, uint16_t size, uint32_t offset, uint16_t test, uint32_t value)
{
	struct sock_filter load = BPF_STMT(BPF_LD | BPF_ABS, offset);
	struct sock_filter jump = BPF_JUMP(BPF_JMP | BPF_K, value, 0, 0);

	load.code |= size;
	jump.code |= test;
	*(test == BPF_JSET ? &jump.jt : &jump.jf) = OTHERWISE;
	program->code[program->count++] = load;
	program->code[program->count++] = jump;
}

static void program_return(struct program *program, uint32_t verdict)
{
	program->code[program->count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
}

/* Let each condition so far jump, if it does not hold, to the instruction that is appended next. */
static void program_otherwise(struct program *program)
{
	for (uint8_t i = 0; i < program->count; i++) {
		struct sock_filter *jump = &program->code[i];

		if (jump->jt == OTHERWISE)
			jump->jt = (uint8_t)(program->count - i - 1);
		if (jump->jf == OTHERWISE)
			jump->jf = (uint8_t)(program->count - i - 1);
	}
}

static int program_attach(int fd, struct program *program)
{
	struct sock_fprog filter = {.len = program->count, .filter = program->code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ? -errno : 0;
}

/* Require IP and UDP headers without options or fragments. `ip`: offset of the IP header. */
static void want_plain_headers(struct program *program, bool is_ipv4, uint32_t ip)
{
	if (is_ipv4) {
		program_require(program, BPF_B, ip, BPF_JEQ, IPV4_VERSION_AND_WORDS);
		program_require(program, BPF_H, ip + IPV4_FLAGS, BPF_JSET, IPV4_FRAGMENT);
		program_require(program, BPF_B, ip + IPV4_PROTOCOL, BPF_JEQ, IP_PROTOCOL_UDP);
	} else {
		program_require(program, BPF_B, ip + IPV6_NEXT_HEADER, BPF_JEQ, IP_PROTOCOL_UDP);
	}
}

static uint32_t ip_bytes(bool is_ipv4)
{
	return is_ipv4 ? IPV4_BYTES : IPV6_BYTES;
}

/* Require a packet that is not a middle packet of a message. `bth`: offset of its BTH. */
static void want_no_middle(struct program *program, uint32_t bth)
{
	static const uint8_t middles[] = {
		OPCODE_RC_SEND_MIDDLE, OPCODE_RC_WRITE_MIDDLE, OPCODE_RC_READ_RESPONSE_MIDDLE};

	program->code[program->count++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, bth);
	program->code[program->count++] = (struct sock_filter)BPF_STMT(
		BPF_ALU | BPF_AND | BPF_K, (uint8_t)~OPCODE_CLASS_MASK);
	for (size_t i = 0; i < ARRAY_COUNT(middles); i++)
		program->code[program->count++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, middles[i], OTHERWISE, 0);
}

/*
 * Let the ring take datagrams for our address, port and slot: the whole of a short one, and only
 * the headers of a long one, as a mark. The ring does not take a long datagram that begins with a
 * middle packet.
 */
static int filter_ring(int fd, const struct gid *gid, uint8_t slot)
{
	bool is_ipv4 = gid_is_ipv4(gid);
	const uint32_t ip = ROCE_ETHERNET_BYTES, udp = ip + ip_bytes(is_ipv4);
	struct program program = {.count = 0};

	want_plain_headers(&program, is_ipv4, ip);
	for (uint32_t i = is_ipv4 ? 12 : 0; i < 16; i += 4)
		program_require(&program, BPF_W, is_ipv4 ? ip + 4 + i : ip + 24 + i, BPF_JEQ,
			get_be32(gid->raw + i));
	program_require(&program, BPF_H, udp + 2, BPF_JEQ, ROCE_UDP_PORT);
	program_require(&program, BPF_B, udp + ROCE_UDP_BYTES + UDP_SLOT_OFFSET, BPF_JEQ, slot);
	program_require(
		&program, BPF_B, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE), BPF_JEQ, PACKET_HOST);
	program.code[program.count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0);
	program.code[program.count++] =
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, BYPASS_SHORT_BYTES, 1, 0);
	program_return(&program, UINT32_MAX);
	want_no_middle(&program, udp + ROCE_UDP_BYTES);
	program_return(&program, udp + ROCE_UDP_BYTES + BTH_BYTES);
	program_otherwise(&program);
	program_return(&program, 0);
	return program_attach(fd, &program);
}

/* Let the UDP socket drop the packets that the ring takes as a whole. */
static int filter_socket(int fd, const struct gid *gid, uint32_t ifindex)
{
	bool is_ipv4 = gid_is_ipv4(gid);
	struct program program = {.count = 0};

	want_plain_headers(&program, is_ipv4, (uint32_t)SKF_NET_OFF);
	program_require(&program, BPF_W, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX), BPF_JEQ, ifindex);
	program.code[program.count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0);
	program.code[program.count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K,
		BYPASS_SHORT_BYTES - ROCE_ETHERNET_BYTES - ip_bytes(is_ipv4), 1, 0);
	program_return(&program, 0);
	program_otherwise(&program);
	program_return(&program, UINT32_MAX);
	return program_attach(fd, &program);
}

int udp_link_check(int fd, uint32_t ifindex, uint8_t ret_mac[FRAME_MAC_BYTES])
{
	struct ifreq request = {.ifr_ifindex = (int)ifindex};
	char path[64];

	if (ioctl(fd, SIOCGIFNAME, &request))
		return -errno;
	snprintf(path, sizeof(path), "/sys/class/net/%.*s/master", IFNAMSIZ, request.ifr_name);
	if (ioctl(fd, SIOCGIFHWADDR, &request))
		return -errno;
	if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER || access(path, F_OK) == 0)
		return -EOPNOTSUPP;
	memcpy(ret_mac, request.ifr_hwaddr.sa_data, FRAME_MAC_BYTES);
	return 0;
}

/* The number of packet sockets in this network namespace that are bound to the interface. */
static unsigned sockets_on(uint32_t ifindex)
{
	FILE *file = fopen("/proc/thread-self/net/packet", "re");
	char line[128];
	unsigned count = 0, bound;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %*s %*s %*s %u", &bound) == 1 && bound == ifindex)
			count++;
	fclose(file);
	return count;
}

static int ring_map(struct udp_bypass *bypass)
{
	const int version = TPACKET_V2, on = 1;
	const struct tpacket_req request = {
		.tp_frame_size = BYPASS_SLOT_BYTES,
		.tp_frame_nr = BYPASS_SLOTS_COUNT,
		.tp_block_size = BYPASS_BLOCK_BYTES,
		.tp_block_nr = BYPASS_SLOTS_COUNT / (BYPASS_BLOCK_BYTES / BYPASS_SLOT_BYTES),
	};
	void *ring;

	if (setsockopt(bypass->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
		setsockopt(bypass->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
		setsockopt(bypass->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)))
		return -errno;
	ring = mmap(NULL, (size_t)BYPASS_SLOT_BYTES * BYPASS_SLOTS_COUNT, PROT_READ | PROT_WRITE,
		MAP_SHARED, bypass->fd, 0);
	if (ring == MAP_FAILED)
		return -errno;
	bypass->ring = ring;
	return 0;
}

static int bypass_bind(const struct udp_bypass *bypass, const struct gid *gid, uint32_t ifindex)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(gid_is_ipv4(gid) ? ETH_P_IP : ETH_P_IPV6),
		.sll_ifindex = (int)ifindex,
	};

	return bind(bypass->fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

static int bypass_open(
	struct udp_bypass *bypass, const struct gid *gid, uint8_t slot, uint32_t ifindex)
{
	const int send_bytes = UDP_SOCKET_BUFFER_BYTES;
	uint8_t mac[FRAME_MAC_BYTES];
	int error;

	bypass->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bypass->fd < 0)
		return -errno;
	error = udp_link_check(bypass->fd, ifindex, mac);
	if (!error)
		error = filter_ring(bypass->fd, gid, slot);
	if (!error)
		error = ring_map(bypass);
	if (!error)
		error = bypass_bind(bypass, gid, ifindex);
	/* The size may be above the limit of unprivileged programs; a refusal is harmless. */
	setsockopt(bypass->fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_bytes, sizeof(send_bytes));
	return error;
}

int port_udp_use_bypass(struct port_udp *port, uint32_t address, uint32_t ifindex)
{
	struct udp_receiver *receiver = &port->receivers[address];
	struct udp_bypass *bypass;
	int error;

	if (receiver->is_channel)
		return -EACCES;
	if (!kernel_knows_super_packets())
		return -EOPNOTSUPP;
	if (sockets_on(ifindex) >= BYPASS_SOCKETS_MAX)
		return -EUSERS;
	bypass = calloc(1, sizeof(*bypass));
	if (!bypass)
		return -ENOMEM;
	bypass->ifindex = ifindex;
	bypass->splits_messages = true;
	receiver->bypass = bypass;
	error = bypass_open(bypass, &receiver->gid, port->slot, ifindex);
	if (!error)
		error = filter_socket(receiver->fd, &receiver->gid, ifindex);
	if (error)
		udp_bypass_close(port, address);
	return error;
}

void udp_bypass_close(struct port_udp *port, uint32_t address)
{
	struct udp_receiver *receiver = &port->receivers[address];
	struct udp_bypass *bypass = receiver->bypass;

	if (!bypass)
		return;
	receiver->bypass = NULL;
	if (bypass->xdp) {
		xdp_program_pass(
			&bypass->xdp->program, bypass->xdp->queue, &receiver->gid, port->slot);
		udp_xdp_unref(bypass->xdp);
		free(bypass);
		return;
	}
	if (bypass->ring)
		munmap(bypass->ring, (size_t)BYPASS_SLOT_BYTES * BYPASS_SLOTS_COUNT);
	if (bypass->fd >= 0)
		close(bypass->fd);
	free(bypass);
}

int udp_bypass_fd(const struct udp_bypass *bypass)
{
	return bypass->fd;
}

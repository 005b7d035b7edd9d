/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Past IP and UDP: an AF_PACKET socket on the interface of a local address.
 *
 * The kernel shows each packet to such sockets before its network stack has seen it, and writes it
 * into a ring that we read without a system call; and it takes whole frames from them, which pass
 * no routing and no socket on their way out. That halves what a short packet costs.
 *
 * Receiving. Short datagrams come in the ring only: a filter keeps them from the UDP socket. Of
 * long ones, which the ring would copy a second time on the sender's CPU, the ring has the first
 * bytes as a mark of its place in the order of arrival; the datagram itself is then read from the
 * socket. A mark comes first and its datagram a moment later. Either may be lost alone, when ring
 * or socket are full: the first bytes tell which belong together, a datagram without a mark is
 * delivered when the socket is looked at, and a mark without a datagram is given up after a while,
 * or when the next one's is there.
 *
 * A datagram that begins in the middle of a message has no mark. Of a long message that is nearly
 * all of them, and marks would cost a tenth of its bandwidth. What comes after it over the link is
 * known by its number, and waits (udp_order.c).
 *
 * Packets that come by another interface (those of this host come by loopback) are the socket's.
 *
 * Sending. Short messages leave as frames; a long one is copied faster by a UDP socket, into large
 * pieces of memory that it keeps, than by a packet socket, page by page. Both ways lead to the same
 * queue, in order.
 *
 * Neighbours. A frame needs the next hop's Ethernet address. Any host on the link can send frames
 * with the peer's IP address and its own Ethernet address, so what a frame says is not believed:
 * the address is the one that the kernel's neighbour table has for the route's next hop, which a
 * thread of the NIC asks for (port_udp_question). So packets go where the kernel would send them,
 * and who sends frames in the peer's name moves nothing.
 *
 * A frame with that source address, holding a packet that a queue pair took, says that the
 * neighbour is still there; that is good for UDP_HEARD_MS. A frame with another one makes us ask,
 * once in UDP_ASK_MS, and says nothing else. What the kernel does not know is asked for twice as
 * seldom each time. Its answer is asked for anew after UDP_CONFIRM_MS, and is not used when it is
 * older than UDP_CONFIRMED_MS. A neighbour that has been silent, or is not confirmed, is talked to
 * through the UDP socket, which finds the way by itself; and so is each neighbour once in
 * UDP_ROUTED_MS, so that a route that has gone is noticed in a moment.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/arith.h"
#include "port/udp_internal.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/opcode.h"

enum {
	LINK_SLOT_BYTES = 2048,
	LINK_SLOTS_COUNT = 1024,
	LINK_BLOCK_BYTES = 1 << 16,
	LINK_BATCH = 32, /* frames per call */
	LINK_SHORT_BYTES = 1500, /* longer ones are marks; with Ethernet header */
	LINK_SEND_BYTES_MAX = 4096, /* of UDP payload; more is the socket's */
	LINK_MARKS_SEARCHED = 64, /* for that of a datagram */
	LINK_STALLED_LOOKS_MAX = 256, /* for the datagram of a mark */
	LINK_SOCKETS_MAX = 8, /* on one interface: each one looks at every packet there */
	UDP_HEARD_MS = 50,
	UDP_ROUTED_MS = 100,
	UDP_ASK_MS = 100,
	UDP_ASK_UNKNOWN_MS_MIN = 10,
	UDP_ASK_UNKNOWN_MS_MAX = 1000,
	UDP_CONFIRM_MS = 1000,
	UDP_CONFIRMED_MS = 3000,
	GSO_UDP_L4 = 5, /* VIRTIO_NET_HDR_GSO_UDP_L4 of Linux 6.2 */
};

struct udp_link {
	int fd;
	uint32_t ifindex;
	uint8_t *ring;
	uint32_t next_slot;
	uint32_t stalled_looks;
};

/* --- set-up --- */

/* A classic BPF program under construction: conditions, which all have to hold. */
enum { OTHERWISE = UINT8_MAX }; /* a jump to where otherwise() was called */

struct program {
	struct sock_filter code[32];
	uint8_t count;
};

/* Load from the packet, `size` BPF_B, BPF_H or BPF_W; go on if `test` of it and `value` holds. */
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

/* Let every condition that does not hold lead to the instruction that comes next. */
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

/* Which packets have the plain headers that the ring is for. `ip`: where the IP header begins. */
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

/* Not the middle of a message, `bth` being where the packet begins. */
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
 * What the ring takes: packets for our address, port and slot; of long ones the headers, or
 * nothing.
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
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LINK_SHORT_BYTES, 1, 0);
	program_return(&program, UINT32_MAX);
	want_no_middle(&program, udp + ROCE_UDP_BYTES);
	program_return(&program, udp + ROCE_UDP_BYTES + BTH_BYTES);
	program_otherwise(&program);
	program_return(&program, 0);
	return program_attach(fd, &program);
}

/* What the socket does not take: what the ring takes whole. */
static int filter_socket(int fd, const struct gid *gid, uint32_t ifindex)
{
	bool is_ipv4 = gid_is_ipv4(gid);
	struct program program = {.count = 0};

	want_plain_headers(&program, is_ipv4, (uint32_t)SKF_NET_OFF);
	program_require(&program, BPF_W, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX), BPF_JEQ, ifindex);
	program.code[program.count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0);
	program.code[program.count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K,
		LINK_SHORT_BYTES - ROCE_ETHERNET_BYTES - ip_bytes(is_ipv4), 1, 0);
	program_return(&program, 0);
	program_otherwise(&program);
	program_return(&program, UINT32_MAX);
	return program_attach(fd, &program);
}

/* Before Linux 6.2, a ring that wants to know how super-packets are cut does not get them. */
static bool kernel_knows_super_packets(void)
{
	struct utsname name;
	unsigned major, minor;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
		(major > 6 || (major == 6 && minor >= 2));
}

/*
 * Ethernet, and no port of something else: there (VRF) the network stack takes packets to have come
 * by that.
 */
static int check_interface(int fd, uint32_t ifindex)
{
	struct ifreq request = {.ifr_ifindex = (int)ifindex};
	char path[64];

	if (ioctl(fd, SIOCGIFNAME, &request))
		return -errno;
	snprintf(path, sizeof(path), "/sys/class/net/%.*s/master", IFNAMSIZ, request.ifr_name);
	if (ioctl(fd, SIOCGIFHWADDR, &request))
		return -errno;
	return request.ifr_hwaddr.sa_family != ARPHRD_ETHER || access(path, F_OK) == 0 ? -EOPNOTSUPP
										       : 0;
}

/* How many packet sockets look at what comes in there, as far as one can see. */
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

static int ring_map(struct udp_link *link)
{
	const int version = TPACKET_V2, on = 1;
	const struct tpacket_req request = {
		.tp_frame_size = LINK_SLOT_BYTES,
		.tp_frame_nr = LINK_SLOTS_COUNT,
		.tp_block_size = LINK_BLOCK_BYTES,
		.tp_block_nr = LINK_SLOTS_COUNT / (LINK_BLOCK_BYTES / LINK_SLOT_BYTES),
	};
	void *ring;

	if (setsockopt(link->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
		setsockopt(link->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
		setsockopt(link->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)))
		return -errno;
	ring = mmap(NULL, (size_t)LINK_SLOT_BYTES * LINK_SLOTS_COUNT, PROT_READ | PROT_WRITE,
		MAP_SHARED, link->fd, 0);
	if (ring == MAP_FAILED)
		return -errno;
	link->ring = ring;
	return 0;
}

static int link_bind(const struct udp_link *link, const struct gid *gid, uint32_t ifindex)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(gid_is_ipv4(gid) ? ETH_P_IP : ETH_P_IPV6),
		.sll_ifindex = (int)ifindex,
	};

	return bind(link->fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

static int link_open(struct udp_link *link, const struct gid *gid, uint8_t slot, uint32_t ifindex)
{
	const int send_bytes = UDP_SOCKET_BUFFER_BYTES;
	int error;

	link->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (link->fd < 0)
		return -errno;
	error = check_interface(link->fd, ifindex);
	if (!error)
		error = filter_ring(link->fd, gid, slot);
	if (!error)
		error = ring_map(link);
	if (!error)
		error = link_bind(link, gid, ifindex);
	/* More than a program without privileges may have, and no harm where it is refused. */
	setsockopt(link->fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_bytes, sizeof(send_bytes));
	return error;
}

int port_udp_use_link(struct port_udp *port, uint32_t address, uint32_t ifindex)
{
	struct udp_receiver *receiver = &port->receivers[address];
	struct udp_link *link;
	int error;

	if (receiver->is_channel)
		return -EACCES;
	if (!kernel_knows_super_packets())
		return -EOPNOTSUPP;
	if (sockets_on(ifindex) >= LINK_SOCKETS_MAX)
		return -EUSERS;
	link = calloc(1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	link->ifindex = ifindex;
	error = link_open(link, &receiver->gid, port->slot, ifindex);
	if (!error)
		error = filter_socket(receiver->fd, &receiver->gid, ifindex);
	if (error)
		udp_link_close(link);
	else
		receiver->link = link;
	return error;
}

void udp_link_close(struct udp_link *link)
{
	if (!link)
		return;
	if (link->ring)
		munmap(link->ring, (size_t)LINK_SLOT_BYTES * LINK_SLOTS_COUNT);
	if (link->fd >= 0)
		close(link->fd);
	free(link);
}

int udp_link_fd(const struct udp_link *link)
{
	return link->fd;
}

/* --- neighbours --- */

uint64_t udp_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct udp_neighbour *neighbour_at(
	struct port_udp *port, uint8_t address, const struct gid *gid)
{
	uint32_t hash = get_be32(gid->raw + 12) * 0x9e3779b1u ^ (uint32_t)address << 24;

	return &port->neighbours[(hash >> 24) % UDP_NEIGHBOURS_COUNT];
}

static bool neighbour_is(
	const struct udp_neighbour *neighbour, uint8_t address, const struct gid *gid)
{
	return neighbour->paths > 0 && neighbour->address == address &&
		gid_is_equal(&neighbour->gid, gid);
}

static void neighbour_ask(struct port_udp *port, struct udp_neighbour *neighbour, uint64_t now_ms)
{
	if (!port->on_question || neighbour->is_asked || now_ms < neighbour->ask_from_ms)
		return;
	neighbour->is_asked = true;
	neighbour->ask_from_ms = now_ms + neighbour->ask_pause_ms;
	port->question_count++;
	port->on_question(port->question_context);
}

void udp_neighbour_ref(struct port_udp *port, struct udp_path *path)
{
	uint8_t address = path->settings.address;
	struct udp_neighbour *neighbour = neighbour_at(port, address, &path->settings.remote);

	if (neighbour->paths == 0) {
		port->question_count -= neighbour->is_asked;
		*neighbour = (struct udp_neighbour){
			.address = address,
			.gid = path->settings.remote,
			.routed_ms = udp_now_ms(),
			.ask_pause_ms = UDP_ASK_UNKNOWN_MS_MIN,
		};
	} else if (!neighbour_is(neighbour, address, &path->settings.remote)) {
		return;
	}
	neighbour->paths++;
	path->neighbour = neighbour;
	/* The answer is there before the first frame, mostly. */
	if (port->receivers[address].link && !gid_is_multicast(&neighbour->gid))
		neighbour_ask(port, neighbour, udp_now_ms());
}

void udp_neighbour_unref(struct udp_path *path)
{
	if (path->neighbour)
		path->neighbour->paths--;
}

/* Has the kernel given the address, not long ago? */
static bool is_confirmed(const struct udp_neighbour *neighbour, uint64_t now_ms)
{
	return neighbour->confirmed_ms && now_ms - neighbour->confirmed_ms <= UDP_CONFIRMED_MS;
}

void udp_neighbour_heard(
	struct port_udp *port, uint8_t address, const struct gid *gid, const uint8_t *macs)
{
	struct udp_neighbour *neighbour = neighbour_at(port, address, gid);
	const uint8_t *own = macs, *from = macs + FRAME_MAC_BYTES;
	uint64_t now_ms;

	if (!neighbour_is(neighbour, address, gid))
		return;
	now_ms = udp_now_ms();
	if (!is_confirmed(neighbour, now_ms) ||
		memcmp(neighbour->macs, from, FRAME_MAC_BYTES) != 0) {
		neighbour_ask(port, neighbour, now_ms);
		return;
	}
	/* The kernel has seen that this one is the interface's own: it is a PACKET_HOST. */
	memcpy(neighbour->macs + FRAME_MAC_BYTES, own, FRAME_MAC_BYTES);
	neighbour->heard_ms = now_ms;
	if (now_ms - neighbour->confirmed_ms > UDP_CONFIRM_MS)
		neighbour_ask(port, neighbour, now_ms);
}

void port_udp_on_question(struct port_udp *port, port_udp_question_fn *on_question, void *context)
{
	port->on_question = on_question;
	port->question_context = context;
}

bool port_udp_next_question(struct port_udp *port, struct port_udp_question *ret_question)
{
	for (uint32_t i = 0; i < UDP_NEIGHBOURS_COUNT && port->question_count; i++) {
		struct udp_neighbour *neighbour = &port->neighbours[i];
		const struct udp_receiver *receiver = &port->receivers[neighbour->address];

		if (!neighbour->is_asked)
			continue;
		neighbour->is_asked = false;
		port->question_count--;
		if (!neighbour->paths || !receiver->link)
			continue;
		*ret_question = (struct port_udp_question){
			.neighbour = i,
			.ifindex = receiver->link->ifindex,
			.local = receiver->gid,
			.remote = neighbour->gid,
		};
		return true;
	}
	return false;
}

void port_udp_answer(
	struct port_udp *port, const struct port_udp_question *question, const uint8_t *mac)
{
	struct udp_neighbour *neighbour = &port->neighbours[question->neighbour];

	if (!neighbour->paths || !gid_is_equal(&neighbour->gid, &question->remote) ||
		!gid_is_equal(&port->receivers[neighbour->address].gid, &question->local))
		return; /* the last path to it was closed meanwhile, and another has its place */
	if (!mac || memcmp(neighbour->macs, mac, FRAME_MAC_BYTES) != 0)
		neighbour->heard_ms = 0;
	neighbour->confirmed_ms = mac ? udp_now_ms() : 0;
	neighbour->ask_pause_ms =
		mac ? UDP_ASK_MS : min_u32(2 * neighbour->ask_pause_ms, UDP_ASK_UNKNOWN_MS_MAX);
	if (mac)
		memcpy(neighbour->macs, mac, FRAME_MAC_BYTES);
}

/* --- receiving --- */

static struct tpacket2_hdr *slot_at(const struct udp_link *link, uint32_t index)
{
	return (struct tpacket2_hdr *)(void *)(link->ring +
		(size_t)(index % LINK_SLOTS_COUNT) * LINK_SLOT_BYTES);
}

/* The slot `ahead` of the next one, if there is something in it. */
static struct tpacket2_hdr *slot_filled(const struct udp_link *link, uint32_t ahead)
{
	struct tpacket2_hdr *slot = slot_at(link, link->next_slot + ahead);

	return __atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER ? slot : NULL;
}

static void slot_release(struct udp_link *link, struct tpacket2_hdr *slot)
{
	__atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	link->next_slot = (link->next_slot + 1) % LINK_SLOTS_COUNT;
	link->stalled_looks = 0;
}

static bool is_mark(const struct tpacket2_hdr *slot)
{
	return slot->tp_snaplen < slot->tp_len;
}

static void count_losses(struct port_udp *port, const struct udp_link *link)
{
	struct tpacket_stats statistics;
	socklen_t bytes = sizeof(statistics);

	if (!getsockopt(link->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &bytes))
		port->counters->rx_queue_overflows += statistics.tp_drops;
}

/*
 * Deliver a frame. False: that is too early, as what comes before it is still on its way; unless it
 * may be.
 */
static bool take_frame(struct port_udp *port, uint8_t address, const struct tpacket2_hdr *slot,
	bool may_be_early, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_datagram datagram = {.address = address, .segment_bytes = UINT32_MAX};
	const uint8_t *bytes = (const uint8_t *)slot + slot->tp_mac;
	struct virtio_net_hdr vnet;
	struct roce_frame frame;
	struct udp_flow *flow;

	if (!roce_frame_decode(&frame, bytes, slot->tp_snaplen)) {
		port->counters->rx_short++;
		return true;
	}
	flow = udp_flow_of(port, address, &frame.sgid, frame.source_port);
	if (!may_be_early && frame.data_bytes >= BTH_BYTES &&
		udp_order_is_early(port, flow, frame.data))
		return false;
	port->counters->rx_datagrams++;
	port->counters->rx_frames++;
	memcpy(&vnet, bytes - UDP_VNET_BYTES, UDP_VNET_BYTES);
	if (vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE && vnet.gso_size)
		datagram.segment_bytes = vnet.gso_size;
	datagram.tos = frame.tos;
	datagram.hop_limit = port->reports_hops ? frame.hop_limit : 0;
	if (udp_datagram_split(
		    port, &datagram, flow, frame.data, frame.data_bytes, on_packet, context))
		udp_neighbour_heard(port, address, &frame.sgid, bytes);
	return true;
}

static bool is_mark_of(const struct tpacket2_hdr *slot, const uint8_t *data)
{
	const uint8_t *end = (const uint8_t *)slot + slot->tp_mac + slot->tp_snaplen;

	return is_mark(slot) && slot->tp_snaplen >= BTH_BYTES &&
		memcmp(end - BTH_BYTES, data, BTH_BYTES) == 0;
}

/* How far ahead the mark of a datagram is; -1: there is none. */
static int mark_find(const struct udp_link *link, const uint8_t *data)
{
	const struct tpacket2_hdr *slot;

	if (udp_order_is_middle(data))
		return -1;
	for (unsigned ahead = 0; ahead < LINK_MARKS_SEARCHED && (slot = slot_filled(link, ahead));
		ahead++)
		if (is_mark_of(slot, data))
			return (int)ahead;
	return -1;
}

bool udp_link_catch_up(struct port_udp *port, uint8_t address, const uint8_t *data, size_t bytes,
	uint8_t ret_macs[ROCE_MACS_BYTES], port_udp_packet_fn *on_packet, void *context)
{
	struct udp_link *link = port->receivers[address].link;
	int ahead = bytes < BTH_BYTES ? -1 : mark_find(link, data);
	bool has_mark = ahead >= 0;

	for (; ahead >= 0; ahead--) {
		struct tpacket2_hdr *slot = slot_at(link, link->next_slot);

		if (!is_mark(slot))
			take_frame(port, address, slot, true, on_packet, context);
		else if (ahead > 0)
			port->counters->rx_marks_lost++;
		else
			memcpy(ret_macs, (const uint8_t *)slot + slot->tp_mac, ROCE_MACS_BYTES);
		slot_release(link, slot);
	}
	return has_mark;
}

/*
 * Deliver what is next in the ring. False: not yet, as something that the socket has, or will have
 * in a moment, comes before it; unless it has been waited for long enough.
 */
static bool take_next(struct port_udp *port, uint8_t address, struct tpacket2_hdr *slot,
	port_udp_packet_fn *on_packet, void *context)
{
	struct udp_link *link = port->receivers[address].link;
	bool is_patient = link->stalled_looks <= LINK_STALLED_LOOKS_MAX;

	if (is_mark(slot)) {
		if (is_patient)
			return false;
		port->counters->rx_marks_lost++;
	} else if (!take_frame(port, address, slot, !is_patient, on_packet, context)) {
		return false;
	}
	if (slot->tp_status & TP_STATUS_LOSING)
		count_losses(port, link);
	slot_release(link, slot);
	return true;
}

unsigned udp_link_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_link *link = port->receivers[address].link;
	struct tpacket2_hdr *slot;
	unsigned total = 0, count;

	while (total < LINK_BATCH && (slot = slot_filled(link, 0))) {
		if (take_next(port, address, slot, on_packet, context)) {
			total++;
			continue;
		}
		count = udp_socket_receive(port, address, on_packet, context);
		if (!count)
			link->stalled_looks++;
		return total + count;
	}
	return total;
}

/* --- sending --- */

struct udp_link *udp_link_of(const struct port_udp *port, const struct udp_path *path,
	uint32_t data_bytes, uint64_t now_ms)
{
	const struct udp_neighbour *neighbour = path->neighbour;

	if (!neighbour || data_bytes > LINK_SEND_BYTES_MAX ||
		now_ms - neighbour->heard_ms > UDP_HEARD_MS ||
		now_ms - neighbour->confirmed_ms > UDP_CONFIRMED_MS ||
		now_ms - neighbour->routed_ms > UDP_ROUTED_MS)
		return NULL;
	return port->receivers[neighbour->address].link;
}

uint32_t udp_link_headers_make(
	const struct udp_path *path, uint32_t data_bytes, uint32_t segment_bytes, uint8_t *to)
{
	const struct roce_frame_headers *headers = &path->headers;
	const struct virtio_net_hdr vnet = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = segment_bytes ? GSO_UDP_L4 : VIRTIO_NET_HDR_GSO_NONE,
		.hdr_len = headers->count,
		.gso_size = (uint16_t)segment_bytes,
		.csum_start = (uint16_t)(headers->count - ROCE_UDP_BYTES),
		.csum_offset = ROCE_FRAME_UDP_CHECKSUM,
	};

	static_assert(sizeof(vnet) == UDP_VNET_BYTES, "what the kernel reads in front of a frame");
	memcpy(to, &vnet, sizeof(vnet));
	roce_frame_headers_write(headers, path->neighbour->macs, data_bytes, to + sizeof(vnet));
	return (uint32_t)sizeof(vnet) + headers->count;
}

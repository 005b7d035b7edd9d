/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/af_packet.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arith.h"

enum {
	/*
	 * Room before a frame in the ring. restore_vlan() moves the Ethernet header there, to
	 * insert the VLAN tag that the kernel has removed.
	 */
	RESERVE_BYTES = 16,
	/* What precedes a frame in its slot: header, address, alignment to 16, and the reserve. */
	SLOT_HEADER_BYTES = TPACKET2_HDRLEN + 16 + RESERVE_BYTES,
	RING_BYTES = 2 << 20,
	RING_SLOTS_MIN = 32,
	BLOCK_BYTES_MIN = 32768,
	SEND_BUFFER_BYTES = 4 << 20,
	MAC_BYTES = 2 * FRAME_MAC_BYTES,
};

struct port_packet {
	int fd;
	uint32_t ifindex;
	bool is_listening;
	uint8_t mac[FRAME_MAC_BYTES];
	uint32_t frame_bytes_max;
	uint8_t *ring;
	uint32_t slot_bytes;
	uint32_t slot_count;
	uint32_t next_slot;
	uint8_t *buffers; /* PORT_PACKET_BATCH buffers of frame_bytes_max bytes each */
};

/* Read the properties of the interface. */
static int learn_interface(struct port_packet *port)
{
	struct ifreq request = {.ifr_ifindex = (int)port->ifindex};
	unsigned type;

	if (ioctl(port->fd, SIOCGIFNAME, &request) || ioctl(port->fd, SIOCGIFHWADDR, &request))
		return -errno;
	type = request.ifr_hwaddr.sa_family;
	if (type != ARPHRD_ETHER && type != ARPHRD_LOOPBACK)
		return -EOPNOTSUPP;
	memcpy(port->mac, request.ifr_hwaddr.sa_data, FRAME_MAC_BYTES);
	/* The loopback interface receives each frame that it sends: skip the outgoing copy. */
	const int is_loopback = type == ARPHRD_LOOPBACK;
	if (is_loopback &&
		setsockopt(port->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &is_loopback,
			sizeof(is_loopback)))
		return -errno;
	if (ioctl(port->fd, SIOCGIFMTU, &request))
		return -errno;
	port->frame_bytes_max = (uint32_t)request.ifr_mtu + FRAME_ETHERNET_BYTES + FRAME_VLAN_BYTES;
	return 0;
}

static int ring_map(struct port_packet *port)
{
	const int version = TPACKET_V2, reserve = RESERVE_BYTES;
	struct tpacket_req request;
	void *ring;

	port->slot_bytes = pow2_ceil_u32(SLOT_HEADER_BYTES + port->frame_bytes_max);
	port->slot_count = max_u32(RING_BYTES / port->slot_bytes, RING_SLOTS_MIN);
	request.tp_frame_size = port->slot_bytes;
	request.tp_frame_nr = port->slot_count;
	request.tp_block_size = max_u32(port->slot_bytes, BLOCK_BYTES_MIN);
	request.tp_block_nr = port->slot_count / (request.tp_block_size / port->slot_bytes);
	if (setsockopt(port->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
		setsockopt(port->fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)) ||
		setsockopt(port->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)))
		return -errno;
	ring = mmap(NULL, (size_t)port->slot_bytes * port->slot_count, PROT_READ | PROT_WRITE,
		MAP_SHARED, port->fd, 0);
	if (ring == MAP_FAILED)
		return -errno;
	port->ring = ring;
	return 0;
}

static int bind_to(struct port_packet *port, uint16_t protocol)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = (int)port->ifindex,
	};

	return bind(port->fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

int port_packet_open(uint32_t ifindex, struct port_packet **ret_port)
{
	struct port_packet *port = calloc(1, sizeof(*port));
	const int send_bytes = SEND_BUFFER_BYTES;
	int error;

	if (!port)
		return -ENOMEM;
	port->ifindex = ifindex;
	port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (port->fd < 0) {
		error = -errno;
		goto fail_close;
	}
	error = learn_interface(port);
	if (!error)
		error = ring_map(port);
	if (!error)
		error = bind_to(port, 0);
	if (error)
		goto fail_close;
	error = -ENOMEM;
	assert(port->frame_bytes_max > 0);
	port->buffers = malloc((size_t)PORT_PACKET_BATCH * port->frame_bytes_max);
	if (!port->buffers)
		goto fail_close;
	/* The size may be above the limit of unprivileged programs; a refusal is harmless. */
	setsockopt(port->fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_bytes, sizeof(send_bytes));
	*ret_port = port;
	return 0;

fail_close:
	port_packet_close(port);
	return error;
}

void port_packet_close(struct port_packet *port)
{
	if (!port)
		return;
	if (port->ring)
		munmap(port->ring, (size_t)port->slot_bytes * port->slot_count);
	if (port->fd >= 0)
		close(port->fd);
	free(port->buffers);
	free(port);
}

int port_packet_fd(const struct port_packet *port)
{
	return port->fd;
}

uint32_t port_packet_frame_bytes_max(const struct port_packet *port)
{
	return port->frame_bytes_max;
}

/*
 * Stop the input by a filter that drops everything, or detach that filter. (A bound socket cannot
 * be unbound.) Returns 0 or -errno.
 */
static int input_shut(const struct port_packet *port, bool is_shut)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {1, &nothing};
	int result = setsockopt(port->fd, SOL_SOCKET, is_shut ? SO_ATTACH_FILTER : SO_DETACH_FILTER,
		&program, sizeof(program));

	return result && (is_shut || errno != ENOENT) ? -errno : 0;
}

int port_packet_listen(struct port_packet *port, bool shall_listen)
{
	int error;

	if (shall_listen == port->is_listening)
		return 0;
	error = input_shut(port, !shall_listen);
	if (!error && shall_listen)
		error = bind_to(port, ETH_P_ALL);
	if (!error)
		port->is_listening = shall_listen;
	return error;
}

int port_packet_request(struct port_packet *port, enum port_packet_wish wish,
	const uint8_t mac[FRAME_MAC_BYTES], bool shall_have)
{
	struct packet_mreq request = {.mr_ifindex = (int)port->ifindex};

	switch (wish) {
	case PORT_PACKET_NOTHING:
		return 0;
	case PORT_PACKET_ADDRESS:
		request.mr_type = mac[0] & 1 ? PACKET_MR_MULTICAST : PACKET_MR_UNICAST;
		request.mr_alen = FRAME_MAC_BYTES;
		memcpy(request.mr_address, mac, FRAME_MAC_BYTES);
		break;
	case PORT_PACKET_MULTICAST:
		request.mr_type = PACKET_MR_ALLMULTI;
		break;
	case PORT_PACKET_EVERYTHING:
		request.mr_type = PACKET_MR_PROMISC;
		break;
	}
	return setsockopt(port->fd, SOL_PACKET,
		       shall_have ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, &request,
		       sizeof(request))
		? -errno
		: 0;
}

/* --- receiving --- */

static struct tpacket2_hdr *slot_at(struct port_packet *port, uint32_t index)
{
	return (struct tpacket2_hdr *)(void *)(port->ring + (size_t)index * port->slot_bytes);
}

static bool is_departing(const struct port_packet *port, const struct tpacket2_hdr *slot)
{
	const struct sockaddr_ll *address =
		(const struct sockaddr_ll *)(const void *)((const uint8_t *)slot +
			TPACKET_ALIGN(sizeof(*slot)));
	const uint8_t *to = (const uint8_t *)slot + slot->tp_mac;

	return address->sll_pkttype == PACKET_OUTGOING && !(to[0] & 1) &&
		memcmp(to, port->mac, FRAME_MAC_BYTES) != 0;
}

/* Insert the VLAN tag that the kernel has removed. Returns the frame's new start. */
static uint8_t *restore_vlan(uint8_t *frame, const struct tpacket2_hdr *slot)
{
	uint16_t type = slot->tp_status & TP_STATUS_VLAN_TPID_VALID ? slot->tp_vlan_tpid
								    : (uint16_t)ETH_P_8021Q;
	uint16_t tag[2] = {htons(type), htons(slot->tp_vlan_tci)};

	memmove(frame - FRAME_VLAN_BYTES, frame, MAC_BYTES);
	memcpy(frame - FRAME_VLAN_BYTES + MAC_BYTES, tag, sizeof(tag));
	return frame - FRAME_VLAN_BYTES;
}

static void frame_take(struct port_packet *port, struct tpacket2_hdr *slot,
	port_packet_frame_fn *on_frame, void *context)
{
	uint8_t *frame = (uint8_t *)slot + slot->tp_mac;
	uint32_t count = slot->tp_snaplen;

	/* Ignore a truncated frame: this host sends it, and the interface will segment it. */
	if (slot->tp_len != count || count < FRAME_ETHERNET_BYTES)
		return;
	if (slot->tp_status & TP_STATUS_VLAN_VALID) {
		frame = restore_vlan(frame, slot);
		count += FRAME_VLAN_BYTES;
	}
	on_frame(context, frame, count, is_departing(port, slot));
}

unsigned port_packet_receive(
	struct port_packet *port, port_packet_frame_fn *on_frame, void *context)
{
	unsigned taken = 0;

	for (; taken < PORT_PACKET_BATCH; taken++) {
		struct tpacket2_hdr *slot = slot_at(port, port->next_slot);

		if (!(__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		frame_take(port, slot, on_frame, context);
		__atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		port->next_slot = (port->next_slot + 1) % port->slot_count;
	}
	return taken;
}

/* --- sending --- */

uint8_t *port_packet_buffer(struct port_packet *port, unsigned index)
{
	assert(index < PORT_PACKET_BATCH);
	return port->buffers + (size_t)index * port->frame_bytes_max;
}

unsigned port_packet_send(
	struct port_packet *port, const uint32_t *bytes, unsigned count, int *ret_error)
{
	struct mmsghdr messages[PORT_PACKET_BATCH];
	struct iovec pieces[PORT_PACKET_BATCH];
	int sent;

	assert(count <= PORT_PACKET_BATCH);
	for (unsigned i = 0; i < count; i++) {
		pieces[i] = (struct iovec){port_packet_buffer(port, i), bytes[i]};
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &pieces[i], .msg_iovlen = 1}};
	}
	/* The C library's function would be a cancellation point (os/cancel.h). */
	sent = (int)syscall(SYS_sendmmsg, port->fd, messages, count, MSG_DONTWAIT);
	if (sent < 0) {
		bool is_later = errno == ENOBUFS || errno == EINTR || errno == EWOULDBLOCK;

		*ret_error = is_later ? -EAGAIN : -errno;
		return 0;
	}
	*ret_error = 0;
	return (unsigned)sent;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "capture/erf.h"
#include "capture/pcapng.h"
#include "common/command.h"
#include "sim/sim.h"
#include "wire/bytes.h"
#include "wire/roce_frame.h"

enum {
	FRAME_BYTES_MAX = 8192,
	FCS_BYTES = 4,
	MAC_BYTES = 6,
	PFC_ETHERTYPE = 0x8808,
	PFC_OPCODE = 0x0101,
	HOP_LIMIT = 64,
	DSCP_SHIFT = 2,
};

/* A locally administered address, made of a host's number, or the number of a switch's port. */
static void mac_write(const struct fabric_port *port, uint32_t number, uint8_t *to)
{
	to[0] = 0x02;
	to[1] = port->is_host ? 0 : 1;
	put_be32(to + 2, port->is_host ? port->node : number);
}

static uint32_t pause_frame_write(
	const struct fabric *fabric, uint32_t port, const struct fabric_packet *packet, uint8_t *to)
{
	static const uint8_t group[MAC_BYTES] = {0x01, 0x80, 0xc2, 0, 0, 0x01};
	uint8_t *at = to + ROCE_MACS_BYTES;

	memset(to, 0, FABRIC_PAUSE_FRAME_BYTES);
	memcpy(to, group, MAC_BYTES);
	mac_write(&fabric->ports[port], port, to + MAC_BYTES);
	put_be16(at, PFC_ETHERTYPE);
	put_be16(at + 2, PFC_OPCODE);
	put_be16(at + 4, packet->pause_vector);
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (packet->pause_on >> i & 1)
			put_be16(at + 6 + 2 * i, (uint16_t)fabric->config.pause_quanta);
	return FABRIC_PAUSE_FRAME_BYTES - FCS_BYTES;
}

static uint32_t data_frame_write(
	const struct fabric *fabric, const struct fabric_packet *packet, uint8_t *to)
{
	const struct fabric_host *source = &fabric->hosts[packet->source];
	const struct fabric_host *destination = &fabric->hosts[packet->destination];
	struct gid from = engine_host_address(packet->source);
	struct gid dest = engine_host_address(packet->destination);
	uint8_t tos = (uint8_t)(packet->dscp << DSCP_SHIFT | packet->ecn);
	struct roce_frame_headers headers;
	uint8_t macs[ROCE_MACS_BYTES];

	mac_write(&fabric->ports[destination->port], destination->port, macs);
	mac_write(&fabric->ports[source->port], source->port, macs + MAC_BYTES);
	roce_frame_headers_init(&headers, &from, &dest, packet->source_port, tos, HOP_LIMIT, 0);
	roce_frame_headers_write(&headers, macs, packet->data_bytes, to);
	/* No UDP checksum: the ICRC covers the packet. */
	put_be16(to + headers.count - ROCE_UDP_BYTES + ROCE_FRAME_UDP_CHECKSUM, 0);
	memcpy(to + headers.count, packet->data, packet->data_bytes);
	return headers.count + packet->data_bytes;
}

/* A record of an InfiniBand packet. */
static uint32_t record_write(uint64_t now_ps, const struct fabric_packet *packet, uint8_t *to)
{
	const uint64_t ns = now_ps / FABRIC_PS_PER_NS;

	return packet->is_link
		? erf_link_packet_write(ns, packet->vl, (uint16_t)(packet->number >> 16),
			  (uint16_t)packet->number, to)
		: erf_packet_write(ns, packet->data, packet->data_bytes, to);
}

static uint32_t ethernet_write(
	const struct fabric *fabric, uint32_t port, const struct fabric_packet *packet, uint8_t *to)
{
	return packet->pause_vector ? pause_frame_write(fabric, port, packet, to)
				    : data_frame_write(fabric, packet, to);
}

/* The comment for a dropped frame, which the capture shows at its port; NULL: do not show it. */
static const char *drop_comment(enum fabric_event event)
{
	switch (event) {
	case FABRIC_FRAME_DISCARDED:
		return "dropped: no room in the buffer";
	case FABRIC_FRAME_LOST:
		return "lost on the cable";
	case FABRIC_FRAME_CORRUPTED:
		return "corrupted on the cable";
	case FABRIC_FRAME_UNROUTABLE:
		return "dropped: no path";
	case FABRIC_FRAME_EXPIRED:
		return "discarded: too old, or its lane was stalled";
	case FABRIC_FRAME_REFUSED:
	case FABRIC_FRAME_CONSTRAINED:
		return "discarded: no P_Key of the port matches";
	case FABRIC_STORM_DROP:
		return "dropped by the watchdog";
	case FABRIC_FRAME_SENT:
	case FABRIC_FRAME_ARRIVED:
	case FABRIC_FRAME_MARKED:
	case FABRIC_PAUSED:
	case FABRIC_RESUMED:
	case FABRIC_STORM_BEGUN:
	case FABRIC_STORM_ENDED:
		break;
	}
	return NULL;
}

static void frame_capture(void *context, uint64_t now_ps, enum fabric_event event, uint32_t port,
	uint32_t priority, const struct fabric_packet *packet)
{
	const struct sim_run *run = (const struct sim_run *)context;
	struct pcapng_packet captured = {
		.interface = port,
		.time_ns = now_ps / FABRIC_PS_PER_NS,
		.is_outbound = event == FABRIC_FRAME_SENT,
		.comment = drop_comment(event),
	};
	uint8_t frame[FRAME_BYTES_MAX];

	(void)priority;
	if (!captured.is_outbound && !captured.comment)
		return;
	captured.bytes = frame;
	captured.count = run->fabric->infiniband ? record_write(now_ps, packet, frame)
						 : ethernet_write(run->fabric, port, packet, frame);
	captured.whole = captured.count;
	pcapng_packet(run->capture, &captured);
}

bool sim_pcap_open(struct sim_run *run, const char *path)
{
	if (!run->hosts) {
		complain(
			"sim: plain sources have no packets: --pcap is for hosts of kind \"engine\"");
		return false;
	}
	run->capture = fopen(path, "we");
	if (!run->capture) {
		complain("%s: %s", path, strerror(errno));
		return false;
	}
	pcapng_begin(run->capture, "urnic sim");
	for (uint32_t i = 0; i < run->fabric->port_count; i++) {
		char name[SIM_PORT_NAME_BYTES];

		sim_port_name(run->fabric, i, name);
		pcapng_interface(run->capture,
			run->fabric->infiniband ? PCAPNG_ERF : PCAPNG_ETHERNET, name, NULL, 0);
	}
	fabric_watch(run->fabric, frame_capture, run);
	return true;
}

bool sim_pcap_close(struct sim_run *run)
{
	bool is_bad = run->capture && ferror(run->capture);

	if (run->capture && (fclose(run->capture) || is_bad)) {
		complain("the capture could not be written: %s", strerror(errno));
		return false;
	}
	return true;
}

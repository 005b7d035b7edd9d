/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic fabric up --pcap: the frames of all cables as pcapng, for Wireshark. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "capture/erf.h"
#include "capture/pcapng.h"
#include "common/command.h"
#include "fabric/fabric_internal.h"
#include "os/clock.h"
#include "subnet/subnet.h"

enum { PORT_NAME_BYTES = TOPOLOGY_NAME_BYTES + 8 };

bool fabric_pcap_open(
	struct fabric_pcap *pcap, const char *path, const struct subnet_topology *topology)
{
	*pcap = (struct fabric_pcap){.topology = topology, .epoch_ns = clock_epoch_ns()};
	if (!path)
		return true;
	/* A pipe whose reader has ended ends the capture, not the fabric. */
	signal(SIGPIPE, SIG_IGN);
	pcap->file = fopen(path, "we");
	if (!pcap->file) {
		complain("fabric: %s: %s", path, strerror(errno));
		return false;
	}
	pcapng_begin(pcap->file, "urnic fabric");
	/* A port's index in the topology is its interface: both are in this order (topology.h). */
	for (uint32_t i = 0; i < topology->node_count; i++)
		for (uint32_t port = 1; port <= topology->nodes[i].port_count; port++) {
			char name[PORT_NAME_BYTES];

			snprintf(name, sizeof(name), "%s[%u]", topology->nodes[i].name, port);
			pcapng_interface(pcap->file, PCAPNG_ERF, name, NULL, 0);
		}
	return true;
}

/* The file cannot be written any more: end the capture. The fabric goes on. */
static void capture_end(struct fabric_pcap *pcap)
{
	complain("fabric: the capture ends, because its file cannot be written: %s",
		strerror(errno));
	fclose(pcap->file);
	pcap->file = NULL;
	pcap->is_broken = true;
}

void fabric_pcap_frame(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	struct fabric_pcap *pcap = context;
	uint8_t record[SUBNET_FRAME_BYTES_MAX + ERF_MORE_BYTES];
	struct pcapng_packet packet = {
		.interface = pcap->topology->nodes[node].first_port + port - 1,
		.time_ns = pcap->epoch_ns + clock_now_ns(),
		.is_outbound = true,
		.bytes = record,
	};

	if (!pcap->file)
		return;
	packet.count = erf_packet_write(packet.time_ns, frame, frame_bytes, record);
	packet.whole = packet.count;
	pcapng_packet(pcap->file, &packet);
	/* Flush, so that a reader finds whole packets, also if the process is killed. */
	fflush(pcap->file);
	if (ferror(pcap->file))
		capture_end(pcap);
}

bool fabric_pcap_close(struct fabric_pcap *pcap)
{
	if (pcap->file && fclose(pcap->file)) {
		complain("fabric: the capture could not be written: %s", strerror(errno));
		return false;
	}
	return !pcap->is_broken;
}

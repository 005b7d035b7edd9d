/* SPDX-License-Identifier: BSD-2-Clause */
#include "connection/nic_cm_ib.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "nic/nic_fabric.h"
#include "nic/nic_internal.h"
#include "os/clock.h"
#include "port/infiniband/ib.h"
#include "wire/infiniband/pkey.h"

/* The ports that the manager chooses: those that kernels choose, too. */
enum { PORT_FIRST = 32768, PORT_COUNT = 28232, HOP_LIMIT = 64 };

static struct port_ib *gsi; /* NULL: not open */
/*
 * Counts the ports that the manager has chosen, from a random number, so that the processes of a
 * node rarely choose the same ones. 0: not begun.
 */
static _Atomic uint32_t ports_chosen;

int nic_cm_ib_open(uint8_t *ret_slot)
{
	int error = nic_fabric_gsi_open(&gsi, ret_slot);

	if (!error)
		nic_fabric_gsi_refresh(gsi);
	return error;
}

int nic_cm_ib_fd(void)
{
	return gsi ? port_ib_fd(gsi) : -1;
}

static uint32_t pkey_index_of(const struct cm_path_ib *path)
{
	uint16_t pkeys[PORT_IB_PKEYS_MAX];

	for (uint32_t i = 0; i < PORT_IB_PKEYS_MAX; i++)
		pkeys[i] = port_ib_pkey(gsi, path->port, i);
	return pkey_index_find(pkeys, PORT_IB_PKEYS_MAX, path->pkey);
}

void nic_cm_ib_send(const struct cm_path *path, const uint8_t packet[GSI_PACKET_BYTES])
{
	const struct qp_path to = {
		.local = path->local,
		.remote = path->remote,
		.hop_limit = HOP_LIMIT,
		.traffic_class = path->traffic_class,
		.service_level = path->ib.sl,
		.ib = {.dlid = path->ib.dlid, .port = path->ib.port, .has_grh = true},
	};
	struct packet_run run = {.packets = 1};
	uint32_t capacity_bytes;

	nic_fabric_gsi_refresh(gsi);
	run.buffer = port_ib_buffer(gsi, &capacity_bytes);
	if (!capacity_bytes || port_ib_path_open(gsi, &to, pkey_index_of(&path->ib), &run.path))
		return;
	memcpy(run.buffer, packet, GSI_PACKET_BYTES);
	port_ib_send_run(gsi, GSI_PACKET_BYTES, &run);
	port_ib_flush(gsi);
	port_ib_path_close(gsi, run.path);
}

struct receiver {
	struct cm *cm;
	void (*pump)(void);
};

static bool on_message(void *context, const struct port_ib_packet *packet)
{
	const struct receiver *receiver = context;
	const uint8_t *mad = gsi_partition_mad(packet->data, packet->data_bytes, packet->pkey);
	const struct cm_path path = {
		.local = *packet->origin.destination,
		.remote = *packet->origin.source,
		.traffic_class = packet->origin.traffic_class,
		.ib =
			{
				.port = packet->link.port,
				.sl = packet->link.service_level,
				.dlid = packet->link.slid,
				.pkey = packet->pkey,
			},
	};

	/* Without a GRH the ends have no GIDs, which the messages have to name. */
	if (!mad || !packet->link.has_grh)
		return false;
	cm_receive(receiver->cm, &path, mad, clock_now_ns());
	receiver->pump();
	return true;
}

void nic_cm_ib_receive(struct cm *cm, void (*pump)(void))
{
	struct receiver receiver = {cm, pump};

	if (!gsi)
		return;
	nic_fabric_gsi_refresh(gsi);
	port_ib_receive(gsi, on_message, &receiver);
}

static uint32_t port_choose(void)
{
	uint32_t none = 0;

	if (!atomic_load(&ports_chosen))
		atomic_compare_exchange_strong(
			&ports_chosen, &none, (uint32_t)nic_random_u64() | 1);
	return PORT_FIRST + atomic_fetch_add(&ports_chosen, 1) % PORT_COUNT;
}

int nic_cm_ib_claim(struct agent_claim *claim)
{
	int error;

	if (!ip_cm_service_port(claim->service_id))
		claim->service_id += port_choose();
	if (claim->flags & AGENT_CLAIM_LISTENS) {
		error = nic_fabric_gsi_claim(claim->service_id);
		if (error)
			return error;
	}
	claim->id = 1;
	return 0;
}

void nic_cm_ib_unclaim(struct agent_claim *claim)
{
	if (claim->id && claim->flags & AGENT_CLAIM_LISTENS)
		nic_fabric_gsi_release(claim->service_id);
	claim->id = 0;
}

void nic_cm_ib_forget(void)
{
	port_ib_destroy(gsi);
	gsi = NULL;
	atomic_store(&ports_chosen, 0);
}

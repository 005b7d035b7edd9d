/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packets: the Ethernet ports of queue pairs, and the flows that steer frames to them.
 *
 * Flows are few and change seldom. So each new flow builds a new table.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/object/nic_object.h"
#include "os/log.h"

struct nic_flow {
	struct flow_rule rule;
	struct nic_qp *qp;
	uint64_t epoch;
	enum port_packet_wish wish;
};

int nic_frames_open(struct nic_qp *qp, uint32_t ifindex)
{
	struct worker_frames *frames = calloc(1, sizeof(*frames));
	int error;

	if (!frames)
		return -ENOMEM;
	error = port_packet_open(ifindex, &frames->port);
	if (error) {
		log_write(LOG_ERROR,
			error == -EPERM ? "no raw packet queue pair: it needs CAP_NET_RAW in "
					  "this network namespace"
					: "no raw packet queue pair: %s",
			strerror(-error));
		free(frames);
		return error;
	}
	list_init(&frames->link);
	qp->frames = frames;
	return 0;
}

static void spread_begin(struct nic_qp *qp, const struct nic_spread *from)
{
	struct raw_spread *to = &qp->frames->raw->spread;

	to->count = from->count;
	to->fields = from->fields;
	memcpy(to->key, from->key, sizeof(to->key));
	for (uint32_t i = 0; i < from->count; i++) {
		to->table[i] = &from->wqs[i]->wq;
		atomic_fetch_or_explicit(&from->wqs[i]->cq->lane_mask, 1u << qp->worker->lane.index,
			memory_order_release);
	}
}

void nic_frames_begin(struct nic_qp *qp, const struct nic_qp_init *init)
{
	qp->frames->raw = raw_from_qp(qp->qp);
	raw_attach(qp->frames->raw, init->ifindex, port_packet_frame_bytes_max(qp->frames->port));
	if (init->spread)
		spread_begin(qp, init->spread);
	worker_frames_add(qp->worker, qp->frames);
}

void nic_frames_end(struct nic_qp *qp)
{
	if (qp->frames)
		worker_frames_remove(qp->worker, qp->frames);
}

void nic_frames_close(struct nic_qp *qp)
{
	if (qp->frames)
		port_packet_close(qp->frames->port);
	free(qp->frames);
}

/* The frames that the interface has to receive so that this rule can match. */
static enum port_packet_wish traffic_of(const struct flow_rule *rule)
{
	static const uint8_t all_ones[FRAME_MAC_BYTES] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	switch (rule->kind) {
	case FLOW_NORMAL:
		if (!memcmp(rule->mask.dst_mac, all_ones, FRAME_MAC_BYTES))
			return PORT_PACKET_ADDRESS;
		return PORT_PACKET_EVERYTHING;
	case FLOW_MULTICAST_DEFAULT:
		return PORT_PACKET_MULTICAST;
	case FLOW_ALL_DEFAULT:
	case FLOW_SNIFFER:
		return PORT_PACKET_EVERYTHING;
	}
	return PORT_PACKET_NOTHING;
}

void nic_flows_forget(void)
{
	free(worker_flows);
	worker_flows = NULL;
}

/* The NIC is locked. */
static int flow_add(const struct flow_rule *rule)
{
	struct flow_table *before = worker_flows;
	struct flow_table *table = flow_table_with(before, rule);

	if (!table)
		return -ENOMEM;
	nic_for_each_worker(worker_lock);
	worker_flows = table;
	nic_for_each_worker(worker_unlock);
	free(before);
	return 0;
}

/* The NIC is locked. */
static int flow_start(struct nic_flow *flow)
{
	struct worker_frames *frames = flow->qp->frames;
	int error = port_packet_request(frames->port, flow->wish, flow->rule.value.dst_mac, true);

	if (error)
		return error;
	error = port_packet_listen(frames->port, true);
	if (!error)
		error = flow_add(&flow->rule);
	if (error)
		port_packet_request(frames->port, flow->wish, flow->rule.value.dst_mac, false);
	else
		frames->flow_count++;
	return error;
}

/* The NIC is locked. */
static void flow_stop(struct nic_flow *flow)
{
	struct worker_frames *frames = flow->qp->frames;

	nic_for_each_worker(worker_lock);
	flow_table_remove(worker_flows, &flow->rule);
	nic_for_each_worker(worker_unlock);
	port_packet_request(frames->port, flow->wish, flow->rule.value.dst_mac, false);
	if (--frames->flow_count == 0)
		port_packet_listen(frames->port, false);
}

int nic_flow_create(struct nic_qp *qp, const struct flow_rule *rule, struct nic_flow **ret_flow)
{
	struct nic_flow *flow = calloc(1, sizeof(*flow));
	int error = -EINVAL;

	if (!flow)
		return -ENOMEM;
	nic_enter();
	if (qp->epoch == nic_epoch && qp->frames) {
		flow->rule = *rule;
		flow->rule.owner = qp->qp;
		flow->rule.ifindex = qp->frames->raw->ifindex;
		flow->qp = qp;
		flow->epoch = nic_epoch;
		flow->wish = traffic_of(rule);
		error = flow_start(flow);
	}
	nic_leave();
	if (error)
		free(flow);
	else
		*ret_flow = flow;
	return error;
}

void nic_flow_destroy(struct nic_flow *flow)
{
	nic_enter();
	if (flow->epoch == nic_epoch)
		flow_stop(flow);
	nic_leave();
	free(flow);
}

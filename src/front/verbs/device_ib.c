/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/device_ib.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "front/verbs/context.h"
#include "front/verbs/fork.h"
#include "front/verbs/select.h"
#include "nic/nic_fabric.h"
#include "os/setting.h"
#include "queue/sq.h"

/* PortInfo (IBTA 14.2.5.6): LinkSpeedActive has bits up to QDR; LinkSpeedExtActive has the rest. */
enum { SPEED_EXT_SHIFT = 4, MTU_MIN = 1, MTU_MAX = 5 };

/* The name of the device if URNIC_DEVICE_NAME gives none. */
#define NAME_DEFAULT "ibp0"

static struct device *ib_device; /* guarded by device_lock */

static struct device *device_make(const struct attach_node *node)
{
	const char *wanted = setting_text("URNIC_DEVICE_NAME");
	unsigned int unnamed = 0;
	char name[IBV_SYSFS_NAME_MAX];
	struct device like = {
		.transport = DEVICE_INFINIBAND,
		.guid = htobe64(node->node_guid),
		.port_count = min_u32(max_u32(node->port_count, 1), DEVICE_IB_PORTS_MAX),
		.is_active = true,
	};
	struct device *device;

	memcpy(like.ifname, node->name, sizeof(like.ifname) - 1);
	like.verbs.node_type = IBV_NODE_CA;
	like.verbs.transport_type = IBV_TRANSPORT_IB;
	if (!wanted || !select_name(wanted, "ibp", "0", &unnamed, name, sizeof(name)))
		memcpy(name, NAME_DEFAULT, sizeof(NAME_DEFAULT));
	like.ib_ports = calloc(like.port_count, sizeof(*like.ib_ports));
	device = like.ib_ports ? device_insert(&like, name) : NULL;
	if (!device)
		free(like.ib_ports);
	return device;
}

int device_ib_refresh(void)
{
	struct attach_port ports[DEVICE_IB_PORTS_MAX] = {{0}};
	const struct attach_node *node;
	int error = nic_fabric_open(&node);

	for (uint32_t i = 0; !error && i < min_u32(node->port_count, DEVICE_IB_PORTS_MAX); i++)
		nic_fabric_port(i + 1, &ports[i]);
	pthread_mutex_lock(&device_lock);
	if (!error && !ib_device) {
		ib_device = device_make(node);
		error = ib_device ? 0 : -ENOMEM;
	}
	if (!error && !ib_device->is_gone) {
		memcpy(ib_device->ib_ports, ports,
			ib_device->port_count * sizeof(*ib_device->ib_ports));
		device_present_only(ib_device);
	}
	pthread_mutex_unlock(&device_lock);
	/* Without a subnet the process has no device, which is no error */
	return error == -ENOMEM ? error : 0;
}

/* The context's event for an event of the subnet. */
static uint32_t event_of(uint32_t event)
{
	switch ((enum attach_event_type)event) {
	case ATTACH_EVENT_PORT_ACTIVE:
		return CONTEXT_PORT_ACTIVE;
	case ATTACH_EVENT_PORT_ERROR:
		return CONTEXT_PORT_ERR;
	case ATTACH_EVENT_LID_CHANGE:
		return CONTEXT_LID_CHANGE;
	case ATTACH_EVENT_PKEY_CHANGE:
		return CONTEXT_PKEY_CHANGE;
	case ATTACH_EVENT_SM_CHANGE:
		return CONTEXT_SM_CHANGE;
	case ATTACH_EVENT_CLIENT_REREGISTER:
		return CONTEXT_CLIENT_REREGISTER;
	case ATTACH_EVENT_GID_CHANGE:
		return CONTEXT_GID_CHANGE;
	case ATTACH_EVENT_FLOW_IN:
	case ATTACH_EVENT_FLOW_OUT:
		break; /* this is no event of a port */
	}
	return 0;
}

static void on_event(uint32_t port, uint32_t event)
{
	struct device *device;

	if (event)
		device_ib_refresh();
	pthread_mutex_lock(&device_lock);
	device = ib_device;
	if (device && !event)
		device->is_gone = true;
	pthread_mutex_unlock(&device_lock);
	if (device && !event)
		contexts_post(device, CONTEXT_FATAL);
	else if (device && device_has_port(device, port))
		contexts_post_port(device, event_of(event), port);
}

int device_ib_watch(void)
{
	return nic_fabric_watch(on_event);
}

struct attach_port device_ib_port(struct device *device, uint32_t port)
{
	struct attach_port info;

	pthread_mutex_lock(&device_lock);
	info = device->ib_ports[port - 1];
	pthread_mutex_unlock(&device_lock);
	return info;
}

static uint8_t mtu_code(uint8_t mtu)
{
	return (uint8_t)min_u32(max_u32(mtu, MTU_MIN), MTU_MAX);
}

uint32_t device_ib_mtu_bytes(const struct attach_port *port)
{
	return 128u << mtu_code(port->mtu);
}

void device_ib_port_attr(const struct attach_port *port, struct ibv_port_attr *attr)
{
	*attr = (struct ibv_port_attr){
		.state = (enum ibv_port_state)port->state,
		.max_mtu = (enum ibv_mtu)mtu_code(port->mtu_max),
		.active_mtu = (enum ibv_mtu)mtu_code(port->mtu),
		.gid_tbl_len = port->guid_count,
		.port_cap_flags = port->capability_mask,
		.max_msg_sz = MESSAGE_BYTES_MAX,
		.bad_pkey_cntr = port->bad_pkeys,
		.qkey_viol_cntr = port->qkey_violations,
		.pkey_tbl_len = port->pkey_count,
		.lid = port->lid,
		.sm_lid = port->sm_lid,
		.lmc = port->lmc,
		.max_vl_num = port->vl_cap,
		.sm_sl = port->sm_sl,
		.subnet_timeout = port->subnet_timeout,
		.init_type_reply = port->init_type_reply,
		.active_width = port->link_width,
		.active_speed =
			(uint8_t)(port->link_speed_ext ? port->link_speed_ext << SPEED_EXT_SHIFT
						       : port->link_speed),
		.phys_state = port->phys_state,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};
}

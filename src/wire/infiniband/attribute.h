/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_ATTRIBUTE_H
#define URNIC_WIRE_INFINIBAND_ATTRIBUTE_H

/*
 * Attributes of subnet management and performance management as plain structs, in host order. The
 * rows of attribute.def define their members and how each is encoded and decoded.
 */

#include <stdint.h>

/* Attributes of subnet management (IBTA 14.2.5, table 123). The values are attribute IDs. */
enum sm_attribute {
	SM_ATTRIBUTE_NOTICE = 0x02,
	SM_ATTRIBUTE_NODE_DESCRIPTION = 0x10,
	SM_ATTRIBUTE_NODE_INFO = 0x11,
	SM_ATTRIBUTE_SWITCH_INFO = 0x12,
	SM_ATTRIBUTE_GUID_INFO = 0x14,
	SM_ATTRIBUTE_PORT_INFO = 0x15,
	SM_ATTRIBUTE_PKEY_TABLE = 0x16,
	SM_ATTRIBUTE_SL_TO_VL = 0x17,
	SM_ATTRIBUTE_VL_ARBITRATION = 0x18,
	SM_ATTRIBUTE_LINEAR_FORWARDING = 0x19,
	SM_ATTRIBUTE_RANDOM_FORWARDING = 0x1a,
	SM_ATTRIBUTE_MULTICAST_FORWARDING = 0x1b,
	SM_ATTRIBUTE_SM_INFO = 0x20,
	SM_ATTRIBUTE_VENDOR_DIAG = 0x30,
	SM_ATTRIBUTE_LED_INFO = 0x31,
};

/* Attributes of performance management (IBTA 16.1.3, 16.1.4). The values are attribute IDs. */
enum pm_attribute {
	PM_ATTRIBUTE_CLASS_PORT_INFO = 0x01,
	PM_ATTRIBUTE_PORT_COUNTERS = 0x12,
	PM_ATTRIBUTE_PORT_COUNTERS_EXT = 0x1d,
};

/* Values of port_info.port_state (IBTA 14.2.5.6); 0 in a Set: no change. */
enum ib_port_state {
	IB_PORT_NO_CHANGE = 0,
	IB_PORT_DOWN = 1,
	IB_PORT_INIT = 2,
	IB_PORT_ARMED = 3,
	IB_PORT_ACTIVE = 4,
};

/* Values of port_info.port_physical_state. */
enum ib_physical_state {
	IB_PHYSICAL_NO_CHANGE = 0,
	IB_PHYSICAL_SLEEP = 1,
	IB_PHYSICAL_POLLING = 2,
	IB_PHYSICAL_DISABLED = 3,
	IB_PHYSICAL_LINK_UP = 5,
};

/* Bits of port_info.capability_mask. */
enum ib_capability {
	IB_CAPABILITY_IS_SM = 1 << 1,
	IB_CAPABILITY_TRAP = 1 << 3,
	IB_CAPABILITY_AUTOMATIC_MIGRATION = 1 << 5,
	IB_CAPABILITY_SL_MAPPING = 1 << 6,
	IB_CAPABILITY_SM_DISABLED = 1 << 10,
	IB_CAPABILITY_SYSTEM_IMAGE_GUID = 1 << 11,
	IB_CAPABILITY_SWITCH_PKEY_TRAP = 1 << 12,
	IB_CAPABILITY_EXTENDED_SPEEDS = 1 << 14,
	IB_CAPABILITY_CM = 1 << 16,
	IB_CAPABILITY_VENDOR_CLASS = 1 << 20,
	IB_CAPABILITY_MASK_NOTICE = 1 << 22,
	IB_CAPABILITY_CLIENT_REREGISTRATION = 1 << 25,
	IB_CAPABILITY_OTHER_CHANGES_NOTICE = 1 << 26,
};

/* Values of sm_info.state (IBTA 14.4.1). */
enum ib_sm_state {
	IB_SM_NOT_ACTIVE = 0,
	IB_SM_DISCOVERING = 1,
	IB_SM_STANDBY = 2,
	IB_SM_MASTER = 3,
};

/* Attribute modifiers of SubnSet(SMInfo) (IBTA 14.4.1). */
enum ib_sm_control {
	IB_SM_HANDOVER = 1,
	IB_SM_ACKNOWLEDGE = 2,
	IB_SM_DISABLE = 3,
	IB_SM_GO_STANDBY = 4,
	IB_SM_DISCOVER = 5,
};

/* Values of node_info.node_type. */
enum ib_node_type {
	IB_NODE_CA = 1,
	IB_NODE_SWITCH = 2,
	IB_NODE_ROUTER = 3,
};

#define IB_ATTRIBUTE(NAME, name, bytes) enum { IB_##NAME##_BYTES = (bytes) };
#include "wire/infiniband/attribute.def"

#define IB_ATTRIBUTE(NAME, name, bytes)            struct ib_##name {
#define IB_INT(name, type, field, byte, bit, bits) type field;
#define IB_BYTES(name, field, byte, bytes)         uint8_t field[bytes];
#define IB_END(name) \
	}            \
	;
#include "wire/infiniband/attribute.def"

/*
 * ib_<name>_decode() reads IB_<NAME>_BYTES bytes; every bit pattern is a value. ib_<name>_encode()
 * writes the same number of bytes, with zeros for reserved bits. It cuts a value that is too large
 * for its field.
 */
#define IB_ATTRIBUTE(NAME, name, bytes)                                            \
	void ib_##name##_decode(struct ib_##name *attribute, const uint8_t *from); \
	void ib_##name##_encode(const struct ib_##name *attribute, uint8_t *to);
#include "wire/infiniband/attribute.def"

#endif

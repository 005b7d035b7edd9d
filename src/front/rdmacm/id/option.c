/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of identifiers: rdma_set_option().
 */
#include "front/rdmacm/id/id.h"

static int option_int(const void *value, size_t bytes, int *ret_value)
{
	if (bytes != sizeof(*ret_value))
		return id_cause(REASON_CM_OPTION);
	memcpy(ret_value, value, sizeof(*ret_value));
	return 0;
}

static int set_id_option(struct id *id, int name, const void *value, size_t bytes)
{
	int number = 0, error;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (bytes != 1)
			return id_cause(REASON_CM_OPTION);
		id->tos = *(const uint8_t *)value;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		error = option_int(value, bytes, &number);
		if (!error && (number ? id->state == ID_LISTENING : id->state != ID_IDLE))
			error = id_cause(REASON_CM_STATE);
		if (!error)
			id->is_reusable = number;
		return error;
	case RDMA_OPTION_ID_AFONLY:
		error = option_int(value, bytes, &number);
		if (!error && id->state != ID_IDLE && id->state != ID_BOUND)
			error = id_cause(REASON_CM_STATE);
		if (!error)
			id->is_family_only = number;
		return error;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (bytes != 1 || *(const uint8_t *)value > 31 || id_is_datagram(id))
			return id_cause(REASON_CM_OPTION);
		id->ack_timeout = *(const uint8_t *)value;
		return 0;
	default:
		return id_cause(REASON_CM_OPTION_UNKNOWN);
	}
}

/*
 * Set the path to a record of the program, in place of rdma_resolve_route(). The kernel's rdma_cm
 * permits this on Ethernet, too. Only the MTU of the record has an effect, because the kernel
 * routes packets by their addresses.
 */
static int set_ib_path(struct id *id, const void *value, size_t bytes)
{
	const uint32_t wanted =
		IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
	struct ibv_path_data data;
	size_t at = 0;
	int rc;

	do {
		if (bytes - at < sizeof(data))
			return id_cause(REASON_CM_OPTION);
		memcpy(&data, (const uint8_t *)value + at, sizeof(data));
		at += sizeof(data);
	} while (data.flags != wanted);
	if (id->state != ID_ADDRESS_RESOLVED)
		return id_cause(REASON_CM_STATE);
	if (id->path.ib.port) {
		id->path.ib.slid = be16toh(data.path.slid);
		id->path.ib.dlid = be16toh(data.path.dlid);
		id->path.ib.pkey = be16toh(data.path.pkey);
		id->path.ib.sl = be16toh(data.path.qosclass_sl) & 15;
	}
	rc = id_fill_path(id);
	if (rc)
		return -rc;
	id->agreement.path_mtu =
		(uint8_t)min_u32(id->agreement.path_mtu, max_u32(data.path.mtu & 63, IBV_MTU_256));
	id->id.route.path_rec->mtu = id->agreement.path_mtu;
	id->state = ID_ROUTE_RESOLVED;
	id_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *public, int level, int name, void *value, size_t bytes)
{
	struct id *id = id_find(public);
	int error;

	if (!id)
		return fail_errno(errno);
	if (!value)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		error = set_ib_path(id, value, bytes);
	else if (level == RDMA_OPTION_ID)
		error = set_id_option(id, name, value, bytes);
	else
		error = id_cause(REASON_CM_OPTION_UNKNOWN);
	return error ? fail_errno(error) : 0;
}

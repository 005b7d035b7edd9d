/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages without a connection: their routing, and the answers if no process takes them. */

#include "cm/cm_internal.h"
#include "wire/bytes.h"

/* Begin an answer to `message`: both communication IDs change places. */
static struct cm_message answer_begin(const struct cm_message *message, enum cm_attribute attribute)
{
	return cm_message_begin(attribute, message->transaction_id, cm_message_receiver(message),
		cm_message_sender(message));
}

static struct cm_message reject_answer(
	const struct cm_message *message, enum cm_answered answered, enum cm_reject reason)
{
	struct cm_message rej = answer_begin(message, CM_REJ);

	rej.rej.message = (uint8_t)answered;
	rej.rej.reason = (uint16_t)reason;
	return rej;
}

bool cm_answer_unknown(const struct cm_message *message, struct cm_message *ret_answer)
{
	switch (message->attribute) {
	case CM_REQ:
		*ret_answer = reject_answer(message, CM_ANSWERED_REQ, CM_REJECT_INVALID_SERVICE_ID);
		return true;
	case CM_REP:
		*ret_answer = reject_answer(message, CM_ANSWERED_REP, CM_REJECT_INVALID_COMM_ID);
		return true;
	case CM_RTU:
		/*
		 * The specification has no answer to a RTU. This REJ informs a peer that believes
		 * itself connected that there is no connection.
		 */
		*ret_answer = reject_answer(message, CM_ANSWERED_OTHER, CM_REJECT_INVALID_COMM_ID);
		return true;
	case CM_DREQ:
		*ret_answer = answer_begin(message, CM_DREP);
		return true;
	case CM_SIDR_REQ:
		*ret_answer = answer_begin(message, CM_SIDR_REP);
		ret_answer->sidr_rep.status = CM_SIDR_UNSUPPORTED;
		ret_answer->sidr_rep.service_id = message->sidr_req.service_id;
		return true;
	case CM_LAP:
		*ret_answer = answer_begin(message, CM_APR);
		ret_answer->apr.status = CM_APR_INVALID_COMM_ID;
		return true;
	case CM_MRA:
	case CM_REJ:
	case CM_DREP:
	case CM_SIDR_REP:
	case CM_APR:
		break;
	}
	return false;
}

void cm_rej_name_itself(struct cm_rej *rej, uint64_t guid)
{
	rej->info_bytes = sizeof(guid);
	put_be64(rej->info, guid);
}

bool cm_last_message_build(
	const struct cm_last_message *last_message, struct cm_message *ret_message)
{
	struct cm_message message = cm_message_begin((enum cm_attribute)last_message->attribute,
		last_message->local_comm_id, last_message->local_comm_id,
		last_message->remote_comm_id);

	if (last_message->attribute == CM_REJ) {
		message.rej.message = (uint8_t)last_message->answered;
		message.rej.reason = last_message->reason;
		if (last_message->reason == CM_REJECT_TIMEOUT)
			cm_rej_name_itself(&message.rej, last_message->ca_guid);
	} else if (last_message->attribute == CM_DREQ) {
		message.dreq.remote_qpn = last_message->remote_qpn;
	} else if (last_message->attribute != CM_DREP) {
		return false;
	}
	*ret_message = message;
	return true;
}

enum cm_route cm_route(
	const struct cm_message *message, uint64_t *ret_service_id, uint32_t *ret_comm_id)
{
	if (message->attribute == CM_REQ || message->attribute == CM_SIDR_REQ) {
		*ret_service_id = message->attribute == CM_REQ ? message->req.service_id
							       : message->sidr_req.service_id;
		return CM_ROUTE_SERVICE;
	}
	*ret_comm_id = cm_message_receiver(message);
	/* The peer gave up before it knew our ID, so the REJ may be for any process. */
	return message->attribute == CM_REJ && *ret_comm_id == 0 ? CM_ROUTE_ALL : CM_ROUTE_COMM_ID;
}

/*
 * Read the RDMA IP CM header, with which the requests of rdma_cm begin. Returns false if the
 * message is no such request.
 */
static bool request_header(const struct cm_message *message, struct ip_cm_header *ret_header)
{
	const uint8_t *data = NULL;
	uint64_t service_id = 0;

	if (message->attribute == CM_REQ) {
		data = message->req.private_data;
		service_id = message->req.service_id;
	} else if (message->attribute == CM_SIDR_REQ) {
		data = message->sidr_req.private_data;
		service_id = message->sidr_req.service_id;
	}
	return data && (service_id & IP_CM_SERVICE_PREFIX_MASK) == IP_CM_SERVICE_PREFIX &&
		ip_cm_header_decode(ret_header, data);
}

struct gid cm_request_address(const struct cm_message *message, const struct gid *local,
	const struct gid *remote, struct ip_cm_header *ret_header)
{
	struct ip_cm_header header;

	if (!gid_is_equal(local, remote) || !request_header(message, &header) ||
		!gid_is_loopback(&header.destination))
		return *local;
	if (ret_header)
		*ret_header = header;
	return header.destination;
}

struct gid cm_path_request_address(const struct cm_message *message, const struct cm_path *path,
	struct ip_cm_header *ret_header)
{
	struct ip_cm_header header;

	if (!path->ib.port || !request_header(message, &header))
		return cm_request_address(message, &path->local, &path->remote, ret_header);
	if (ret_header)
		*ret_header = header;
	return header.destination;
}

bool cm_address_is_any(const struct gid *gid)
{
	static const struct gid any_ipv4 = {{[10] = 0xff, [11] = 0xff}};

	return gid_is_zero(gid) || gid_is_equal(gid, &any_ipv4);
}

bool cm_address_matches(const struct gid *listening, uint32_t listening_ifindex, bool is_ipv6_only,
	const struct gid *address, uint32_t ifindex)
{
	bool is_ipv4 = gid_is_ipv4(address);

	if (gid_is_zero(listening))
		return !is_ipv4 || !is_ipv6_only;
	if (cm_address_is_any(listening))
		return is_ipv4;
	return gid_is_equal(listening, address) &&
		(listening_ifindex == 0 || ifindex == 0 || listening_ifindex == ifindex);
}

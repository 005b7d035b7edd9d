/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Types, states and attribute bits of queue pairs.
 *
 * States and attribute bits have the values of enum ibv_qp_state and enum ibv_qp_attr_mask. The
 * types have values of urnic's own, without gaps.
 */
#ifndef URNIC_QUEUE_QP_TYPE_H
#define URNIC_QUEUE_QP_TYPE_H

enum qp_type {
	QP_TYPE_RC, /* reliable connection */
	QP_TYPE_UC, /* unreliable connection */
	QP_TYPE_UD, /* unreliable datagram */
	QP_TYPE_XRC_SEND, /* the initiator of an extended reliable connection */
	QP_TYPE_XRC_RECV, /* the target of an extended reliable connection */
	QP_TYPE_RAW_PACKET, /* whole Ethernet frames */
	QP_TYPE_IWARP, /* a reliable connection over a byte stream */
	QP_TYPE_COUNT
};

enum qp_state {
	QP_RESET, /* created or reset: all queues are empty */
	QP_INIT, /* receive requests may be posted */
	QP_RTR, /* the responder runs */
	QP_RTS, /* the requester and the responder run */
	QP_SQD, /* the send queue is drained, or is still draining */
	QP_SQE, /* the send queue is in error (unreliable types only) */
	QP_ERR, /* all requests are flushed */
	QP_STATE_COUNT
};

/* Path migration (IBTA 17.2.8). The values are those of enum ibv_mig_state. */
enum qp_migration {
	QP_MIGRATED, /* only the primary path is in use */
	QP_REARM, /* this end can migrate, and waits until the peer can, too */
	QP_ARMED, /* either end may migrate at any time */
};

enum qp_attr_mask {
	ATTR_STATE = 1 << 0,
	ATTR_CUR_STATE = 1 << 1,
	ATTR_SQD_NOTIFY = 1 << 2,
	ATTR_ACCESS = 1 << 3,
	ATTR_PKEY_INDEX = 1 << 4,
	ATTR_PORT = 1 << 5,
	ATTR_QKEY = 1 << 6,
	ATTR_AV = 1 << 7,
	ATTR_PATH_MTU = 1 << 8,
	ATTR_TIMEOUT = 1 << 9,
	ATTR_RETRY_CNT = 1 << 10,
	ATTR_RNR_RETRY = 1 << 11,
	ATTR_RQ_PSN = 1 << 12,
	ATTR_MAX_RD_ATOMIC = 1 << 13,
	ATTR_ALT_PATH = 1 << 14,
	ATTR_MIN_RNR_TIMER = 1 << 15,
	ATTR_SQ_PSN = 1 << 16,
	ATTR_MAX_DEST_RD_ATOMIC = 1 << 17,
	ATTR_PATH_MIG = 1 << 18,
	ATTR_CAP = 1 << 19,
	ATTR_DEST_QPN = 1 << 20,
	ATTR_RATE_LIMIT = 1 << 25,
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IB_MESSAGE_REPORT_H
#define URNIC_IB_MESSAGE_REPORT_H

#include "ib/message.h"

/*
 * Report that the request in `packet` was refused as REFUSED_INVALID or REFUSED_ACCESS, with what
 * it asked for and, of a key, its region. `is_repeated`: count it with earlier ones. The lane is
 * locked, and failures are kept.
 */
void message_report_refusal(struct qp *qp, const struct message *message,
	const struct packet *packet, enum refusal refusal, bool is_repeated, uint64_t now_ns);

#endif

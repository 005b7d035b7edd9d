/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IB_MESSAGE_REPORT_H
#define URNIC_IB_MESSAGE_REPORT_H

#include "ib/message.h"

/*
 * Report that the request in `packet` was refused as REFUSED_INVALID or REFUSED_ACCESS. The report
 * says what the request wanted and, if it named a key, which region that key has. With
 * `is_repeated`, an equal report only adds to the count of the first one. The lane is locked, and
 * the process keeps reports.
 */
void message_report_refusal(struct qp *qp, const struct message *message,
	const struct packet *packet, enum refusal refusal, bool is_repeated, uint64_t now_ns);

#endif

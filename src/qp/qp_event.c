/* SPDX-License-Identifier: BSD-2-Clause */
#include "qp/qp_event.h"

#include "qp/qp.h"

void qp_event_put(const struct qp *qp, const struct captured_event *event)
{
	struct captured about = {
		.source = qp->attr.path.local,
		.destination = qp->attr.path.remote,
		.ifindex = qp->attr.path.ifindex,
		.qpn = qp->qpn,
		.is_sent = true,
	};

	capture_event_put(qp->lane->capture, &about, event);
}

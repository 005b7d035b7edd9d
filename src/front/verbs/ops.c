/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/ops.h"

#include "front/verbs/counters.h"
#include "front/verbs/cq.h"
#include "front/verbs/dm.h"
#include "front/verbs/domain.h"
#include "front/verbs/flow.h"
#include "front/verbs/mr.h"
#include "front/verbs/mw.h"
#include "front/verbs/qp.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"
#include "front/verbs/xrcd.h"

/* Operations of RoCE devices only: extended connections, raw packets, tag matching, rates. */
static void roce_fill(struct verbs_context *context)
{
	context->open_xrcd = xrcd_open;
	context->close_xrcd = xrcd_close;
	context->open_qp = qp_open;
	context->create_wq = wq_create;
	context->modify_wq = wq_modify;
	context->destroy_wq = wq_destroy;
	context->create_rwq_ind_table = wq_table_create;
	context->destroy_rwq_ind_table = wq_table_destroy;
	context->create_counters = counters_create;
	context->destroy_counters = counters_destroy;
	context->attach_counters_point_flow = counters_attach;
	context->read_counters = counters_read;
	context->ibv_create_flow = flow_create;
	context->ibv_destroy_flow = flow_destroy;
	context->modify_qp_rate_limit = qp_modify_rate_limit;
	context->post_srq_ops = srq_post_ops_verbs;
	context->get_srq_num = srq_get_number;
}

void ops_fill(struct verbs_context *context, bool is_iwarp)
{
	struct ibv_context_ops *ops = &context->context.ops;

	ops->poll_cq = cq_poll_verbs;
	ops->req_notify_cq = cq_request_notify;
	ops->post_send = qp_post_send_verbs;
	ops->post_recv = qp_post_recv_verbs;
	context->alloc_null_mr = mr_alloc_null;
	context->advise_mr = mr_advise;
	context->alloc_dm = dm_alloc;
	context->free_dm = dm_free;
	context->reg_dm_mr = dm_register;
	ops->alloc_mw = mw_alloc;
	ops->bind_mw = mw_bind_verbs;
	ops->dealloc_mw = mw_dealloc;
	context->alloc_parent_domain = parent_domain_alloc;
	context->alloc_td = td_alloc;
	context->dealloc_td = td_dealloc;
	ops->post_srq_recv = srq_post_recv_verbs;
	context->create_srq_ex = srq_create_ex;
	context->create_cq_ex = cq_create_ex;
	context->modify_cq = cq_modify;
	context->query_rt_values = query_rt_values;
	context->create_qp_ex = qp_create_ex;
	context->query_device_ex = query_device_ex;
	context->query_port = query_port;
	if (!is_iwarp)
		roce_fill(context);
}

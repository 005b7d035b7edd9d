/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/traffic.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "doctor/trial.h"
#include "os/setting.h"

enum {
	PORT = 1,
	BUFFER_BYTES = 64,
	PSN = 1,
	ACK_TIMEOUT = 14, /* 67 ms */
	RETRIES = 7,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

static uint8_t buffer[2 * BUFFER_BYTES]; /* source, then target */

/* --- the child, which releases nothing: it ends at once --- */

static struct ibv_context *device_open(const char *name)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; list && i < count; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			return ibv_open_device(list[i]);
	errno = ENODEV;
	return NULL;
}

static struct ibv_qp *qp_make(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {1, 1, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};

	return cq ? ibv_create_qp(pd, &init) : NULL;
}

/* Connect the queue pair to itself. Returns 0 or an errno. */
static int qp_connect(struct ibv_qp *qp)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = ACCESS};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = qp->qp_num,
		.rq_psn = PSN,
		.ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.hop_limit = 1}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = RETRIES,
		.sq_psn = PSN,
	};
	int error = ibv_query_gid(qp->context, PORT, 0, &rtr.ah_attr.grh.dgid) ? errno : 0;

	if (!error)
		error = ibv_modify_qp(qp, &init,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!error)
		error = ibv_modify_qp(qp, &rtr,
			IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (!error)
		error = ibv_modify_qp(qp, &rts,
			IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return error;
}

/* Write the first half of the buffer into the second. Returns 0 or an errno. */
static int qp_write(struct ibv_qp *qp, struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), ACCESS);
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = BUFFER_BYTES};
	struct ibv_send_wr *bad,
		request = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma.remote_addr = (uintptr_t)(buffer + BUFFER_BYTES),
		};
	struct ibv_wc completion;
	int error, count;

	if (!mr)
		return errno;
	memset(buffer, 'u', BUFFER_BYTES);
	sge.lkey = mr->lkey;
	request.wr.rdma.rkey = mr->rkey;
	error = ibv_post_send(qp, &request, &bad);
	if (error)
		return error;
	while ((count = ibv_poll_cq(qp->send_cq, 1, &completion)) == 0)
		;
	if (count < 0)
		return EIO;
	if (completion.status == IBV_WC_RETRY_EXC_ERR)
		return ETIMEDOUT;
	return completion.status == IBV_WC_SUCCESS && buffer[sizeof(buffer) - 1] == 'u' ? 0 : EIO;
}

/* A trial: open the device, and let a queue pair write to itself. */
static int device_use(void *context)
{
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	int error;

	setenv("URNIC_LOCAL", "off", 1);
	unsetenv("URNIC_LOG");
	settings_read();
	device = device_open(context);
	pd = device ? ibv_alloc_pd(device) : NULL;
	qp = pd ? qp_make(device, pd) : NULL;
	if (!qp)
		return errno ? -errno : -EIO;
	if (device->device->transport_type == IBV_TRANSPORT_IWARP)
		return 0;
	error = qp_connect(qp);
	return error ? -error : -qp_write(qp, pd);
}

/* --- the parent --- */

void check_traffic(struct findings *findings, const char *device)
{
	char name[IBV_SYSFS_NAME_MAX];
	struct trial trial;

	snprintf(name, sizeof(name), "%s", device);
	trial = trial_run(device_use, name);
	if (trial.result == 0)
		finding_add(findings, "traffic", device, FINDING_OK,
			"a queue pair can be made and used");
	else if (trial.result == -ETIMEDOUT && !trial.said[0])
		finding_add(findings, "traffic", device, FINDING_FAILS,
			"packets do not arrive: let the firewall pass UDP port 4791");
	else
		finding_add(findings, "traffic", device, FINDING_FAILS, "no queue pair works: %s",
			trial.said[0] ? trial.said : trial_reason(&trial));
}

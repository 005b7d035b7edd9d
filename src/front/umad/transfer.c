/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending and receiving MADs. */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "front/umad/abi.h"
#include "front/umad/port.h"
#include "os/clock.h"
#include "wire/infiniband/mad.h"

/*
 * After the end of the fabric, receiving fails only after this pause. Without the pause, a program
 * that ignores errors and receives in a loop would spin.
 */
enum { ENDED_PAUSE_MS = 100 };

/* Set errno according to the result. */
static int result_of(int rc)
{
	if (rc < 0)
		errno = -rc;
	return rc;
}

/* Returns 0, -ETIMEDOUT or -EIO. */
static int wait_readable(int fd, int timeout_ms)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	int count;

	do
		count = poll(&polled, 1, timeout_ms);
	while (count < 0 && errno == EINTR && timeout_ms < 0);
	if (count == 0)
		return -ETIMEDOUT;
	return count == 1 && polled.revents & POLLIN ? 0 : -EIO;
}

int umad_poll(int portid, int timeout_ms)
{
	struct umad_opening *opening = opening_get(portid);
	int rc;

	if (!opening)
		return result_of(-EINVAL);
	rc = wait_readable(portid, timeout_ms);
	opening_put(opening);
	return result_of(rc);
}

int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	struct umad_opening *opening = opening_get(portid);
	ib_user_mad_t *mad = umad;
	struct attach_mad sent = {.agent = (uint32_t)agentid,
		.timeout_ms = (uint32_t)timeout_ms,
		.retries = (uint32_t)retries,
		.mad_bytes = (uint32_t)length,
		.qpn = be32toh(mad->addr.qpn),
		.qkey = be32toh(mad->addr.qkey),
		.lid = be16toh(mad->addr.lid),
		.pkey_index = mad->addr.pkey_index,
		.sl = mad->addr.sl,
		.path_bits = mad->addr.path_bits,
		.has_grh = mad->addr.grh_present,
		.gid_index = mad->addr.gid_index,
		.hop_limit = mad->addr.hop_limit,
		.traffic_class = mad->addr.traffic_class,
		.flow_label = be32toh(mad->addr.flow_label)};
	int rc;

	if (!opening)
		return result_of(-EINVAL);
	memcpy(sent.gid.raw, mad->addr.gid, sizeof(sent.gid.raw));
	mad->timeout_ms = sent.timeout_ms;
	mad->retries = sent.retries;
	mad->agent_id = sent.agent;
	rc = length < MAD_HEADER_BYTES || length > ATTACH_MAD_BYTES_MAX
		? -EINVAL
		: fabric_mads_send(opening->fd, &sent, mad->data);
	opening_put(opening);
	return result_of(rc == 0 || rc == -EINVAL ? rc : -EIO);
}

static void address_fill(ib_mad_addr_t *addr, const struct attach_mad *mad)
{
	*addr = (ib_mad_addr_t){.qpn = htobe32(mad->qpn),
		.qkey = htobe32(mad->qkey),
		.lid = htobe16(mad->lid),
		.sl = mad->sl,
		.path_bits = mad->path_bits,
		.grh_present = mad->has_grh,
		.gid_index = mad->gid_index,
		.hop_limit = mad->hop_limit,
		.traffic_class = mad->traffic_class,
		.flow_label = htobe32(mad->flow_label),
		.pkey_index = mad->pkey_index};
	memcpy(addr->gid, mad->gid.raw, sizeof(addr->gid));
}

/* Take a MAD off the socket. Returns the agent or -errno; -EAGAIN: there is none. */
static int mad_take(struct umad_opening *opening, ib_user_mad_t *umad, int *length)
{
	struct attach_mad mad = {0};
	int rc;

	pthread_mutex_lock(&opening->receiving);
	rc = fabric_mads_receive(opening->fd, &mad, umad->data, (uint32_t)*length);
	pthread_mutex_unlock(&opening->receiving);
	if (rc == 0 || rc == -ENOSPC)
		*length = (int)mad.mad_bytes;
	if (rc)
		return rc;
	umad->agent_id = mad.agent;
	umad->status = mad.status;
	umad->length = (uint32_t)sizeof(*umad) + mad.mad_bytes;
	address_fill(&umad->addr, &mad);
	return (int)mad.agent;
}

/* Wait for a MAD and take it. If another thread takes it first, wait for the next one. */
static int mad_wait(struct umad_opening *opening, ib_user_mad_t *umad, int *length, int timeout_ms)
{
	uint64_t until_ns =
		timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * 1000000;
	int rc = mad_take(opening, umad, length);

	while (rc == -EAGAIN && timeout_ms != 0) {
		rc = wait_readable(opening->fd, clock_ms_until(until_ns));
		if (rc == 0)
			rc = mad_take(opening, umad, length);
	}
	if (rc == -EIO)
		poll(NULL, 0, ENDED_PAUSE_MS);
	return rc;
}

int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	struct umad_opening *opening = opening_get(portid);
	int rc;

	if (!opening || !umad || !length || *length < 0) {
		if (opening)
			opening_put(opening);
		return result_of(-EINVAL);
	}
	rc = mad_wait(opening, umad, length, timeout_ms);
	opening_put(opening);
	return result_of(rc);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffers of MADs (struct ib_user_mad): calls that only read or write such a buffer. */
#include <stdio.h>
#include <string.h>

#include "front/umad/abi.h"

void *umad_get_mad(void *umad)
{
	return ((ib_user_mad_t *)umad)->data;
}

size_t umad_size(void)
{
	return sizeof(ib_user_mad_t);
}

int umad_status(void *umad)
{
	return (int)((ib_user_mad_t *)umad)->status;
}

ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
	return &((ib_user_mad_t *)umad)->addr;
}

int umad_set_grh(void *umad, void *mad_addr)
{
	ib_mad_addr_t *to = umad_get_mad_addr(umad);
	const ib_mad_addr_t *from = mad_addr;

	to->grh_present = from != NULL;
	if (!from)
		return 0;
	to->gid_index = from->gid_index;
	to->hop_limit = from->hop_limit;
	to->traffic_class = from->traffic_class;
	to->flow_label = htobe32(from->flow_label);
	memcpy(to->gid, from->gid, sizeof(to->gid));
	return 0;
}

int umad_set_pkey(void *umad, int pkey_index)
{
	umad_get_mad_addr(umad)->pkey_index = (uint16_t)pkey_index;
	return 0;
}

int umad_get_pkey(void *umad)
{
	return umad_get_mad_addr(umad)->pkey_index;
}

int umad_set_addr_net(void *umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey)
{
	ib_mad_addr_t *addr = umad_get_mad_addr(umad);

	addr->lid = dlid;
	addr->qpn = dqp;
	addr->sl = (uint8_t)sl;
	addr->qkey = qkey;
	return 0;
}

int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(
		umad, htobe16((uint16_t)dlid), htobe32((uint32_t)dqp), sl, htobe32((uint32_t)qkey));
}

int umad_debug(int level)
{
	static int debug_level;

	if (level >= 0)
		debug_level = level;
	return debug_level;
}

void umad_addr_dump(ib_mad_addr_t *addr)
{
	char gid[2 * sizeof(addr->gid) + 1] = "";

	for (size_t i = 0; i < sizeof(addr->gid); i++)
		snprintf(gid + 2 * i, 3, "%02x", addr->gid[i]);
	fprintf(stderr, "qpn %u qkey 0x%x lid %u sl %u\n", be32toh(addr->qpn), be32toh(addr->qkey),
		be16toh(addr->lid), addr->sl);
	fprintf(stderr,
		"grh_present %u gid_index %u hop_limit %u traffic_class %u flow_label 0x%x "
		"pkey_index %u\nGID 0x%s\n",
		addr->grh_present, addr->gid_index, addr->hop_limit, addr->traffic_class,
		be32toh(addr->flow_label), addr->pkey_index, gid);
}

void umad_dump(void *umad)
{
	const ib_user_mad_t *mad = umad;

	fprintf(stderr, "agent id %u status %x timeout %u\n", mad->agent_id, mad->status,
		mad->timeout_ms);
	umad_addr_dump(umad_get_mad_addr(umad));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arith.h"
#include "base/record_ring.h"
#include "local/channel/borrower.h"
#include "local/channel/channel.h"
#include "local/channel/doorbell.h"
#include "local/ud_endpoint.h"
#include "queue/rq.h"
#include "queue/srq.h"
#include "queue/waiter.h"
#include "segment/nic_public.h"
#include "segment/segment.h"
#include "wire/captured.h"

/* FNV-1a over whole 32-bit words instead of bytes. */
uint32_t nic_public_version(void)
{
	static const uint32_t sizes[] = {
#define NIC_LAYOUT(tag) (uint32_t)sizeof(struct tag),
#include "segment/nic_layout.def"
#undef NIC_LAYOUT
	};
	uint32_t version = NIC_PUBLIC_REVISION;

	for (uint32_t i = 0; i < ARRAY_COUNT(sizes); i++)
		version = (version ^ sizes[i]) * 16777619u;
	return version;
}

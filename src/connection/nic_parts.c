/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of the NIC. Most hooks run in this order; `forget` and `fork_prepare` run in the
 * opposite order. So a part may use objects of the parts before it, and forgets its own objects
 * before they forget theirs.
 */
#include <stddef.h>

#include "nic/nic_part.h"

extern const struct nic_part nic_object_part, nic_peer_part, nic_local_part, nic_owner_part, nic_datagram_part,
	nic_import_part, nic_borrowed_part, nic_target_part, nic_cm_part, nic_iwcm_part;

const struct nic_part *const nic_parts[] = {
	&nic_object_part,
	&nic_peer_part,
	&nic_local_part,
	&nic_owner_part,
	&nic_datagram_part,
	&nic_import_part,
	&nic_borrowed_part,
	&nic_target_part,
	&nic_cm_part,
	&nic_iwcm_part,
	NULL,
};

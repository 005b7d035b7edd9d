/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/refusal.h"

#include "lane/signal.h"

const struct refusal_effect refusal_effects[] = {
#define REFUSAL(name, on_rc, how, code, receive_fault, event, on_uc) \
	[REFUSED_##name] = {                                         \
		.rc_counter = COUNTER_##on_rc,                       \
		.uc_counter = COUNTER_##on_uc,                       \
		.answer = REFUSAL_##how,                             \
		.nak = AETH_NAK_##code,                              \
		.fault = FAULT_##receive_fault,                      \
		.signal = event,                                     \
	},
#include "ib/refusal.def"
#undef REFUSAL
};

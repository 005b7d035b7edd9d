/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a responder refuses a request, and what follows from it: the table of refusal.def.
 */
#ifndef URNIC_IB_REFUSAL_H
#define URNIC_IB_REFUSAL_H

#include <stdint.h>

#include "lane/counter.h"
#include "queue/completion.h"
#include "wire/headers.h"

enum refusal {
	ACCEPTED,
#define REFUSAL(name, rc_counter, answer, nak, fault, signal, uc_counter) REFUSED_##name,
#include "ib/refusal.def"
#undef REFUSAL
};

struct refusal_effect {
	enum counter rc_counter, uc_counter;
	enum refusal_answer {
		REFUSAL_NAK, /* with the code `nak` */
		REFUSAL_RNR, /* an RNR NAK; the peer repeats the request */
		REFUSAL_SILENT,
	} answer;
	enum aeth_nak nak;
	enum fault fault; /* of the receive request that the message has taken */
	uint32_t signal; /* SIGNAL_*; 0: none */
};

/* Indexed by enum refusal; ACCEPTED has no effect. */
extern const struct refusal_effect refusal_effects[];

#endif

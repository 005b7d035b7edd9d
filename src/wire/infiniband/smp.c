/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/infiniband/smp.h"

#include "wire/bytes.h"
#include "wire/infiniband/lrh.h"

enum {
	METHOD = 3, /* offsets in the MAD header */
	STATUS = 4,
	HOP_POINTER = 6,
	HOP_COUNT = 7,
};

static const struct smp_step smp_discard = {.way = SMP_DISCARD};
static const struct smp_step smp_here = {.way = SMP_HERE};

/*
 * From here the SMP is routed by LID. If the LID is the permissive one, the SMP ends at this node.
 */
static struct smp_step by_lid(uint16_t dlid)
{
	return dlid == LID_PERMISSIVE ? smp_here
				      : (struct smp_step){.way = SMP_BY_LID, .dlid = dlid};
}

static struct smp_step by_port(uint8_t port)
{
	return (struct smp_step){.way = SMP_BY_PORT, .port = port};
}

/* One step of an SMP on its way to the destination (IBTA C14-9). */
static struct smp_step step_out(uint8_t *mad, bool is_switch, uint8_t in_port)
{
	uint8_t *pointer = &mad[HOP_POINTER];
	const uint8_t count = mad[HOP_COUNT];

	if (count == 0 && *pointer == 0)
		return smp_here;
	if (*pointer == 0) {
		/* This node sends the SMP, or its LID-routed part ends here. */
		*pointer = 1;
		return by_port(mad[SMP_INITIAL_PATH + 1]);
	}
	if (in_port == 0)
		return smp_discard;
	if (*pointer < count) {
		if (!is_switch)
			return smp_discard;
		mad[SMP_RETURN_PATH + *pointer] = in_port;
		(*pointer)++;
		return by_port(mad[SMP_INITIAL_PATH + *pointer]);
	}
	if (*pointer == count) {
		mad[SMP_RETURN_PATH + *pointer] = in_port;
		(*pointer)++;
		return by_lid(get_be16(mad + SMP_DR_DLID));
	}
	return *pointer == count + 1 ? smp_here : smp_discard;
}

/* One step of an SMP on its way back to the sender (IBTA C14-13). */
static struct smp_step step_back(uint8_t *mad, bool is_switch, uint8_t in_port)
{
	uint8_t *pointer = &mad[HOP_POINTER];
	const uint8_t count = mad[HOP_COUNT];

	if (count == 0)
		return smp_here;
	if (*pointer == count + 1) {
		(*pointer)--;
		return by_port(mad[SMP_RETURN_PATH + *pointer]);
	}
	if (in_port == 0)
		return smp_discard;
	if (*pointer >= 2 && *pointer <= count) {
		if (!is_switch)
			return smp_discard;
		(*pointer)--;
		return by_port(mad[SMP_RETURN_PATH + *pointer]);
	}
	if (*pointer == 1) {
		*pointer = 0;
		return by_lid(get_be16(mad + SMP_DR_SLID));
	}
	return *pointer == 0 ? smp_here : smp_discard;
}

struct smp_step smp_step(uint8_t mad[MAD_BYTES], bool is_switch, uint8_t in_port)
{
	if (mad[HOP_COUNT] > SMP_HOPS_MAX)
		return smp_discard;
	return get_be16(mad + STATUS) & SMP_STATUS_DIRECTION ? step_back(mad, is_switch, in_port)
							     : step_out(mad, is_switch, in_port);
}

void smp_turn(uint8_t mad[MAD_BYTES], uint16_t status)
{
	mad[METHOD] = MAD_METHOD_GET_RESP;
	if (mad[1] == MAD_CLASS_SUBN_DIRECTED)
		status |= SMP_STATUS_DIRECTION;
	put_be16(mad + STATUS, status);
}

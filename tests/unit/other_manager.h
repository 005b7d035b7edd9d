/* SPDX-License-Identifier: BSD-2-Clause */
/* Another subnet manager, at a host of the fixture's subnet: it answers SMInfo as it is told to. */
#ifndef URNIC_TESTS_OTHER_MANAGER_H
#define URNIC_TESTS_OTHER_MANAGER_H

#include "subnet_fixture.h"

struct other_manager {
	uint32_t node;
	struct ib_sm_info info;
	uint16_t status; /* of its answers; MAD_STATUS_OK at first */
	uint32_t read; /* of the fixture's frames, those that it has read */
	uint32_t polls; /* SubnGet(SMInfo) that it has received */
	uint32_t controls[8]; /* SubnSet(SMInfo) by modifier */
};

/* Set IsSM of the host's port, or clear it. */
static inline void other_manager_show(
	struct fixture *fixture, const struct other_manager *other, bool is_there)
{
	subnet_port_capability(fixture->subnet, other->node, 1, is_there ? IB_CAPABILITY_IS_SM : 0,
		is_there ? 0 : IB_CAPABILITY_IS_SM, fixture->now_ns);
}

static inline void other_manager_send(
	struct fixture *fixture, const struct other_manager *other, const uint8_t mad[MAD_BYTES])
{
	static const struct mad_frame frame = {.dlid = LID_PERMISSIVE,
		.slid = LID_PERMISSIVE,
		.vl = LRH_VL_MANAGEMENT,
		.pkey = 0xffff};

	fixture_send_mad(fixture, other->node, &frame, mad);
}

/* Answer one SMInfo. A handover makes it the master, as it makes OpenSM. */
static inline void other_manager_answer(
	struct fixture *fixture, struct other_manager *other, const uint8_t *request)
{
	struct mad_header header;
	uint8_t mad[MAD_BYTES];

	mad_header_decode(&header, request);
	if (header.attribute_id != SM_ATTRIBUTE_SM_INFO ||
		(header.method != MAD_METHOD_GET && header.method != MAD_METHOD_SET))
		return;
	memcpy(mad, request, MAD_BYTES);
	if (header.method == MAD_METHOD_GET)
		other->polls++;
	else
		other->controls[header.attribute_modifier & 7]++;
	if (header.method == MAD_METHOD_SET && header.attribute_modifier == IB_SM_HANDOVER)
		other->info.state = IB_SM_MASTER;
	ib_sm_info_encode(&other->info, mad + SMP_DATA);
	smp_turn(mad, other->status);
	other_manager_send(fixture, other, mad);
}

/* Read what has arrived, and answer it. */
static inline void other_manager_run(struct fixture *fixture, struct other_manager *other)
{
	while (other->read < fixture->delivered_count) {
		const struct delivered *at = &fixture->delivered[other->read++ % DELIVERED_MAX];
		struct ib_frame headers;
		struct mad_frame from;
		const uint8_t *mad;

		if (at->node == other->node && ib_frame_decode(&headers, at->frame, at->bytes) &&
			mad_frame_decode(&from, &headers, at->frame, at->bytes, &mad) &&
			from.dest_qpn == SMI_QPN)
			other_manager_answer(fixture, other, mad);
	}
}

/* Let time pass, in steps of 50 ms. `other` may be NULL, or silent. */
static inline void other_manager_pass(
	struct fixture *fixture, struct other_manager *other, uint32_t ms)
{
	for (uint32_t i = 0; i < ms; i += 50) {
		fixture->now_ns += 50000000;
		subnet_advance(fixture->subnet, fixture->now_ns);
		if (other)
			other_manager_run(fixture, other);
	}
}

/*
 * An SMInfo from h1 to the embedded manager at s1. Returns the response's MAD, or NULL when there
 * is none. The manager may send other managers something in the same call.
 */
static inline const uint8_t *embedded_ask(
	struct fixture *fixture, uint8_t method, uint32_t modifier, const struct ib_sm_info *info)
{
	static const struct mad_frame to = {.dlid = LID_PERMISSIVE,
		.slid = LID_PERMISSIVE,
		.vl = LRH_VL_MANAGEMENT,
		.pkey = 0xffff};
	const uint32_t before = fixture->delivered_count;
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_DIRECTED,
		.class_version = 1,
		.method = method,
		.class_specific = 1,
		.attribute_id = SM_ATTRIBUTE_SM_INFO,
		.attribute_modifier = modifier,
		.transaction_id = before + 1,
	};
	uint8_t mad[MAD_BYTES] = {0};

	mad_header_encode(&header, mad);
	put_be16(mad + SMP_DR_SLID, LID_PERMISSIVE);
	put_be16(mad + SMP_DR_DLID, LID_PERMISSIVE);
	ib_sm_info_encode(info, mad + SMP_DATA);
	mad[SMP_INITIAL_PATH + 1] = 1;
	fixture_send_mad(fixture, H1, &to, mad);
	for (uint32_t i = before; i < fixture->delivered_count; i++) {
		const struct delivered *at = &fixture->delivered[i % DELIVERED_MAX];
		struct ib_frame headers;
		struct mad_frame from;
		const uint8_t *answer;

		if (at->node == H1 && ib_frame_decode(&headers, at->frame, at->bytes) &&
			mad_frame_decode(&from, &headers, at->frame, at->bytes, &answer))
			return answer;
	}
	return NULL;
}

static inline enum ib_sm_state embedded_state(struct fixture *fixture)
{
	struct ib_sm_info info = {0};
	const uint8_t *mad = embedded_ask(fixture, MAD_METHOD_GET, 0, &info);

	assert_int_equal(smp_status(mad), 0);
	ib_sm_info_decode(&info, mad + SMP_DATA);
	return (enum ib_sm_state)info.state;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/codec/identify.h"

#include <assert.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/codec/ascii.h"

/*
 * Numbers of Identify Controller and Identify Namespace: NUMBER(member, byte offset, bits). The
 * offsets are from figure 275 of the base specification and figure 97 of the NVM command set.
 */
/* clang-format off */
#define CONTROLLER_NUMBERS(NUMBER) \
	NUMBER(vid, 0, 16) NUMBER(ssvid, 2, 16) NUMBER(rab, 72, 8) NUMBER(cmic, 76, 8) \
	NUMBER(mdts, 77, 8) NUMBER(cntlid, 78, 16) NUMBER(ver, 80, 32) NUMBER(oaes, 92, 32) \
	NUMBER(ctratt, 96, 32) NUMBER(cntrltype, 111, 8) NUMBER(oacs, 256, 16) NUMBER(acl, 258, 8) \
	NUMBER(aerl, 259, 8) NUMBER(frmw, 260, 8) NUMBER(lpa, 261, 8) NUMBER(elpe, 262, 8) \
	NUMBER(kas, 320, 16) NUMBER(anatt, 342, 8) NUMBER(anacap, 343, 8) \
	NUMBER(anagrpmax, 344, 32) NUMBER(nanagrpid, 348, 32) NUMBER(sqes, 512, 8) \
	NUMBER(cqes, 513, 8) NUMBER(maxcmd, 514, 16) NUMBER(nn, 516, 32) NUMBER(oncs, 520, 16) \
	NUMBER(fuses, 522, 16) NUMBER(vwc, 525, 8) NUMBER(awun, 526, 16) NUMBER(awupf, 528, 16) \
	NUMBER(acwu, 532, 16) NUMBER(ocfs, 534, 16) NUMBER(sgls, 536, 32) NUMBER(mnan, 540, 32) \
	NUMBER(ioccsz, 1792, 32) NUMBER(iorcsz, 1796, 32) NUMBER(icdoff, 1800, 16) \
	NUMBER(fcatt, 1802, 8) NUMBER(msdbd, 1803, 8) NUMBER(ofcs, 1804, 16)
#define NAMESPACE_NUMBERS(NUMBER) \
	NUMBER(nsze, 0, 64) NUMBER(ncap, 8, 64) NUMBER(nuse, 16, 64) NUMBER(nsfeat, 24, 8) \
	NUMBER(nlbaf, 25, 8) NUMBER(flbas, 26, 8) NUMBER(nmic, 30, 8) NUMBER(dlfeat, 33, 8) \
	NUMBER(nawun, 34, 16) NUMBER(nawupf, 36, 16) NUMBER(nacwu, 38, 16) NUMBER(npwg, 64, 16) \
	NUMBER(npwa, 66, 16) NUMBER(npdg, 68, 16) NUMBER(npda, 70, 16) NUMBER(nows, 72, 16) \
	NUMBER(mssrl, 74, 16) NUMBER(mcl, 76, 32) NUMBER(msrc, 80, 8) NUMBER(anagrpid, 92, 32) \
	NUMBER(nsattr, 99, 8)
/* clang-format on */

enum {
	SN_OFFSET = 4,
	MN_OFFSET = 24,
	FR_OFFSET = 64,
	SUBNQN_OFFSET = 768,
	NGUID_OFFSET = 104,
	EUI64_OFFSET = 120,
	LBAF_OFFSET = 128,
	LBADS_MIN = 9,
	LBADS_MAX = 31,
};

static inline void le8_put(void *bytes, uint8_t value)
{
	*(uint8_t *)bytes = value;
}

static inline uint8_t le8_get(const void *bytes)
{
	return *(const uint8_t *)bytes;
}

static void text_put(uint8_t *field, size_t field_bytes, const char *text)
{
	memset(field, ' ', field_bytes);
	memcpy(field, text, strnlen(text, field_bytes));
}

void identify_controller_encode(
	const struct identify_controller *controller, uint8_t ret_bytes[IDENTIFY_BYTES])
{
	memset(ret_bytes, 0, IDENTIFY_BYTES);
#define NUMBER(member, offset, bits) le##bits##_put(ret_bytes + (offset), controller->member);
	CONTROLLER_NUMBERS(NUMBER)
#undef NUMBER
	text_put(ret_bytes + SN_OFFSET, sizeof(controller->sn) - 1, controller->sn);
	text_put(ret_bytes + MN_OFFSET, sizeof(controller->mn) - 1, controller->mn);
	text_put(ret_bytes + FR_OFFSET, sizeof(controller->fr) - 1, controller->fr);
	memcpy(ret_bytes + SUBNQN_OFFSET, controller->subnqn,
		strnlen(controller->subnqn, NVME_NQN_BYTES - 1));
}

bool identify_controller_decode(
	const uint8_t bytes[IDENTIFY_BYTES], struct identify_controller *ret_controller)
{
	const char *subnqn = (const char *)bytes + SUBNQN_OFFSET;
	struct identify_controller controller = {0};

	if (!ascii_decode(bytes + SN_OFFSET, sizeof(controller.sn) - 1, controller.sn) ||
		!ascii_decode(bytes + MN_OFFSET, sizeof(controller.mn) - 1, controller.mn) ||
		!ascii_decode(bytes + FR_OFFSET, sizeof(controller.fr) - 1, controller.fr))
		return false;
	if (subnqn[0] && !nvme_nqn_is_valid(subnqn, NVME_NQN_FIELD_BYTES))
		return false;
	memcpy(controller.subnqn, subnqn, strlen(subnqn));
#define NUMBER(member, offset, bits) controller.member = le##bits##_get(bytes + (offset));
	CONTROLLER_NUMBERS(NUMBER)
#undef NUMBER
	*ret_controller = controller;
	return true;
}

void identify_namespace_encode(
	const struct identify_namespace *ns, uint8_t ret_bytes[IDENTIFY_BYTES])
{
	uint8_t *format = ret_bytes + LBAF_OFFSET + (ns->flbas & 15) * 4;

	memset(ret_bytes, 0, IDENTIFY_BYTES);
#define NUMBER(member, offset, bits) le##bits##_put(ret_bytes + (offset), ns->member);
	NAMESPACE_NUMBERS(NUMBER)
#undef NUMBER
	memcpy(ret_bytes + NGUID_OFFSET, ns->nguid, sizeof(ns->nguid));
	memcpy(ret_bytes + EUI64_OFFSET, ns->eui64, sizeof(ns->eui64));
	le16_put(format, ns->metadata_bytes);
	format[2] = ns->lbads;
}

bool identify_namespace_decode(
	const uint8_t bytes[IDENTIFY_BYTES], struct identify_namespace *ret_ns)
{
	struct identify_namespace ns = {0};
	const uint8_t *format;

#define NUMBER(member, offset, bits) ns.member = le##bits##_get(bytes + (offset));
	NAMESPACE_NUMBERS(NUMBER)
#undef NUMBER
	memcpy(ns.nguid, bytes + NGUID_OFFSET, sizeof(ns.nguid));
	memcpy(ns.eui64, bytes + EUI64_OFFSET, sizeof(ns.eui64));
	format = bytes + LBAF_OFFSET + (ns.flbas & 15) * 4;
	ns.metadata_bytes = le16_get(format);
	ns.lbads = format[2];
	if (ns.nsze != 0 &&
		((ns.flbas & 15) > ns.nlbaf || ns.lbads < LBADS_MIN || ns.lbads > LBADS_MAX))
		return false;
	*ret_ns = ns;
	return true;
}

void identify_list_encode(const uint32_t *nsids, size_t count, uint8_t ret_bytes[IDENTIFY_BYTES])
{
	assert(count <= IDENTIFY_NSID_MAX);
	memset(ret_bytes, 0, IDENTIFY_BYTES);
	for (size_t i = 0; i < count; i++)
		le32_put(ret_bytes + i * 4, nsids[i]);
}

bool identify_list_decode(const uint8_t bytes[IDENTIFY_BYTES],
	uint32_t ret_nsids[IDENTIFY_NSID_MAX], size_t *ret_count)
{
	size_t count = 0;

	for (; count < IDENTIFY_NSID_MAX; count++) {
		uint32_t nsid = le32_get(bytes + count * 4);

		if (nsid == 0)
			break;
		if (count > 0 && nsid <= ret_nsids[count - 1])
			return false;
		ret_nsids[count] = nsid;
	}
	*ret_count = count;
	return true;
}

/* The types of a descriptor (NIDT), and the length of its header. */
enum { NIDT_EUI64 = 1, NIDT_NGUID = 2, NIDT_UUID = 3, NIDT_CSI = 4, NIDT_HEADER_BYTES = 4 };

static uint8_t *descriptor_put(uint8_t *at, uint8_t type, const uint8_t *value, uint8_t bytes)
{
	bool is_set = type == NIDT_CSI;

	for (uint8_t i = 0; i < bytes; i++)
		is_set |= value[i] != 0;
	if (!is_set)
		return at;
	at[0] = type;
	at[1] = bytes;
	memcpy(at + NIDT_HEADER_BYTES, value, bytes);
	return at + NIDT_HEADER_BYTES + bytes;
}

void identify_descriptors_encode(
	const struct identify_descriptors *descriptors, uint8_t ret_bytes[IDENTIFY_BYTES])
{
	uint8_t *at = ret_bytes;

	memset(ret_bytes, 0, IDENTIFY_BYTES);
	at = descriptor_put(at, NIDT_EUI64, descriptors->eui64, sizeof(descriptors->eui64));
	at = descriptor_put(at, NIDT_NGUID, descriptors->nguid, sizeof(descriptors->nguid));
	at = descriptor_put(at, NIDT_UUID, descriptors->uuid, sizeof(descriptors->uuid));
	if (descriptors->has_csi)
		descriptor_put(at, NIDT_CSI, &descriptors->csi, 1);
}

static bool descriptor_get(const uint8_t *at, struct identify_descriptors *descriptors)
{
	const uint8_t *value = at + NIDT_HEADER_BYTES;

	switch (at[0]) {
	case NIDT_EUI64:
		memcpy(descriptors->eui64, value, sizeof(descriptors->eui64));
		return at[1] == sizeof(descriptors->eui64);
	case NIDT_NGUID:
		memcpy(descriptors->nguid, value, sizeof(descriptors->nguid));
		return at[1] == sizeof(descriptors->nguid);
	case NIDT_UUID:
		memcpy(descriptors->uuid, value, sizeof(descriptors->uuid));
		return at[1] == sizeof(descriptors->uuid);
	case NIDT_CSI:
		descriptors->has_csi = true;
		descriptors->csi = value[0];
		return at[1] == 1;
	default:
		return true;
	}
}

bool identify_descriptors_decode(
	const uint8_t bytes[IDENTIFY_BYTES], struct identify_descriptors *ret_descriptors)
{
	/* Length of the longest value. The loop ends where a value of this length would not fit. */
	enum { VALUE_BYTES_MAX = 16 };
	struct identify_descriptors descriptors = {0};
	size_t at = 0;

	while (at <= IDENTIFY_BYTES - NIDT_HEADER_BYTES - VALUE_BYTES_MAX && bytes[at + 1] != 0) {
		if (!descriptor_get(bytes + at, &descriptors))
			return false;
		at += NIDT_HEADER_BYTES + bytes[at + 1];
		if (at > IDENTIFY_BYTES)
			return false;
	}
	*ret_descriptors = descriptors;
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/target/command/command.h"

enum { MDTS_UNIT_SHIFT = 12, MAXCMD_ADMIN = 32 };

static void fill_controller(const struct target_controller *controller, uint8_t *page)
{
	const struct target_subsystem *subsystem = controller->subsystem;
	struct identify_controller id = {
		.cmic = 1 << 1 | 1 << 3,
		.mdts = (uint8_t)(__builtin_ctz(controller->transport->data_bytes_max) -
			MDTS_UNIT_SHIFT),
		.cntlid = controller->cntlid,
		.ver = NVME_VS_1_4,
		.oaes = EVENT_MASK_NAMESPACES | EVENT_MASK_ANA,
		.ctratt = 1 << 6, /* any command counts as keep alive */
		.cntrltype = IDENTIFY_CNTRLTYPE_IO,
		.acl = 3,
		.aerl = TARGET_AER_MAX - 1,
		.frmw = 3, /* one firmware slot, read-only */
		.lpa = 1 << 1 | 1 << 2, /* effects; extended offsets */
		.elpe = TARGET_ERRORS_MAX - 1,
		.kas = TARGET_KAS,
		.anatt = 10,
		.anacap = 1,
		.anagrpmax = TARGET_ANA_GROUP,
		.nanagrpid = TARGET_ANA_GROUP,
		.sqes = 0x66,
		.cqes = 0x44,
		.maxcmd = controller->port->queue_entries,
		.nn = IDENTIFY_NSID_MAX,
		.mnan = IDENTIFY_NSID_MAX,
		.oncs = IDENTIFY_ONCS_COMPARE | IDENTIFY_ONCS_DSM | IDENTIFY_ONCS_WRITE_ZEROES |
			IDENTIFY_ONCS_VERIFY | IDENTIFY_ONCS_COPY,
		.fuses = 1,
		.vwc = 1 | 2 << 1, /* Flush is for one namespace */
		.ocfs = 1,
		.sgls = controller->transport->sgls,
		.ioccsz = (NVME_SQE_BYTES + controller->in_capsule_bytes) / 16,
		.iorcsz = NVME_CQE_BYTES / 16,
		.msdbd = 1,
		.ofcs = 1,
	};

	memcpy(id.sn, subsystem->serial, sizeof(id.sn));
	memcpy(id.mn, subsystem->model, sizeof(id.mn));
	memcpy(id.fr, subsystem->firmware, sizeof(id.fr));
	memcpy(id.subnqn, subsystem->nqn, sizeof(id.subnqn));
	if (subsystem->namespace_count) {
		uint32_t last = subsystem->namespaces[subsystem->namespace_count - 1]->nsid;

		if (last > id.nn)
			id.nn = last;
	}
	if (controller->is_discovery) {
		id.cntrltype = IDENTIFY_CNTRLTYPE_DISCOVERY;
		id.cmic = 0;
		id.anatt = id.anacap = 0;
		id.anagrpmax = id.nanagrpid = id.nn = id.mnan = 0;
		id.oaes = EVENT_MASK_DISCOVERY;
		id.oncs = id.fuses = id.ocfs = 0;
		id.vwc = id.sqes = id.cqes = 0;
		id.maxcmd = MAXCMD_ADMIN;
	}
	identify_controller_encode(&id, page);
}

static void fill_namespace(const struct target_namespace *ns, uint8_t *page)
{
	struct identify_namespace id = {
		.nsze = ns->blocks,
		.ncap = ns->blocks,
		.nuse = ns->blocks,
		.nsfeat = 1 << 4, /* npwg, npwa, npdg, npda and nows are set */
		.nmic = 1,
		.dlfeat = backend_discard_reads_zeroes(ns->backend) ? 1 | 1 << 3 : 1 << 3,
		.mssrl = TARGET_COPY_RANGE_BLOCKS,
		.mcl = TARGET_COPY_BLOCKS,
		.msrc = TARGET_COPY_RANGES - 1,
		.anagrpid = TARGET_ANA_GROUP,
		.nsattr = backend_is_read_only(ns->backend),
		.lbads = ns->block_shift,
	};
	uint16_t page_blocks =
		ns->block_shift < 12 ? (uint16_t)((1 << (12 - ns->block_shift)) - 1) : 0;

	id.npwg = id.npwa = id.npdg = id.npda = id.nows = page_blocks;
	memcpy(id.nguid, ns->nguid, sizeof(id.nguid));
	identify_namespace_encode(&id, page);
}

static uint16_t fill_active_list(
	const struct target_subsystem *subsystem, uint32_t after, uint8_t *page)
{
	uint32_t nsids[IDENTIFY_NSID_MAX];
	size_t count = 0;

	/* No NSID is greater than FFFFFFFEh or FFFFFFFFh (section 5.17.2.2). */
	if (after >= (uint32_t)NVME_NSID_ALL - 1)
		return NVME_INVALID_NAMESPACE;
	for (size_t i = 0; i < subsystem->namespace_count && count < IDENTIFY_NSID_MAX; i++)
		if (subsystem->namespaces[i]->nsid > after)
			nsids[count++] = subsystem->namespaces[i]->nsid;
	identify_list_encode(nsids, count, page);
	return NVME_SUCCESS;
}

static uint16_t fill_descriptors(const struct target_namespace *ns, uint8_t *page)
{
	struct identify_descriptors descriptors = {.has_csi = true};

	memcpy(descriptors.nguid, ns->nguid, sizeof(descriptors.nguid));
	memcpy(descriptors.uuid, ns->uuid, sizeof(descriptors.uuid));
	identify_descriptors_encode(&descriptors, page);
	return NVME_SUCCESS;
}

/* CNS 08h, which has no codec because only this function writes it (figure 280). */
static uint16_t fill_independent(const struct target_namespace *ns, uint8_t *page)
{
	enum { NMIC = 1, ANAGRPID = 4, NSATTR = 8, NSTAT = 14 };

	page[NMIC] = 1;
	le32_put(page + ANAGRPID, TARGET_ANA_GROUP);
	page[NSATTR] = backend_is_read_only(ns->backend);
	page[NSTAT] = 1; /* ready */
	return NVME_SUCCESS;
}

/*
 * Identify data of an I/O command set. For the NVM command set the page stays zero, because its
 * fields are limits, which this target does not have, and protection information.
 */
static uint16_t fill_command_set(
	struct target_command *command, const struct target_namespace *ns, uint8_t *page)
{
	const struct target_subsystem *subsystem = command->queue->controller->subsystem;

	if (command->sqe.cdw11 >> 24 != 0)
		return NVME_INVALID_FIELD;
	if ((command->sqe.cdw10 & 0xff) == IDENTIFY_IO_ACTIVE_LIST)
		return fill_active_list(subsystem, command->sqe.nsid, page);
	if ((command->sqe.cdw10 & 0xff) == IDENTIFY_IO_NAMESPACE && !ns)
		return NVME_INVALID_NAMESPACE;
	return NVME_SUCCESS;
}

static uint16_t page_fill(struct target_command *command, uint8_t *page)
{
	const struct target_controller *controller = command->queue->controller;
	const struct target_subsystem *subsystem = controller->subsystem;
	uint32_t nsid = command->sqe.nsid;
	const struct target_namespace *ns = namespace_find(subsystem, nsid);
	uint8_t cns = (uint8_t)command->sqe.cdw10;

	memset(page, 0, IDENTIFY_BYTES);
	if (controller->is_discovery && cns != IDENTIFY_CONTROLLER)
		return NVME_INVALID_FIELD;
	switch (cns) {
	case IDENTIFY_CONTROLLER:
		fill_controller(controller, page);
		return NVME_SUCCESS;
	case IDENTIFY_ACTIVE_LIST:
		return fill_active_list(subsystem, nsid, page);
	case IDENTIFY_NAMESPACE:
		if (nsid == 0 || nsid == (uint32_t)NVME_NSID_ALL)
			return NVME_INVALID_NAMESPACE;
		/* For an inactive namespace the page stays zero (section 5.17.2.1). */
		if (ns)
			fill_namespace(ns, page);
		return NVME_SUCCESS;
	case IDENTIFY_DESCRIPTORS:
		return ns ? fill_descriptors(ns, page) : NVME_INVALID_NAMESPACE;
	case IDENTIFY_INDEPENDENT:
		return ns ? fill_independent(ns, page) : NVME_INVALID_NAMESPACE;
	case IDENTIFY_IO_NAMESPACE:
	case IDENTIFY_IO_CONTROLLER:
	case IDENTIFY_IO_ACTIVE_LIST:
		return fill_command_set(command, ns, page);
	default:
		return NVME_INVALID_FIELD;
	}
}

static void identify_ready(struct target_command *command)
{
	/* The controller may have ended while the transport prepared the buffer. */
	if (!command->queue->controller || !command->queue->controller->subsystem)
		command_finish(command, NVME_SQ_DELETED);
	else
		command_finish(command, page_fill(command, command->data));
}

void admin_identify(struct target_command *command)
{
	command_expect(command, TARGET_FROM_CONTROLLER, IDENTIFY_BYTES, identify_ready);
}

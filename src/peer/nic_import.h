/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_IMPORT_H
#define URNIC_PEER_NIC_IMPORT_H

/*
 * Protection domains, memory regions and device memory of one process, used by another one.
 *
 * The owner keeps a table in NIC memory of the objects that others may import, by handle. Its
 * program passes a descriptor to the importing program. The file behind the descriptor says where
 * the owner's process is (struct nic_locator). The importer reads the memory of that process as a
 * debugger would, if the kernel permits it, and then is a borrower of that process (nic_owner.h).
 *
 * An imported object stays its owner's. When the owner destroys it, the importer's uses of it fail,
 * so the two programs agree on that time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "nic/nic.h"
#include "peer/nic_locator.h"

enum nic_export_kind {
	NIC_EXPORT_NONE,
	NIC_EXPORT_PD,
	NIC_EXPORT_MR,
	NIC_EXPORT_DM,
};

struct nic_export {
	_Atomic uint32_t handle; /* of the object; 0: the entry is free */
	uint32_t kind; /* enum nic_export_kind */
	uint64_t opening; /* of the device, in which the handle is valid */
	uint32_t key; /* of a region */
	uint32_t reserved;
	uint64_t bytes; /* of a region or device memory */
	uint64_t offset; /* of device memory: its twin's, on the owner's side of NIC memory */
	uint64_t more[3];
};

/* The low bits of a handle are the index of its entry; no two living objects share them. */
enum { NIC_EXPORT_INDEX_BITS = 20 };

/* --- the owner --- */

/* Where this process is found. */
void nic_locate(struct nic_locator *ret_locator) URNIC_EXPORT_AS(nic_locate);

/*
 * Make NIC memory, which the export of an object needs. Returns 0 or -errno, with the reason in the
 * log.
 */
int nic_export_start(void) URNIC_EXPORT_AS(nic_export_start);

/*
 * Let other processes import a domain, a region, or device memory. When the table is full, the
 * object is not exported, and the call reports nothing.
 */
void nic_export_pd(uint32_t handle, uint64_t opening) URNIC_EXPORT_AS(nic_export_pd);
void nic_export_mr(uint32_t handle, uint64_t opening, uint32_t key, uint64_t bytes)
	URNIC_EXPORT_AS(nic_export_mr);
void nic_export_dm(uint32_t handle, uint64_t opening, const struct nic_dm *dm)
	URNIC_EXPORT_AS(nic_export_dm);

/* End the export of an object. */
void nic_export_end(uint32_t handle) URNIC_EXPORT_AS(nic_export_end);

/* --- the importer --- */

/*
 * Does the process exist, and may this process read its memory? Returns 0; -ESRCH when it has
 * ended; -EPERM; or another -errno.
 */
int nic_import_look(const struct nic_locator *locator) URNIC_EXPORT_AS(nic_import_look);

/*
 * Import the object that `handle` names in the device context `opening` of the owner; both may have
 * any value. Returns 0; -ENOENT when there is no such object; or as nic_import_look().
 *
 * A domain gets a number in this process, until nic_unimport_pd(). A region keeps its key. Device
 * memory is mapped until nic_dm_destroy(), which ends the import, not the memory.
 */
int nic_import_pd(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	uint32_t *ret_pd) URNIC_EXPORT_AS(nic_import_pd);
int nic_import_mr(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	uint32_t *ret_key, uint64_t *ret_bytes) URNIC_EXPORT_AS(nic_import_mr);
int nic_import_dm(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	struct nic_dm *ret_dm) URNIC_EXPORT_AS(nic_import_dm);

/* End the import of a domain, in which no queue pair and no region is left. */
void nic_unimport_pd(uint32_t pd) URNIC_EXPORT_AS(nic_unimport_pd);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_IMPORT_H
#define URNIC_PEER_NIC_IMPORT_H

/*
 * Import: a process uses protection domains, memory regions and device memory of another process.
 *
 * The owner has a table in NIC memory of the objects that other processes may import, by handle.
 * The owner's program passes a file descriptor to the importing program. The file of that
 * descriptor says where the owner's process is (struct nic_locator). The importer reads the memory
 * of that process as a debugger would, if the kernel permits it. After that it is a borrower of
 * that process (nic_owner.h).
 *
 * An imported object still belongs to its owner. When the owner destroys it, the importer's
 * requests that use it fail. So the two programs have to agree on when the owner destroys it.
 */

#include <stdint.h>

#include "base/export.h"
#include "nic/object/nic.h"
#include "peer/nic_locator.h"

enum nic_export_kind {
	NIC_EXPORT_NONE,
	NIC_EXPORT_PD,
	NIC_EXPORT_MR,
	NIC_EXPORT_DM,
};

struct nic_export {
	_Atomic uint32_t handle; /* the object's handle; 0: the entry is free */
	uint32_t kind; /* enum nic_export_kind */
	uint64_t opening; /* the opening of the device in which the handle is valid */
	uint32_t key; /* a region's key */
	uint32_t reserved;
	uint64_t bytes; /* the length of a region or of device memory */
	uint64_t offset; /* for device memory: the offset of its twin on the owner's side */
	uint64_t more[3];
};

/*
 * The number of low bits of a handle that are the index of its entry. No two objects that exist at
 * the same time have the same low bits.
 */
enum { NIC_EXPORT_INDEX_BITS = 20 };

/* --- the owner --- */

/* Get the locator by which other processes find this process. */
void nic_locate(struct nic_locator *ret_locator) URNIC_EXPORT_AS(nic_locate);

/*
 * Create the NIC, because an export needs NIC memory. Returns 0, or -errno after it has logged the
 * reason.
 */
int nic_export_start(void) URNIC_EXPORT_AS(nic_export_start);

/*
 * Let other processes import a domain, a region, or device memory. When there is no NIC memory for
 * the table, the object is not exported, and the call does not report that.
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
 * Does the process at `locator` still exist, and may this process read its memory? Returns 0;
 * -ESRCH when it has ended; -EPERM when the kernel refuses the access; or another -errno.
 */
int nic_import_look(const struct nic_locator *locator) URNIC_EXPORT_AS(nic_import_look);

/*
 * Import the object that `handle` names in the device context `opening` of the owner; both may have
 * any value. Returns 0; -ENOENT when there is no such object; or an error of nic_import_look().
 *
 * A domain gets a number in this process, which is valid until nic_unimport_pd(). A region has the
 * same key as at its owner. Device memory is mapped until nic_dm_destroy(), which ends the import
 * and leaves the owner's memory as it is.
 */
int nic_import_pd(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	uint32_t *ret_pd) URNIC_EXPORT_AS(nic_import_pd);
int nic_import_mr(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	uint32_t *ret_key, uint64_t *ret_bytes) URNIC_EXPORT_AS(nic_import_mr);
int nic_import_dm(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	struct nic_dm *ret_dm) URNIC_EXPORT_AS(nic_import_dm);

/* End the import of a domain. The program has no queue pair and no region in it any more. */
void nic_unimport_pd(uint32_t pd) URNIC_EXPORT_AS(nic_unimport_pd);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and windows.
 *
 * What changes or takes away a key does so with every lane locked: nobody is in the middle of a copy then, and nobody meets a
 * region that is half changed.
 */
#include <errno.h>

#include "memory/mw.h"
#include "runtime/nic_internal.h"

static uint8_t random_variant(void)
{
	return (uint8_t)nic_random_u64();
}

static void lanes_lock(void)
{
	nic_enter();
	nic_for_each_worker(worker_lock);
}

static void lanes_unlock(void)
{
	nic_for_each_worker(worker_unlock);
	if (nic.is_up)
		nic.public->mr_count = mr_table_count(&nic.mrs);
	nic_leave();
}

int nic_mr_register(const struct mr_region *region, uint32_t *ret_key)
{
	int error;

	nic_enter();
	error = nic_start();
	if (!error)
		error = mr_table_add(&nic.mrs, region, random_variant(), ret_key);
	if (!error)
		nic.public->mr_count = mr_table_count(&nic.mrs);
	nic_leave();
	return error;
}

int nic_mr_register_null(uint32_t pd, uint32_t *ret_key)
{
	int error;

	nic_enter();
	error = nic_start();
	if (!error)
		error = mr_table_add_null(&nic.mrs, pd, random_variant(), ret_key);
	if (!error)
		nic.public->mr_count = mr_table_count(&nic.mrs);
	nic_leave();
	return error;
}

int nic_mr_change(uint32_t key, uint32_t pd, const struct mr_region *region)
{
	int error;

	lanes_lock();
	error = nic.is_up ? mr_table_change(&nic.mrs, key, pd, region) : -EINVAL;
	lanes_unlock();
	return error;
}

int nic_mr_deregister(uint32_t key, uint32_t pd)
{
	int error;

	lanes_lock();
	error = nic.is_up ? mr_table_remove(&nic.mrs, key, pd) : -EINVAL;
	lanes_unlock();
	return error;
}

int nic_mw_create(uint32_t pd, enum mr_kind kind, uint32_t *ret_key)
{
	int error;

	nic_enter();
	error = nic_start();
	if (!error)
		error = mw_add(&nic.mrs, pd, kind, random_variant(), ret_key);
	nic_leave();
	return error;
}

int nic_mw_destroy(uint32_t key, uint32_t pd)
{
	int error;

	lanes_lock();
	error = nic.is_up ? mw_remove(&nic.mrs, key, pd) : -EINVAL;
	lanes_unlock();
	return error;
}

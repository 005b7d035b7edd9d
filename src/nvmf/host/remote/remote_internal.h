/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What remote.c and remote_io.c share.
 */
#ifndef URNIC_NVMF_HOST_REMOTE_INTERNAL_H
#define URNIC_NVMF_HOST_REMOTE_INTERNAL_H

#include "nvmf/common/codec/identify.h"
#include "nvmf/host/remote/remote.h"

enum { REMOTE_RANGE_BYTES = 16 };

/* One of the commands into which a block request is split. */
struct remote_part {
	struct host_request request;
	struct remote *remote;
	struct block_request *block;
	enum block_op op;
	struct list node; /* in free_parts */
	uint8_t range[REMOTE_RANGE_BYTES]; /* the data of Dataset Management */
};

enum remote_inquiry {
	REMOTE_NOTHING,
	REMOTE_LIST, /* the active namespaces */
	REMOTE_CHANGES, /* the log page of changed namespaces */
	REMOTE_NAMESPACE,
	REMOTE_DESCRIPTORS, /* the identifiers of the namespace, after REMOTE_NAMESPACE */
};

struct remote {
	struct block_device device;
	struct remote_settings settings;
	struct host_controller *controller;
	uint32_t nsid;
	uint8_t block_shift;
	bool can_deallocate_zeroes;
	bool is_ready; /* ready() was called */
	struct identify_descriptors identifiers; /* of the namespace that ready() has reported */
	uint64_t inquired_reconnects; /* host_controller_reconnects() at REMOTE_NAMESPACE */
	char reason[HOST_REASON_BYTES];

	enum remote_inquiry inquiring;
	enum remote_inquiry next_inquiry;
	struct host_request inquiry;
	uint8_t answer[HOST_IDENTIFY_BYTES];
	uint8_t identity[HOST_IDENTIFY_BYTES];

	struct remote_part *parts;
	uint32_t parts_count;
	struct list free_parts;
	struct list waiting; /* block requests with commands that are not sent yet */
	uint64_t split_bytes; /* how many bytes of the first request in `waiting` are sent */
	bool is_splitting;
};

void remote_submit(struct block_device *device, struct block_request *request);

#endif

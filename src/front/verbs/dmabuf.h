/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA-bufs: memory of another device's driver, known by a descriptor. To this NIC it is memory like
 * any other once it is mapped; the driver is told that the CPU will touch it (linux/dma-buf.h).
 */
#ifndef URNIC_FRONT_VERBS_DMABUF_H
#define URNIC_FRONT_VERBS_DMABUF_H

#include <stddef.h>

/* The end of a mapping that ibv_reg_dmabuf_mr() made; `fd` is its own. */
void dmabuf_unmap(void *address, size_t bytes, int fd);

#endif

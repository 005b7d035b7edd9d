/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA-bufs: memory of another device's driver, named by a descriptor. Once mapped, it is ordinary
 * memory to this NIC. The driver learns that the CPU will access it (linux/dma-buf.h).
 */
#ifndef URNIC_FRONT_VERBS_DMABUF_H
#define URNIC_FRONT_VERBS_DMABUF_H

#include <stddef.h>

/* Unmap what ibv_reg_dmabuf_mr() mapped, and close `fd`, its duplicate. */
void dmabuf_unmap(void *address, size_t bytes, int fd);

#endif

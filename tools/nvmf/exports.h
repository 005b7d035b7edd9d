/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exports that run, for 'urnic-nvmf list': a file each in a directory of the user,
 * $XDG_RUNTIME_DIR/urnic-nvmf or /tmp/urnic-nvmf-UID, named after the process.
 */
#ifndef TOOLS_NVMF_EXPORTS_H
#define TOOLS_NVMF_EXPORTS_H

#include "nvmf.h"

/* Note that this process exports the namespace. A failure only means that list misses it. */
void exports_add(const struct nvmf_options *options, const struct session *session);
void exports_remove(void);

#endif

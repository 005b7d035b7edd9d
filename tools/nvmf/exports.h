/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The running exports, for 'urnic-nvmf list'. Each has a file in a directory of the user,
 * $XDG_RUNTIME_DIR/urnic-nvmf or /tmp/urnic-nvmf-UID, whose name has the process ID and a number.
 */
#ifndef TOOLS_NVMF_EXPORTS_H
#define TOOLS_NVMF_EXPORTS_H

#include "nvmf.h"

/*
 * Note that this process exports the session's namespace. A failure only means that list misses it.
 *
 * `number`  Of the export, within the process.
 * `node`    The path of the socket or file.
 */
void exports_add(
	unsigned number, const char *node, const char *subnqn, const struct session *session);
void exports_remove(unsigned number);

#endif

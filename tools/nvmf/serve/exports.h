/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The running exports, as 'urnic-nvmf list' prints them. Each export has a file PID.NUMBER in a
 * directory of its user. The directory is $XDG_RUNTIME_DIR/urnic-nvmf if the variable has an
 * absolute path, else /tmp/urnic-nvmf-UID.
 */
#ifndef TOOLS_NVMF_EXPORTS_H
#define TOOLS_NVMF_EXPORTS_H

#include "nvmf/nvmf.h"

/*
 * Make the file by which 'urnic-nvmf list' finds an export: the namespace of `session`, as this
 * process offers it. Returns a descriptor of the file, whose lock (flock()) shows that this process
 * still runs. Returns -1 if that fails; the list then lacks this export.
 *
 * `number`  The number of the export, unique in this process.
 * `node`    Where programs find the export: the path of its socket or mounted file, or HOST:PORT.
 */
int exports_add(
	unsigned number, const char *node, const char *subnqn, const struct session *session);

/* Remove the file, and close `fd`, which exports_add() returned. */
void exports_remove(unsigned number, int fd);

#endif

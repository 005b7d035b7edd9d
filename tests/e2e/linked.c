/* SPDX-License-Identifier: BSD-2-Clause */
/* A program whose RPATH names the directory of the system's libibverbs. */
#include <infiniband/verbs.h>

int main(void)
{
	ibv_free_device_list(ibv_get_device_list(NULL));
	return 0;
}

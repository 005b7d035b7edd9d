/* SPDX-License-Identifier: BSD-2-Clause */
/* A library whose constructor calls the program that loads it. */
#include "mistake.h"

__attribute__((constructor)) static void constructor_run(void)
{
	mistake_loaded();
}

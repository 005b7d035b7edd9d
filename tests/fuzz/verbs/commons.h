/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_FUZZ_VERBS_COMMONS_H
#define URNIC_TESTS_FUZZ_VERBS_COMMONS_H

/*
 * Objects that all threads use, change and destroy at once.
 *
 * One opening of the first device. Its objects are known by copies of their public structures,
 * which may be those of objects that somebody else has destroyed, or is just destroying: control
 * calls go by the handle and either do their work or refuse it. What a thread does through pointers
 * (posting, polling) goes to two connected queue pairs that stay to the end, while others change
 * their states.
 */

#include "world.h"

void commons_begin(struct ibv_device *device);

/* One random call of this thread. */
void commons_step(struct world *world);

/* After all threads have ended. */
void commons_end(void);

#endif

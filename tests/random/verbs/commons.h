/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_RANDOM_VERBS_COMMONS_H
#define URNIC_TESTS_RANDOM_VERBS_COMMONS_H

/*
 * Objects that all threads use, change and destroy at once.
 *
 * One opening of the first device. Threads have copies of the public structures of its objects;
 * another thread may have destroyed such an object, or may be destroying it. Control calls look up
 * the handle, and either succeed or refuse. Calls through pointers (posting, polling) use two
 * connected queue pairs that exist to the end, while other threads change their states.
 */

#include "world.h"

void commons_begin(struct ibv_device *device);

/* One random call of this thread. */
void commons_step(struct world *world);

/* After all threads have ended. */
void commons_end(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a shared library shows to the outside.
 *
 * Everything is compiled with hidden visibility. A function that another of our shared objects calls
 * (libibverbs.so.1 and librdmacm.so.1 call into liburnic.so) is declared URNIC_EXPORT in its header.
 * The two public ABIs are cut once more, to the exact list, by their version scripts.
 */
#ifndef BASE_EXPORT_H
#define BASE_EXPORT_H

#define URNIC_EXPORT __attribute__((visibility("default")))

#endif

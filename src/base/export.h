/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a shared library shows to the outside.
 *
 * Everything is compiled with hidden visibility. A function that another of our shared objects
 * calls (libibverbs.so.1 and librdmacm.so.1 call into liburnic.so) is declared in its header with
 * one of the macros here. The two public ABIs are cut once more, to the exact list, by their
 * version scripts.
 */
#ifndef URNIC_BASE_EXPORT_H
#define URNIC_BASE_EXPORT_H

/* For a name that begins with urnic_ already. */
#define URNIC_EXPORT __attribute__((visibility("default")))

/*
 * For any other: after the declarator, `int event_queue_init(...)
 * URNIC_EXPORT_AS(event_queue_init);`. The linker knows it as urnic_event_queue_init, so that no
 * function of a program is taken for ours by chance.
 */
#define URNIC_EXPORT_AS(name) __asm__("urnic_" #name) URNIC_EXPORT

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The symbols that a shared library exports.
 *
 * All files are compiled with hidden visibility. libibverbs.so.1 and librdmacm.so.1 call some
 * functions of liburnic.so. The declaration of each such function has a macro of this file, which
 * exports the function. Version scripts limit the two public ABIs to the exact list of symbols.
 */
#ifndef URNIC_BASE_EXPORT_H
#define URNIC_BASE_EXPORT_H

/* For a function whose name already begins with urnic_. */
#define URNIC_EXPORT __attribute__((visibility("default")))

/*
 * For any other name: `int event_queue_init(...) URNIC_EXPORT_AS(event_queue_init);`. The linker's
 * name is urnic_event_queue_init, so no function of a program can replace urnic's by chance.
 */
#define URNIC_EXPORT_AS(name) __asm__("urnic_" #name) URNIC_EXPORT

#endif

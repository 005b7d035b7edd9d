/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_SANITIZER_H
#define URNIC_TESTS_SUPPORT_SANITIZER_H

/* Under ThreadSanitizer a forked child of a program with threads must not start new ones. */
#if defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER 1
#endif
#endif
#ifndef HAS_THREAD_SANITIZER
#define HAS_THREAD_SANITIZER 0
#endif

#endif

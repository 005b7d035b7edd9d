/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_WHY_H
#define URNIC_BASE_WHY_H

/*
 * A sentence that says why urnic refuses a text of the user. The caller appends its pieces to
 * `why`, a string with room for `room` bytes. What does not fit is left out. Bytes that are not
 * printable become '?'.
 */

#include <stddef.h>

#include "base/text.h"

/* A sentence quotes at most this many bytes of a word. */
enum { WHY_WORD_BYTES_MAX = 40 };

void why_add(char *why, size_t room, const char *text);
void why_add_part(char *why, size_t room, const struct text_part *part);
/* Append the word in quotation marks, cut to WHY_WORD_BYTES_MAX bytes. */
void why_add_word(char *why, size_t room, const struct text_part *word);

#endif

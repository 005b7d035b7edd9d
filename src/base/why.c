/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/why.h"

#include <string.h>

#include "base/arith.h"

void why_add_part(char *why, size_t room, const struct text_part *part)
{
	size_t used = strlen(why);
	size_t bytes = min_u64(part->bytes, room - 1 - used);

	memcpy(why + used, part->text, bytes);
	why[used + bytes] = '\0';
	text_make_printable(why + used);
}

void why_add(char *why, size_t room, const char *text)
{
	const struct text_part whole = {text, strlen(text)};

	why_add_part(why, room, &whole);
}

void why_add_word(char *why, size_t room, const struct text_part *word)
{
	const struct text_part cut = {word->text, min_u64(word->bytes, WHY_WORD_BYTES_MAX)};

	why_add(why, room, "'");
	why_add_part(why, room, &cut);
	why_add(why, room, "'");
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any text is a plan of impairments, or is refused by a sentence. A plan decides about any packet
 * within the bounds of that packet.
 */
#include <stdlib.h>
#include <string.h>

#include "impair/impair.h"
#include "wire/roce.h"

enum { TEXT_BYTES_MAX = 512 };

/* Pieces of text that are right, so that the parser gets further. */
static const char *const pieces[] = {"loss=", "1%", "delay=", "2ms", ",", "corrupt=100%", "drop ",
	"READ ", "response ", "WRITE ", "3 ", "times ", "of qp 1", ";", "\n", "rnr ",
	"kill peer after ", "1MiB", "by 20ms ", "at server", "# ", "packet "};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Make a text of the input's bytes: pieces and, for large bytes, the bytes themselves. */
static void text_make(char text[TEXT_BYTES_MAX], const uint8_t *data, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < size && used < TEXT_BYTES_MAX - 32; i++) {
		const char *piece = pieces[data[i] % (sizeof(pieces) / sizeof(pieces[0]))];

		if (data[i] >= 0xe0) {
			text[used++] = (char)(data[i] & 0x7f);
			continue;
		}
		memcpy(text + used, piece, strlen(piece));
		used += strlen(piece);
	}
	text[used] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct impair impair;
	struct impair_plan plan = {.seed = 1};
	struct impair_flow flow = {.qp = 1};
	char text[TEXT_BYTES_MAX], why[IMPAIR_WHY_BYTES];
	struct impair_fate fate;
	size_t half = size / 2;

	text_make(text, data, half);
	if (!impair_plan_parse(&plan, text, why) && strlen(why) < 8)
		abort();
	if (!impair_faults_parse(&plan, text, why) && strlen(why) < 8)
		abort();
	impair_init(&impair, &plan);
	impair_flow_bind(&flow, 0, 0, 1024);
	for (int i = 0; i < 3 && size - half >= 12; i++) {
		uint32_t bytes = (uint32_t)(size - half);

		impair_decide(&impair, &flow, data + half, bytes, &fate);
		if (fate.is_corrupted && fate.corrupt_bit >= (bytes + ROCE_ICRC_BYTES) * 8)
			abort();
	}
	return 0;
}

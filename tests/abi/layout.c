/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares the headers that this build uses with layout.def. Exit 0, 1, or 77 on a machine that the
 * table is not about.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <infiniband/verbs.h>

struct row {
	const char *what;
	size_t found;
	size_t expected;
};

static const struct row rows[] = {
/* clang-format off */
#define SIZE(type, bytes) {"sizeof(struct " #type ")", sizeof(struct type), bytes},
#define OFFSET(type, field, bytes) {"struct " #type ", " #field, offsetof(struct type, field), bytes},
#include "layout.def"
	/* clang-format on */
};

int main(void)
{
	int status = 0;

#ifndef __x86_64__
	printf("skipped: the table is that of x86-64\n");
	return 77;
#endif
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].found != rows[i].expected) {
			printf("%s: %zu, programs have it at %zu\n", rows[i].what, rows[i].found,
				rows[i].expected);
			status = 1;
		}
	printf("%zu sizes and offsets compared\n", sizeof(rows) / sizeof(rows[0]));
	return status;
}

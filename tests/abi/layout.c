/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares the headers that this build uses with layout.def. Exit 0, 1, or 77 on a machine that the
 * table is not about.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/umad.h>
#include <infiniband/verbs.h>

struct row {
	const char *what;
	size_t found;
	size_t expected;
	unsigned since; /* the release of rdma-core */
};

static const struct row rows[] = {
/* clang-format off */
#define GREW(type, release, bytes) {"sizeof(struct " #type ")", sizeof(struct type), bytes, release},
#define SIZE(type, bytes) GREW(type, 0, bytes)
#define OFFSET(type, field, bytes) {"struct " #type ", " #field, offsetof(struct type, field), bytes, 0},
#define BEFORE_CONTEXT(field, bytes) \
	{"struct verbs_context, " #field, \
		offsetof(struct verbs_context, context) - offsetof(struct verbs_context, field), bytes, 0},
#include "layout.def"
	/* clang-format on */
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

/* Is the row for an older release than that of the headers, or for a newer one? */
static bool is_of_another_release(size_t row)
{
	return rows[row].since > RDMA_CORE_RELEASE ||
		(row + 1 < ROW_COUNT && strcmp(rows[row].what, rows[row + 1].what) == 0 &&
			rows[row + 1].since <= RDMA_CORE_RELEASE);
}

int main(void)
{
	size_t compared = 0;
	int status = 0;

#ifndef __x86_64__
	printf("skipped: the table is that of x86-64\n");
	return 77;
#endif
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (is_of_another_release(i))
			continue;
		compared++;
		if (rows[i].found != rows[i].expected) {
			printf("%s: %zu, programs have it at %zu\n", rows[i].what, rows[i].found,
				rows[i].expected);
			status = 1;
		}
	}
	printf("%zu sizes and offsets compared\n", compared);
	return status;
}

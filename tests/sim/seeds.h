/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SIM_SEEDS_H
#define URNIC_SIM_SEEDS_H

/* The seeds of a simulator of networks, which the command line names. */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct seeds {
	unsigned long long first, last;
};

/*
 * `seeds`  The default; changed by `--seeds A..B` or `--seed N`.
 *
 * Returns false after it has printed the usage, when the command line has something else.
 */
static inline bool seeds_parse(struct seeds *seeds, int argc, char **argv)
{
	if (argc == 1)
		return true;
	if (argc == 3 && strcmp(argv[1], "--seed") == 0 &&
		sscanf(argv[2], "%llu", &seeds->first) == 1) {
		seeds->last = seeds->first;
		return true;
	}
	if (argc == 3 && strcmp(argv[1], "--seeds") == 0 &&
		sscanf(argv[2], "%llu..%llu", &seeds->first, &seeds->last) == 2)
		return true;
	fprintf(stderr, "usage: %s [--seeds A..B | --seed N]\n", argv[0]);
	return false;
}

#endif

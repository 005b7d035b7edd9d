/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stand-in for libFuzzer: feeds a harness seeded random bytes, or the files named on the command
 * line (to replay a find under gcc or a debugger).
 *
 * Usage: fuzz_<entry> [FILE...]; FUZZ_RUNS and FUZZ_SEED in the environment change the defaults.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	INPUT_BYTES_MAX = 4500, /* a 4,096-byte packet with all its headers, and some more */
	RUNS_DEFAULT = 200000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t random_state;

/* splitmix64: any seed is as good as another. */
static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

/*
 * The input is copied to an allocation of exactly its size, so that ASan sees one byte too far.
 */
static void run_one(const uint8_t *bytes, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	if (!exact)
		abort();
	memcpy(exact, bytes, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static int replay(const char *path)
{
	static uint8_t bytes[1 << 20];
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	run_one(bytes, size);
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t bytes[INPUT_BYTES_MAX];
	uint64_t runs = number_from_environment("FUZZ_RUNS", RUNS_DEFAULT);
	int failures = 0;

	random_state = number_from_environment("FUZZ_SEED", 1);
	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			failures += replay(argv[i]);
		return failures ? 1 : 0;
	}
	for (uint64_t run = 0; run < runs; run++) {
		/* Mostly short: a decoder's decisions are in its first hundred bytes. */
		size_t limit = random_next() % 16 ? 128 : INPUT_BYTES_MAX;
		size_t size = random_next() % (limit + 1);

		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)random_next();
		run_one(bytes, size);
	}
	printf("%llu inputs\n", (unsigned long long)runs);
	return 0;
}

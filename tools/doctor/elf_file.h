/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The facts of an ELF file that decide which libraries the dynamic loader gives to the program.
 *
 * The file is read piece by piece with pread(), and never mapped: it may be any file, and may
 * change meanwhile. Every offset, length and count in it is checked. A file that exceeds one of the
 * limits here is refused.
 */
#ifndef TOOLS_ELF_FILE_H
#define TOOLS_ELF_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ELF_SEGMENTS_MAX = 128,
	ELF_DYNAMIC_MAX = 4096, /* entries of the dynamic section */
	ELF_TEXT_BYTES = 4096, /* length of a string with its NUL */
	ELF_NEEDED_MAX = 256,
	ELF_NEEDED_BYTES = 128,
};

struct elf_facts {
	bool is_64;
	uint16_t machine; /* EM_X86_64 ... */
	/* The members below are read only for 64-bit programs in this machine's byte order. */
	bool is_dynamic; /* has an interpreter, or needs libraries */
	char interpreter[ELF_TEXT_BYTES]; /* "": none */
	char rpath[ELF_TEXT_BYTES]; /* DT_RPATH, searched before LD_LIBRARY_PATH; "": none */
	/* DT_RUNPATH, searched after LD_LIBRARY_PATH; with it the loader ignores DT_RPATH. */
	char runpath[ELF_TEXT_BYTES];
	uint32_t needed_count;
	char needed[ELF_NEEDED_MAX][ELF_NEEDED_BYTES];
};

/*
 * Read the file.
 *
 * `fd`         A descriptor of any file that pread() can read.
 * `ret_facts`  Undefined after an error.
 *
 * Returns 0; -ENOEXEC if it is no ELF file; -EPROTO if it is a broken ELF file, or exceeds a limit;
 * or the -errno of pread().
 */
int elf_file_read(int fd, struct elf_facts *ret_facts);

/* The machine of this build, EM_X86_64 ...; 0: its programs are not ELF files. */
uint16_t elf_machine_here(void);

/* Does the program itself, not only one of its libraries, need the library `name`? */
bool elf_needs(const struct elf_facts *facts, const char *name);

#endif

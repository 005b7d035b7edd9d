/* SPDX-License-Identifier: BSD-2-Clause */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor/elf_file.h"

/*
 * A small program: the header, three segments, the interpreter, a dynamic section, its strings. Its
 * bytes are at these offsets of the file, and at LOADED above them in memory.
 */
enum { LOADED = 0x400000, INTERPRETER = 512, DYNAMIC = 1024, STRINGS = 2048, FILE_BYTES = 4096 };

struct program {
	Elf64_Ehdr header;
	Elf64_Phdr segments[3];
	uint8_t gap[INTERPRETER - sizeof(Elf64_Ehdr) - 3 * sizeof(Elf64_Phdr)];
	char interpreter[DYNAMIC - INTERPRETER];
	Elf64_Dyn dynamic[(STRINGS - DYNAMIC) / sizeof(Elf64_Dyn)];
	char strings[FILE_BYTES - STRINGS];
};

static struct elf_facts facts;

static struct program program_make(void)
{
	struct program program = {
		.header =
			{
				.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					ELFDATA2LSB, EV_CURRENT},
				.e_type = ET_DYN,
				.e_machine = elf_machine_here(),
				.e_phoff = offsetof(struct program, segments),
				.e_phentsize = sizeof(Elf64_Phdr),
				.e_phnum = 3,
			},
		.segments =
			{
				{.p_type = PT_LOAD, .p_vaddr = LOADED, .p_filesz = FILE_BYTES},
				{.p_type = PT_INTERP, .p_offset = INTERPRETER, .p_filesz = 32},
				{.p_type = PT_DYNAMIC,
					.p_offset = DYNAMIC,
					.p_filesz = STRINGS - DYNAMIC},
			},
		.interpreter = "/lib/ld.so",
		.dynamic =
			{
				{DT_NEEDED, {1}},
				{DT_STRTAB, {LOADED + STRINGS}},
				{DT_RPATH, {17}},
				{DT_NEEDED, {22}},
				{DT_RUNPATH, {32}},
			},
		.strings = "\0libibverbs.so.1\0/old\0libc.so.6\0/new",
	};

	return program;
}

/* Read the first `bytes` of the program. */
static int program_read(const struct program *program, size_t bytes)
{
	int fd = memfd_create("program", MFD_CLOEXEC);
	int result;

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, program, bytes, 0), bytes);
	result = elf_file_read(fd, &facts);
	close(fd);
	return result;
}

static void program_has_what_its_dynamic_section_says(void **state)
{
	struct program program = program_make();

	(void)state;
	assert_int_equal(program_read(&program, sizeof(program)), 0);
	assert_true(facts.is_64 && facts.is_dynamic);
	assert_int_equal(facts.machine, elf_machine_here());
	assert_string_equal(facts.interpreter, "/lib/ld.so");
	assert_string_equal(facts.rpath, "/old");
	assert_string_equal(facts.runpath, "/new");
	assert_int_equal(facts.needed_count, 2);
	assert_true(elf_needs(&facts, "libibverbs.so.1") && elf_needs(&facts, "libc.so.6"));
	assert_false(elf_needs(&facts, "libibverbs.so"));
}

static void own_program_is_read(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(elf_file_read(fd, &facts), 0);
	assert_true(facts.is_64 && facts.is_dynamic);
	assert_true(elf_needs(&facts, "libc.so.6"));
	close(fd);
}

static void program_without_interpreter_and_libraries_is_static(void **state)
{
	struct program program = program_make();

	(void)state;
	program.segments[1].p_type = PT_NULL;
	program.segments[2].p_type = PT_NULL;
	assert_int_equal(program_read(&program, sizeof(program)), 0);
	assert_false(facts.is_dynamic);
	assert_int_equal(facts.needed_count, 0);
}

static void file_of_another_kind_is_no_elf_file(void **state)
{
	struct program program = program_make();

	(void)state;
	assert_int_equal(program_read(&program, 0), -ENOEXEC);
	assert_int_equal(program_read(&program, 15), -ENOEXEC);
	program.header.e_ident[0] = '#';
	assert_int_equal(program_read(&program, sizeof(program)), -ENOEXEC);
	assert_int_equal(elf_file_read(-1, &facts), -EBADF);
}

static void program_of_another_class_or_order_is_not_read_further(void **state)
{
	struct program program = program_make();

	(void)state;
	program.header.e_phnum = 0xffff;
	program.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(program_read(&program, sizeof(program)), 0);
	assert_false(facts.is_64);
	program.header.e_ident[EI_CLASS] = ELFCLASS64;
	program.header.e_ident[EI_DATA] = ELFDATA2MSB;
	assert_int_equal(program_read(&program, sizeof(program)), 0);
	assert_int_equal(facts.machine, EM_NONE);
}

static void program_that_is_cut_off_is_broken(void **state)
{
	struct program program = program_make();

	(void)state;
	/* The last string that is named ends at 37. */
	for (size_t bytes = EI_NIDENT; bytes < STRINGS + 37; bytes++)
		assert_int_equal(program_read(&program, bytes), -EPROTO);
	assert_int_equal(program_read(&program, STRINGS + 37), 0);
}

static void counts_and_offsets_beyond_the_file_are_broken(void **state)
{
	struct program good = program_make(), bad;

	(void)state;
#define REFUSED(change)                                                     \
	do {                                                                \
		bad = good;                                                 \
		bad.change;                                                 \
		assert_int_equal(program_read(&bad, sizeof(bad)), -EPROTO); \
	} while (0)
	REFUSED(header.e_phnum = ELF_SEGMENTS_MAX + 1);
	REFUSED(header.e_phnum = ELF_SEGMENTS_MAX);
	REFUSED(header.e_phentsize = 1);
	REFUSED(header.e_phoff = UINT64_MAX);
	REFUSED(header.e_phoff = INT64_MAX - 8);
	REFUSED(segments[0].p_filesz = STRINGS);
	REFUSED(segments[0].p_vaddr = LOADED + FILE_BYTES);
	REFUSED(segments[0].p_offset = UINT64_MAX);
	REFUSED(segments[1].p_offset = UINT64_MAX);
	REFUSED(segments[1].p_offset = FILE_BYTES);
	REFUSED(segments[2].p_offset = INT64_MAX);
	REFUSED(segments[2].p_filesz = UINT64_MAX);
	REFUSED(segments[2].p_filesz = (ELF_DYNAMIC_MAX + 1) * sizeof(Elf64_Dyn));
	REFUSED(dynamic[0].d_un.d_val = FILE_BYTES - STRINGS);
	REFUSED(dynamic[0].d_un.d_val = UINT64_MAX - 8);
	REFUSED(dynamic[1].d_un.d_ptr = 1);
#undef REFUSED
}

static void strings_without_an_end_are_broken(void **state)
{
	struct program program = program_make();

	(void)state;
	memset(program.interpreter, 'x', sizeof(program.interpreter));
	memset(program.dynamic, 'x', sizeof(program.dynamic));
	memset(program.strings, 'x', sizeof(program.strings));
	assert_int_equal(program_read(&program, sizeof(program)), -EPROTO);
	program = program_make();
	/* One byte longer than a name may be. */
	memset(program.strings + 1, 'x', ELF_NEEDED_BYTES);
	assert_int_equal(program_read(&program, sizeof(program)), -EPROTO);
}

static void more_libraries_than_the_limit_are_broken(void **state)
{
	static struct {
		struct program program;
		Elf64_Dyn dynamic[ELF_NEEDED_MAX + 2];
	} file;
	int fd = memfd_create("program", MFD_CLOEXEC);

	(void)state;
	file.program = program_make();
	file.program.segments[2].p_offset = sizeof(file.program);
	file.program.segments[2].p_filesz = sizeof(file.dynamic);
	file.dynamic[0] = (Elf64_Dyn){DT_STRTAB, {LOADED + STRINGS}};
	for (int i = 1; i <= ELF_NEEDED_MAX + 1; i++)
		file.dynamic[i] = (Elf64_Dyn){DT_NEEDED, {1}};
	assert_int_equal(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
	assert_int_equal(elf_file_read(fd, &facts), -EPROTO);
	file.dynamic[ELF_NEEDED_MAX + 1].d_tag = DT_NULL;
	assert_int_equal(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
	assert_int_equal(elf_file_read(fd, &facts), 0);
	assert_int_equal(facts.needed_count, ELF_NEEDED_MAX);
	close(fd);
}

static void any_byte_may_be_anything(void **state)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	const struct program good = program_make();
	struct program program;

	(void)state;
	for (size_t at = 0; at < sizeof(program); at++) {
		for (size_t i = 0; i < sizeof(values); i++) {
			int result;

			program = good;
			((uint8_t *)&program)[at] = values[i];
			result = program_read(&program, sizeof(program));
			assert_true(result == 0 || result == -EPROTO || result == -ENOEXEC);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_has_what_its_dynamic_section_says),
		cmocka_unit_test(own_program_is_read),
		cmocka_unit_test(program_without_interpreter_and_libraries_is_static),
		cmocka_unit_test(file_of_another_kind_is_no_elf_file),
		cmocka_unit_test(program_of_another_class_or_order_is_not_read_further),
		cmocka_unit_test(program_that_is_cut_off_is_broken),
		cmocka_unit_test(counts_and_offsets_beyond_the_file_are_broken),
		cmocka_unit_test(strings_without_an_end_are_broken),
		cmocka_unit_test(more_libraries_than_the_limit_are_broken),
		cmocka_unit_test(any_byte_may_be_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* The byte order of this machine, as an ELF file names it. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { ELF_ORDER = ELFDATA2LSB };
#else
enum { ELF_ORDER = ELFDATA2MSB };
#endif

struct elf_reader {
	int fd;
	uint32_t segment_count;
	Elf64_Phdr segments[ELF_SEGMENTS_MAX];
};

/* Read `bytes` bytes at `offset`. Returns 0; -EPROTO if the file ends before; or -errno. */
static int piece_read(int fd, uint64_t offset, void *out, size_t bytes)
{
	ssize_t got;

	if (offset > INT64_MAX - bytes)
		return -EPROTO;
	got = pread(fd, out, bytes, (off_t)offset);
	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EPROTO;
}

/* Read a string of at most `room` bytes, its NUL included. Returns 0, -EPROTO or -errno. */
static int text_read(int fd, uint64_t offset, char *out, size_t room)
{
	ssize_t got;

	if (offset > INT64_MAX - room)
		return -EPROTO;
	got = pread(fd, out, room, (off_t)offset);
	if (got < 0)
		return -errno;
	return memchr(out, '\0', (size_t)got) ? 0 : -EPROTO;
}

static const Elf64_Phdr *segment_find(const struct elf_reader *reader, uint32_t type)
{
	for (uint32_t i = 0; i < reader->segment_count; i++)
		if (reader->segments[i].p_type == type)
			return &reader->segments[i];
	return NULL;
}

/* Where in the file is the byte that the loader puts at this address? Returns 0 or -EPROTO. */
static int offset_of(const struct elf_reader *reader, uint64_t address, uint64_t *ret_offset)
{
	for (uint32_t i = 0; i < reader->segment_count; i++) {
		const Elf64_Phdr *segment = &reader->segments[i];

		if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
			address - segment->p_vaddr >= segment->p_filesz)
			continue;
		if (segment->p_offset > UINT64_MAX - (address - segment->p_vaddr))
			return -EPROTO;
		*ret_offset = segment->p_offset + (address - segment->p_vaddr);
		return 0;
	}
	return -EPROTO;
}

static int segments_read(struct elf_reader *reader, const Elf64_Ehdr *header)
{
	if (header->e_phnum > ELF_SEGMENTS_MAX ||
		(header->e_phnum > 0 && header->e_phentsize != sizeof(Elf64_Phdr)))
		return -EPROTO;
	reader->segment_count = header->e_phnum;
	return piece_read(reader->fd, header->e_phoff, reader->segments,
		header->e_phnum * sizeof(Elf64_Phdr));
}

static int interpreter_read(const struct elf_reader *reader, struct elf_facts *facts)
{
	const Elf64_Phdr *segment = segment_find(reader, PT_INTERP);

	if (!segment)
		return 0;
	return text_read(
		reader->fd, segment->p_offset, facts->interpreter, sizeof(facts->interpreter));
}

/* The string at `offset` of the string table, whose address is `table`. */
static int string_read(
	const struct elf_reader *reader, uint64_t table, uint64_t offset, char *out, size_t room)
{
	uint64_t start;
	int result;

	if (table > UINT64_MAX - offset)
		return -EPROTO;
	result = offset_of(reader, table + offset, &start);
	return result < 0 ? result : text_read(reader->fd, start, out, room);
}

static int entry_take(const struct elf_reader *reader, uint64_t table, const Elf64_Dyn *entry,
	struct elf_facts *facts)
{
	if (entry->d_tag == DT_RPATH)
		return string_read(
			reader, table, entry->d_un.d_val, facts->rpath, sizeof(facts->rpath));
	if (entry->d_tag == DT_RUNPATH)
		return string_read(
			reader, table, entry->d_un.d_val, facts->runpath, sizeof(facts->runpath));
	if (entry->d_tag != DT_NEEDED)
		return 0;
	if (facts->needed_count == ELF_NEEDED_MAX)
		return -EPROTO;
	return string_read(reader, table, entry->d_un.d_val, facts->needed[facts->needed_count++],
		ELF_NEEDED_BYTES);
}

/* Visit the entries of the dynamic section up to DT_NULL. Returns 0, -EPROTO or -errno. */
static int dynamic_walk(const struct elf_reader *reader, const Elf64_Phdr *dynamic,
	const uint64_t *table, uint64_t *ret_table, struct elf_facts *facts)
{
	uint64_t count = dynamic->p_filesz / sizeof(Elf64_Dyn);

	if (count > ELF_DYNAMIC_MAX || dynamic->p_offset > INT64_MAX - dynamic->p_filesz)
		return -EPROTO;
	for (uint64_t i = 0; i < count; i++) {
		Elf64_Dyn entry;
		int result = piece_read(
			reader->fd, dynamic->p_offset + i * sizeof(entry), &entry, sizeof(entry));

		if (result == 0 && table)
			result = entry_take(reader, *table, &entry, facts);
		if (result < 0 || entry.d_tag == DT_NULL)
			return result;
		if (!table && entry.d_tag == DT_STRTAB)
			*ret_table = entry.d_un.d_ptr;
	}
	return 0;
}

static int dynamic_read(const struct elf_reader *reader, struct elf_facts *facts)
{
	const Elf64_Phdr *dynamic = segment_find(reader, PT_DYNAMIC);
	uint64_t table = 0;
	int result;

	if (!dynamic)
		return 0;
	/* Walk twice, because the table's address may follow entries that refer to the table. */
	result = dynamic_walk(reader, dynamic, NULL, &table, facts);
	if (result < 0 || table == 0)
		return result;
	return dynamic_walk(reader, dynamic, &table, NULL, facts);
}

int elf_file_read(int fd, struct elf_facts *ret_facts)
{
	struct elf_reader reader = {.fd = fd};
	Elf64_Ehdr header = {0};
	int result = piece_read(fd, 0, header.e_ident, EI_NIDENT);

	if (result == -EPROTO || (result == 0 && memcmp(header.e_ident, ELFMAG, SELFMAG) != 0))
		return -ENOEXEC;
	memset(ret_facts, 0, sizeof(*ret_facts));
	/* Type and machine have the same place in 32-bit files. */
	if (result == 0)
		result = piece_read(fd, 0, &header, offsetof(Elf64_Ehdr, e_version));
	if (result < 0)
		return result;
	ret_facts->is_64 = header.e_ident[EI_CLASS] == ELFCLASS64;
	ret_facts->machine = header.e_machine;
	if (header.e_ident[EI_DATA] != ELF_ORDER)
		ret_facts->machine = EM_NONE;
	if (!ret_facts->is_64 || header.e_ident[EI_DATA] != ELF_ORDER)
		return 0;
	result = piece_read(fd, 0, &header, sizeof(header));
	if (result == 0)
		result = segments_read(&reader, &header);
	if (result == 0)
		result = interpreter_read(&reader, ret_facts);
	if (result == 0)
		result = dynamic_read(&reader, ret_facts);
	ret_facts->is_dynamic = ret_facts->interpreter[0] || ret_facts->needed_count > 0;
	return result;
}

uint16_t elf_machine_here(void)
{
#if defined(__x86_64__)
	return EM_X86_64;
#elif defined(__aarch64__)
	return EM_AARCH64;
#else
	return 0;
#endif
}

bool elf_needs(const struct elf_facts *facts, const char *name)
{
	for (uint32_t i = 0; i < facts->needed_count; i++)
		if (strcmp(facts->needed[i], name) == 0)
			return true;
	return false;
}

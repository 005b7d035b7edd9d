/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which libraries a program gets from `urnic run`: what its ELF file says, and what the dynamic
 * loader lists (`ld.so --list`, which maps the program and runs nothing of it).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/libraries.h"
#include "doctor/checks.h"
#include "doctor/elf_file.h"
#include "doctor/program_file.h"

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* --- what the file says --- */

/* The reason why the kernel sets AT_SECURE for the program; NULL: it does not. */
static const char *privilege_of(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return NULL;
	if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
		return "a set-user-id bit";
	if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getgid())
		return "a set-group-id bit";
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return "file capabilities";
	return NULL;
}

/* Can the program load urnic's libraries? Adds a finding if not. */
static bool is_loadable(struct findings *findings, const char *path, const struct elf_facts *facts)
{
	const char *privilege = privilege_of(path);

	if (!facts->is_64)
		finding_add(findings, "program", path, FINDING_FAILS,
			"is a 32-bit program, and urnic's libraries have 64 bits: build it for 64");
	else if (facts->machine != elf_machine_here())
		finding_add(findings, "program", path, FINDING_FAILS,
			"is for another processor than urnic's libraries: build both for one");
	else if (!facts->is_dynamic)
		finding_add(findings, "program", path, FINDING_FAILS,
			"is a static program, which loads no libibverbs: link it dynamically");
	else if (strstr(base_of(facts->interpreter), "musl"))
		finding_add(findings, "program", path, FINDING_FAILS,
			"uses the C library musl, and urnic's libraries need glibc: build it on glibc");
	else if (privilege)
		finding_add(findings, "program", path, FINDING_FAILS,
			"has %s, for which the loader ignores LD_LIBRARY_PATH: run a copy without",
			privilege);
	else
		return true;
	return false;
}

/* Read the binary. Adds a finding, and returns false, if it cannot be read. */
static bool binary_read(struct findings *findings, const char *path, struct elf_facts *facts)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int result = fd < 0 ? -errno : elf_file_read(fd, facts);

	if (fd >= 0)
		close(fd);
	if (result == -ENOEXEC)
		finding_add(findings, "program", path, FINDING_NOTE,
			"is neither a binary nor a script with an interpreter: a shell runs it");
	else if (result == -EPROTO)
		finding_add(findings, "program", path, FINDING_FAILS,
			"is a broken ELF file, which the kernel does not run");
	else if (result < 0)
		finding_add(findings, "program", path, FINDING_LIMITED,
			"cannot be read (%s), so its libraries are not known", strerror(-result));
	return result == 0;
}

/* --- what the loader says --- */

/* Replace this process by the loader, whose output goes to the descriptor `output`. */
static void loader_run(const char *loader, const char *path, int output)
{
	char *const arguments[] = {(char *)loader, (char *)"--list", (char *)path, NULL};

	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	execv(loader, arguments);
	_exit(EXIT_FAILURE);
}

/* Start the loader. Returns a stream of its output, or NULL. */
static FILE *loader_start(const char *loader, const char *path, pid_t *ret_child)
{
	int output[2];

	if (pipe2(output, O_CLOEXEC) < 0)
		return NULL;
	fflush(NULL);
	*ret_child = fork();
	if (*ret_child == 0)
		loader_run(loader, path, output[1]);
	close(output[1]);
	if (*ret_child > 0)
		return fdopen(output[0], "r");
	close(output[0]);
	return NULL;
}

struct listing {
	char libibverbs[PATH_MAX];
	char librdmacm[PATH_MAX];
	char libmlx5[PATH_MAX];
	char missing[512]; /* the first error that the loader reports; "": none */
};

/*
 * Parse one line of the loader's list: "\tNAME => PATH (0x...)"; "\tPATH (0x...)", of a library
 * that is needed by its path; "\tNAME => not found"; or an error.
 */
static void line_take(const char *line, struct listing *listing)
{
	char name[128], path[PATH_MAX];

	if (strstr(line, "not found") || strstr(line, "error while loading")) {
		if (!listing->missing[0])
			snprintf(listing->missing, sizeof(listing->missing), "%s",
				line + strspn(line, " \t"));
		listing->missing[strcspn(listing->missing, "\n")] = '\0';
		return;
	}
	if (sscanf(line, " %127s => %4095[^\n]", name, path) == 2) {
		char *end = strstr(path, " (0x");

		if (end)
			*end = '\0';
	} else {
		if (sscanf(line, " %4095s", path) != 1 || path[0] != '/')
			return;
		snprintf(name, sizeof(name), "%.127s", base_of(path));
	}
	if (strcmp(name, "libibverbs.so.1") == 0)
		memcpy(listing->libibverbs, path, sizeof(path));
	else if (strcmp(name, "librdmacm.so.1") == 0)
		memcpy(listing->librdmacm, path, sizeof(path));
	else if (strcmp(name, "libmlx5.so.1") == 0)
		memcpy(listing->libmlx5, path, sizeof(path));
}

/*
 * Is `loader` the loader of this program, too? Only that loader is run, because another program's
 * file can name any program as its loader.
 */
static bool is_own_loader(const char *loader)
{
	struct elf_facts *own = malloc(sizeof(*own));
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat one, other;
	bool is_own = own && fd >= 0 && elf_file_read(fd, own) == 0 &&
		stat(own->interpreter, &one) == 0 && stat(loader, &other) == 0 &&
		one.st_dev == other.st_dev && one.st_ino == other.st_ino;

	if (fd >= 0)
		close(fd);
	free(own);
	return is_own;
}

/* List the libraries that the program gets. Returns whether the loader has run. */
static bool libraries_list(const char *loader, const char *path, struct listing *ret_listing)
{
	FILE *output;
	pid_t child;
	char *line = NULL;
	size_t room = 0;
	int status;

	memset(ret_listing, 0, sizeof(*ret_listing));
	if (!is_own_loader(loader))
		return false;
	output = loader_start(loader, path, &child);
	if (!output)
		return false;
	while (getline(&line, &room, output) >= 0)
		line_take(line, ret_listing);
	free(line);
	fclose(output);
	return waitpid(child, &status, 0) == child && WIFEXITED(status);
}

/* --- both --- */

/* Is the library in urnic's directory? */
static bool is_ours(const char *path, const char *libraries)
{
	char *real = realpath(path, NULL);
	size_t bytes = strlen(libraries);
	bool is_inside = real && strncmp(real, libraries, bytes) == 0 && real[bytes] == '/';

	free(real);
	return is_inside;
}

/* Does the program get `name` from `path`, which is not urnic's? Adds a finding if so. */
static void foreign_check(struct findings *findings, const char *name, const char *path,
	const struct elf_facts *facts, const char *libraries)
{
	if (!path[0] || is_ours(path, libraries))
		return;
	if (facts->rpath[0] && !facts->runpath[0])
		finding_add(findings, "library", name, FINDING_FAILS,
			"the program loads %s, because its RPATH (%.200s) comes before "
			"LD_LIBRARY_PATH: remove it (patchelf --remove-rpath)",
			path, facts->rpath);
	else
		finding_add(findings, "library", name, FINDING_FAILS,
			"the program loads %s, and not urnic's: it, or a library of it, names that "
			"path (readelf -d)",
			path);
}

static void libraries_describe(struct findings *findings, const struct listing *listing,
	const struct elf_facts *facts, const char *libraries)
{
	uint32_t fails = findings_count(findings, FINDING_FAILS);

	foreign_check(findings, "libibverbs.so.1", listing->libibverbs, facts, libraries);
	foreign_check(findings, "librdmacm.so.1", listing->librdmacm, facts, libraries);
	if (listing->missing[0])
		finding_add(findings, "library", NULL, FINDING_FAILS,
			"the program does not start: %s", listing->missing);
	if (listing->libmlx5[0])
		finding_add(findings, "library", "libmlx5.so.1", FINDING_LIMITED,
			"the program may use mlx5dv and DevX, which urnic refuses as another vendor's "
			"adapter does: choose its plain verbs");
	if (findings_count(findings, FINDING_FAILS) > fails)
		return;
	if (listing->libibverbs[0] || listing->librdmacm[0])
		finding_add(findings, "library", NULL, FINDING_OK,
			"`urnic run` gives the program the libraries of %s", libraries);
	else
		finding_add(findings, "library", NULL, FINDING_OK,
			"the program links no libibverbs; what it loads while it runs (plugins, "
			"Python modules) gets the libraries of %s",
			libraries);
}

/* Find the binary. Adds a finding, and returns false, if there is none. */
static bool binary_find(struct findings *findings, const char *name, char path[PATH_MAX])
{
	int result = program_find(name, path), scripts;
	char script[PATH_MAX];

	if (result < 0) {
		finding_add(findings, "program", name, FINDING_FAILS, "%s",
			result == -EACCES ? "may not be executed" : "is not found");
		path[0] = '\0';
		return false;
	}
	memcpy(script, path, sizeof(script));
	scripts = program_follow_script(path);
	if (scripts < 0) {
		finding_add(findings, "program", script, FINDING_FAILS,
			"is a script whose interpreter cannot be run: %s", strerror(-scripts));
		path[0] = '\0';
		return false;
	}
	if (scripts > 0)
		finding_add(findings, "program", script, FINDING_NOTE, "is a script of %s", path);
	return true;
}

void check_program(struct findings *findings, const char *name, const char *libraries,
	struct program_facts *ret_facts)
{
	struct elf_facts *facts = calloc(1, sizeof(*facts));
	struct listing listing;

	memset(ret_facts, 0, sizeof(*ret_facts));
	if (!facts || path_list_prepend("LD_LIBRARY_PATH", libraries) < 0) {
		findings->is_incomplete = true;
	} else if (binary_find(findings, name, ret_facts->path) &&
		binary_read(findings, ret_facts->path, facts) &&
		is_loadable(findings, ret_facts->path, facts)) {
		if (libraries_list(facts->interpreter, ret_facts->path, &listing))
			libraries_describe(findings, &listing, facts, libraries);
		else
			finding_add(findings, "library", NULL, FINDING_LIMITED,
				"the loader %s lists no libraries, so they are not known",
				facts->interpreter);
		memcpy(ret_facts->libibverbs, listing.libibverbs, sizeof(listing.libibverbs));
		memcpy(ret_facts->librdmacm, listing.librdmacm, sizeof(listing.librdmacm));
	}
	free(facts);
}

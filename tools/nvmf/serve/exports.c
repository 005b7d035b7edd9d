/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/serve/exports.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512, FILE_BYTES = 4096, NAME_BYTES = 32 };

static void directory_path(char *path, size_t bytes)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (runtime && runtime[0] == '/')
		snprintf(path, bytes, "%s/urnic-nvmf", runtime);
	else
		snprintf(path, bytes, "/tmp/urnic-nvmf-%u", (unsigned)getuid());
}

/*
 * Open the directory of the exports. Returns -1 if it is missing, belongs to another user, or may
 * be written by other users.
 */
static int directory_open(bool creates)
{
	char path[PATH_BYTES];
	struct stat stat;
	int fd;

	directory_path(path, sizeof(path));
	if (creates)
		mkdir(path, 0700);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &stat) != 0 || stat.st_uid != getuid() || (stat.st_mode & 022))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Add a text of Identify Controller without its trailing spaces and zeroes. */
static void add_text(cJSON *object, const char *name, const uint8_t *bytes, size_t length)
{
	char text[64];

	while (length > 0 && (bytes[length - 1] == ' ' || bytes[length - 1] == 0))
		length--;
	for (size_t i = 0; i < length; i++)
		text[i] = bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '?';
	text[length] = '\0';
	cJSON_AddStringToObject(object, name, text);
}

static void name_make(char *name, unsigned number)
{
	snprintf(name, NAME_BYTES, "%d.%u", (int)getpid(), number);
}

int exports_add(
	unsigned number, const char *node, const char *subnqn, const struct session *session)
{
	const struct block_device *device = remote_device(session->remote);
	const uint8_t *identity = host_controller_identity(session->controller);
	cJSON *object = cJSON_CreateObject();
	int directory = directory_open(true);
	char name[NAME_BYTES];
	char *text;
	int fd;

	cJSON_AddStringToObject(object, "node", node);
	cJSON_AddStringToObject(object, "subnqn", subnqn);
	add_text(object, "sn", identity + 4, 20);
	add_text(object, "model", identity + 24, 40);
	add_text(object, "firmware", identity + 64, 8);
	cJSON_AddNumberToObject(object, "nsid", remote_nsid(session->remote));
	cJSON_AddNumberToObject(object, "size_bytes", (double)device->size_bytes);
	cJSON_AddNumberToObject(object, "block_bytes", device->block_bytes);
	cJSON_AddNumberToObject(object, "pid", getpid());
	text = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	name_make(name, number);
	fd = directory < 0
		? -1
		: openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	/* Lock the file before it has text, because 'list' removes a file with text and no lock. */
	if (fd >= 0 && flock(fd, LOCK_EX) == 0 && text)
		dprintf(fd, "%s\n", text);
	if (directory >= 0)
		close(directory);
	free(text);
	return fd;
}

void exports_remove(unsigned number, int fd)
{
	int directory = directory_open(false);
	char name[NAME_BYTES];

	if (directory >= 0) {
		name_make(name, number);
		unlinkat(directory, name, 0);
		close(directory);
	}
	if (fd >= 0)
		close(fd);
}

/* Read an export's file. If its process has ended, remove the file and return NULL. */
static cJSON *export_read(int directory, const char *name)
{
	char text[FILE_BYTES];
	int fd = name[0] == '.' ? -1 : openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return NULL;
	/* A file without text is one that its process is making, perhaps still without the lock. */
	length = read(fd, text, sizeof(text) - 1);
	if (length > 0 && flock(fd, LOCK_SH | LOCK_NB) == 0) {
		unlinkat(directory, name, 0);
		length = 0;
	}
	close(fd);
	if (length <= 0)
		return NULL;
	text[length] = '\0';
	return cJSON_Parse(text);
}

static const char *text_of(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));

	return text ? text : "";
}

static double number_of(const cJSON *object, const char *name)
{
	const cJSON *number = cJSON_GetObjectItem(object, name);

	return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

static void print_row(const cJSON *object)
{
	printf("%-32s %-20s %-24s %-10.0f %8.2f GB %6.0f B %-8s\n", text_of(object, "node"),
		text_of(object, "sn"), text_of(object, "model"), number_of(object, "nsid"),
		number_of(object, "size_bytes") / 1e9, number_of(object, "block_bytes"),
		text_of(object, "firmware"));
}

static int print_json(cJSON *list)
{
	cJSON *root = cJSON_CreateObject();
	char *text;

	cJSON_AddItemToObject(root, "Devices", list);
	text = cJSON_Print(root);
	cJSON_Delete(root);
	if (!text)
		return complain("no memory");
	puts(text);
	free(text);
	return 0;
}

int command_list(const struct nvmf_options *options)
{
	cJSON *list = cJSON_CreateArray();
	int fd = directory_open(false);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	const cJSON *object;

	while (directory && (entry = readdir(directory)) != NULL) {
		cJSON *item = export_read(fd, entry->d_name);

		if (item)
			cJSON_AddItemToArray(list, item);
	}
	if (directory)
		closedir(directory);
	if (options->wants_json)
		return print_json(list);
	printf("%-32s %-20s %-24s %-10s %11s %8s %-8s\n", "Node", "SN", "Model", "Namespace",
		"Size", "Format", "FW Rev");
	cJSON_ArrayForEach(object, list)
	{
		print_row(object);
	}
	cJSON_Delete(list);
	return 0;
}

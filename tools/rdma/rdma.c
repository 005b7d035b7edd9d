/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma: in the private view, stands in for the `rdma` of iproute2.
 *
 *   rdma [-j] [-p] [-d] link [show [DEVICE[/PORT]]]
 *
 * It lists urnic's devices, because the kernel, which the genuine command asks, does not know them.
 * The text and the JSON are in iproute2's formats. Any other command line goes to the next `rdma`
 * on PATH.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/device_facts.h"
#include "common/json.h"
#include "os/setting.h"

/* The only port of every device. */
#define PORT      1
#define PORT_TEXT "1"

struct request {
	bool is_json;
	char device[DEVICE_NAME_BYTES]; /* "": all devices */
};

/* As in iproute2, `text` may be only the beginning of the word. */
static bool is_word(const char *text, const char *word)
{
	return text[0] != '\0' && strncmp(text, word, strlen(text)) == 0;
}

/* Read DEVICE or DEVICE/PORT. */
static bool read_device(const char *text, struct request *request)
{
	const char *slash = strchr(text, '/');
	size_t bytes = slash ? (size_t)(slash - text) : strlen(text);

	if (bytes == 0 || bytes >= sizeof(request->device) ||
		(slash && strcmp(slash + 1, PORT_TEXT) != 0))
		return false;
	memcpy(request->device, text, bytes);
	request->device[bytes] = '\0';
	return true;
}

/* Parse the arguments. Returns false for a command other than `link show`. */
static bool read_request(int argc, char **argv, struct request *ret_request)
{
	static const struct option names[] = {
		{"details", no_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"pretty", no_argument, NULL, 'p'},
		{0},
	};
	struct request request = {0};
	int letter, words;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "djp", names, NULL)) != -1) {
		if (letter == '?')
			return false;
		request.is_json = request.is_json || letter == 'j';
	}
	words = argc - optind;
	argv += optind;
	if (words < 1 || words > 3 || !is_word(argv[0], "link"))
		return false;
	if (words > 1 && !is_word(argv[1], "show") && !is_word(argv[1], "list"))
		return false;
	if (words > 2 && !read_device(argv[2], &request))
		return false;
	*ret_request = request;
	return true;
}

static const char *state_of(const struct device_facts *device)
{
	return device->is_active ? "ACTIVE" : "DOWN";
}

static const char *physical_state_of(const struct device_facts *device)
{
	return device->is_active ? "LINK_UP" : "DISABLED";
}

static void print_link(const struct device_facts *device)
{
	printf("link %s/%d state %s physical_state %s netdev %s \n", device->name, PORT,
		state_of(device), physical_state_of(device), device->interface);
}

static void json_add_link(cJSON *list, const struct device_facts *device, uint32_t index)
{
	cJSON *object = json_append_object(list);

	json_add_count(object, "ifindex", index);
	cJSON_AddStringToObject(object, "ifname", device->name);
	json_add_count(object, "port", PORT);
	cJSON_AddStringToObject(object, "state", state_of(device));
	cJSON_AddStringToObject(object, "physical_state", physical_state_of(device));
	cJSON_AddStringToObject(object, "netdev", device->interface);
	json_add_count(object, "netdev_index", device->ifindex);
}

static int print_links(
	const struct request *request, const struct device_facts *devices, uint32_t count)
{
	cJSON *list = request->is_json ? cJSON_CreateArray() : NULL;
	uint32_t printed = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (request->device[0] && strcmp(request->device, devices[i].name) != 0)
			continue;
		printed++;
		if (request->is_json)
			json_add_link(list, &devices[i], i);
		else
			print_link(&devices[i]);
	}
	if (request->is_json && json_print(list) < 0)
		return EXIT_FAILURE;
	if (request->device[0] && !printed) {
		fprintf(stderr, "rdma: urnic has no device %s\n", request->device);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

static bool is_this_program(const char *path)
{
	struct stat file, own;

	return stat(path, &file) == 0 && stat("/proc/self/exe", &own) == 0 &&
		file.st_dev == own.st_dev && file.st_ino == own.st_ino;
}

/*
 * Run an `rdma` on PATH: the first one behind this program or, with `is_behind`, the first one that
 * is not this program. If there is none, returns whether this program is on PATH.
 */
static bool run_next(char **argv, bool is_behind)
{
	const char *part = getenv("PATH");
	bool is_found = false;

	while (part) {
		int bytes = (int)strcspn(part, ":");
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%.*s/rdma", bytes, part);
		if (bytes && is_this_program(path))
			is_found = is_behind = true;
		else if (bytes && is_behind)
			execv(path, argv);
		part = part[bytes] ? part + bytes + 1 : NULL;
	}
	return is_found;
}

/*
 * Leave the command to iproute2's rdma. If this program is on PATH, only an rdma behind it is run,
 * because one before it may be another urnic's, which would run this program again. Returns only if
 * there is no rdma to run.
 */
static void leave_to_next(char **argv)
{
	if (!run_next(argv, false))
		run_next(argv, true);
	fprintf(stderr,
		"rdma: urnic answers 'link show' only, and PATH has no rdma of iproute2 behind it\n");
}

int main(int argc, char **argv)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));
	struct request request;
	struct device_facts *devices;
	uint32_t count;
	int result;

	if (!words)
		return EXIT_FAILURE;
	memcpy(words, argv, (size_t)argc * sizeof(*words)); /* getopt_long() changes their order */
	if (!read_request(argc, words, &request)) {
		free(words);
		leave_to_next(argv);
		return EXIT_FAILURE;
	}
	free(words);
	settings_read();
	result = device_facts_create(&devices, &count);
	if (result < 0) {
		fprintf(stderr, "rdma: cannot list the network interfaces: %s\n",
			strerror(-result));
		return EXIT_FAILURE;
	}
	if (!request.is_json)
		device_facts_make_printable(devices, count);
	result = print_links(&request, devices, count);
	free(devices);
	return result;
}

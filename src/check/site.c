/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/site.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unwind.h>
#ifdef URNIC_CHECK_BACKTRACE
#include <backtrace.h>
#endif

#include "check/check.h"
#include "check/table.h"

enum { FRAME_COUNT_MAX = 24, SITE_COUNT_MAX = 65536 };

/*
 * The owner of the code that called, as site_is_library() finds it at its first use. Later the
 * library may be gone.
 */
enum site_owner {
	OWNER_UNKNOWN,
	OWNER_PROGRAM,
	OWNER_LIBRARY,
};

/*
 * The loader's answer for an address: the object and function that have it. The strings remain
 * valid when the library is unloaded.
 */
struct place {
	const char *object;
	const char *function;
	uintptr_t offset; /* offset of the address in the object */
};

struct site {
	uint32_t number;
	uint32_t count;
	_Atomic(enum site_owner) owner;
	_Atomic(struct place *) places; /* the places of `addresses`; NULL: not looked up yet */
	uintptr_t addresses[FRAME_COUNT_MAX]; /* return addresses, the innermost first */
};

static struct table sites_by_key;
static _Atomic(struct site *) sites[SITE_COUNT_MAX]; /* by number; number 0 is no site */
static uint32_t site_count = 1;

struct walk {
	uintptr_t start; /* the return address in the program; frames before it are the checker's */
	bool is_started;
	struct site *site;
};

static _Unwind_Reason_Code frame_note(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;
	uintptr_t address = _Unwind_GetIP(context);

	if (address == walk->start)
		walk->is_started = true;
	if (walk->is_started && address && walk->site->count < FRAME_COUNT_MAX)
		walk->site->addresses[walk->site->count++] = address;
	return walk->site->count < FRAME_COUNT_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void stack_unwind(const void *address, struct site *ret_site)
{
	struct walk walk = {.start = (uintptr_t)address, .site = ret_site};

	*ret_site = (struct site){0};
	_Unwind_Backtrace(frame_note, &walk);
	if (ret_site->count == 0)
		ret_site->addresses[ret_site->count++] = (uintptr_t)address;
}

/*
 * Does the address belong to one of these libraries? A call from there is the library's own, on
 * behalf of the program.
 */
bool site_address_is_library(uintptr_t address)
{
	struct dl_find_object found;
	const char *path, *name;

	if (_dl_find_object((void *)(address - 1), &found) || !found.dlfo_link_map)
		return false;
	path = found.dlfo_link_map->l_name;
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	return strncmp(name, "librdmacm.", 10) == 0 || strncmp(name, "libibverbs.", 11) == 0 ||
		strncmp(name, "liburnic", 8) == 0;
}

/*
 * An address within the call instruction of a frame. The return address may already belong to the
 * next line.
 */
static uintptr_t address_called(const struct site *site, uint32_t frame)
{
	return site->addresses[frame] - 1;
}

static uint32_t site_add(uint64_t key, const struct site *made)
{
	struct site *site = NULL;

	pthread_mutex_lock(&check_lock);
	site = table_find(&sites_by_key, key);
	if (!site && site_count < SITE_COUNT_MAX && (site = check_allocate(sizeof(*site)))) {
		*site = *made;
		site->number = site_count++;
		sites[site->number] = site;
		table_set(&sites_by_key, key, site);
	}
	pthread_mutex_unlock(&check_lock);
	return site ? site->number : SITE_NONE;
}

static uint32_t site_of_made(const struct site *made)
{
	uint64_t key = 0;
	struct site *site;

	for (uint32_t i = 0; i < made->count; i++)
		key = (key ^ made->addresses[i]) * 0x9e3779b97f4a7c15u + (key >> 29);
	key |= 1; /* keys of site_of() are even */
	site = table_find(&sites_by_key, key);
	return site ? site->number : site_add(key, made);
}

uint32_t site_of_stack(const void *address)
{
	struct site made;

	stack_unwind(address, &made);
	return site_of_made(&made);
}

uint32_t site_of_fault(uintptr_t pc)
{
	struct site made;

	stack_unwind((const void *)pc, &made);
	/* `pc` is the instruction itself, so add the 1 that address_called() will subtract */
	made.addresses[0]++;
	return site_of_made(&made);
}

bool site_has_library(uint32_t number)
{
	const struct site *site = sites[number];

	for (uint32_t i = 0; site && i < site->count; i++)
		if (site_address_is_library(site->addresses[i]))
			return true;
	return false;
}

uint32_t site_of(const void *address)
{
	uint64_t key = (uintptr_t)address << 1;
	struct site *site;
	struct site made;

	if (check_is_full)
		return site_of_stack(address);
	site = table_find(&sites_by_key, key);
	if (site)
		return site->number;
	stack_unwind(address, &made);
	return site_add(key, &made);
}

bool site_is_library(uint32_t number)
{
	struct site *site = sites[number];

	if (!site)
		return false;
	if (site->owner == OWNER_UNKNOWN)
		site->owner =
			site_address_is_library(site->addresses[0]) ? OWNER_LIBRARY : OWNER_PROGRAM;
	return site->owner == OWNER_LIBRARY;
}

static const char *text_keep(const char *text)
{
	char *kept = text ? check_allocate(strlen(text) + 1) : NULL;

	return kept ? strcpy(kept, text) : NULL;
}

void site_look_up(uint32_t number)
{
	struct site *site = sites[number];
	struct place *places;
	Dl_info info;

	if (!site || site->places)
		return;
	places = check_allocate(site->count * sizeof(*places));
	for (uint32_t i = 0; places && i < site->count; i++) {
		uintptr_t pc = address_called(site, i);

		if (dladdr((void *)pc, &info))
			places[i] = (struct place){text_keep(info.dli_fname),
				text_keep(info.dli_sname), pc - (uintptr_t)info.dli_fbase};
	}
	site->places = places;
}

struct lookup {
	void (*each)(const struct site_frame *frame, void *context);
	void *context;
	struct site_frame frame;
	bool is_found;
};

/*
 * Is this the program's outermost frame? The frames that call main() or start a thread are not the
 * program's.
 */
static bool frame_is_last(const struct site_frame *frame)
{
	return frame->function && strcmp(frame->function, "main") == 0;
}

static bool frame_is_start(const struct site_frame *frame)
{
	return frame->function &&
		(strncmp(frame->function, "__libc_start", 12) == 0 ||
			strcmp(frame->function, "start_thread") == 0);
}

#ifdef URNIC_CHECK_BACKTRACE
static int line_found(void *data, uintptr_t pc, const char *file, int line, const char *function)
{
	struct lookup *lookup = data;

	(void)pc;
	if (!file && !function)
		return 0;
	lookup->frame.file = file;
	lookup->frame.line = line;
	if (function)
		lookup->frame.function = function;
	if (!frame_is_start(&lookup->frame))
		lookup->each(&lookup->frame, lookup->context);
	lookup->is_found = true;
	return 0;
}

static void line_missing(void *data, const char *message, int error)
{
	(void)data;
	(void)message;
	(void)error;
}

static void frame_lookup(uintptr_t pc, struct lookup *lookup)
{
	static struct backtrace_state *state;

	if (!state)
		state = backtrace_create_state(NULL, 1, line_missing, NULL);
	if (state)
		backtrace_pcinfo(state, pc, line_found, line_missing, lookup);
}
#else
static void frame_lookup(uintptr_t pc, struct lookup *lookup)
{
	(void)pc;
	(void)lookup;
}
#endif

void site_frames(
	uint32_t number, void (*each)(const struct site_frame *frame, void *context), void *context)
{
	struct site *site = number < SITE_COUNT_MAX ? sites[number] : NULL;
	const struct place *places = site ? site->places : NULL;

	for (uint32_t i = 0, is_last = 0; site && i < site->count && !is_last; i++) {
		uintptr_t pc = address_called(site, i);
		struct lookup lookup = {.each = each, .context = context};

		if (places) {
			lookup.frame.object = places[i].object;
			lookup.frame.offset = places[i].offset;
			lookup.frame.function = places[i].function;
		}
		frame_lookup(pc, &lookup);
		is_last = frame_is_last(&lookup.frame) || (i > 0 && frame_is_start(&lookup.frame));
		if (!lookup.is_found && !frame_is_start(&lookup.frame))
			each(&lookup.frame, context);
	}
}

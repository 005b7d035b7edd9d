/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/port_holder.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/process.h"
#include "port/address.h"
#include "wire/roce.h"

/* A bound UDP socket, as /proc/net/udp and udp6 list them. */
struct udp_row {
	struct gid gid; /* all zero: any address of either family, or of IPv6 alone */
	bool is_any;
	uint32_t port;
	uint32_t uid;
	unsigned long inode;
};

/* The kernel prints addresses as 32-bit words in host order. */
static void parse_address(const char *hex, struct udp_row *row)
{
	uint32_t words[4] = {0};
	unsigned count = strspn(hex, "0123456789ABCDEFabcdef") == 32 ? 4 : 1;

	for (unsigned i = 0; i < count; i++) {
		char word[9] = {0};

		memcpy(word, hex + (size_t)i * 8, 8);
		words[i] = (uint32_t)strtoul(word, NULL, 16);
	}
	if (count == 4) {
		memcpy(row->gid.raw, words, sizeof(row->gid.raw));
	} else {
		uint8_t ipv4[4];

		memcpy(ipv4, words, sizeof(ipv4));
		row->gid = gid_from_ipv4(ipv4);
	}
	row->is_any = (words[0] | words[1] | words[2] | words[3]) == 0;
}

static bool parse_row(const char *line, struct udp_row *row)
{
	char address[40];

	/* Columns: sl local:port remote:port state queues timer retransmits uid timeout inode */
	if (sscanf(line, " %*d: %39[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*s %lu", address,
		    &row->port, &row->uid, &row->inode) != 4)
		return false;
	if (strlen(address) != 8 && strlen(address) != 32)
		return false;
	parse_address(address, row);
	return true;
}

/* Visit the sockets on port 4791 until `visit` returns true. Returns whether it did. */
static bool visit_rows(bool (*visit)(void *context, const struct udp_row *row), void *context)
{
	static const char *const tables[] = {"/proc/net/udp", "/proc/net/udp6"};
	bool is_done = false;

	for (unsigned i = 0; i < 2 && !is_done; i++) {
		FILE *table = fopen(tables[i], "re");
		char line[256];

		while (table && !is_done && fgets(line, sizeof(line), table)) {
			struct udp_row row;

			is_done = parse_row(line, &row) && row.port == ROCE_UDP_PORT &&
				visit(context, &row);
		}
		if (table)
			fclose(table);
	}
	return is_done;
}

struct search {
	const struct agent_address *address;
	struct udp_row found;
};

static bool is_in_the_way(void *context, const struct udp_row *row)
{
	struct search *search = context;

	if (!row->is_any && !gid_is_equal(&row->gid, &search->address->gid))
		return false;
	search->found = *row;
	return true;
}

static bool is_ours(void *context, const struct udp_row *row)
{
	(void)context;
	return row->uid == geteuid();
}

bool port_holder_has_survivors(void)
{
	return visit_rows(is_ours, NULL);
}

static bool has_socket(int process, const char *link_sought)
{
	int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fds < 0 ? NULL : fdopendir(fds);
	bool is_found = false;
	struct dirent *entry;

	if (!directory) {
		if (fds >= 0)
			close(fds);
		return false;
	}
	while (!is_found && (entry = readdir(directory))) {
		char link[64];
		ssize_t bytes = readlinkat(fds, entry->d_name, link, sizeof(link) - 1);

		if (bytes > 0) {
			link[bytes] = '\0';
			is_found = strcmp(link, link_sought) == 0;
		}
	}
	closedir(directory);
	return is_found;
}

/* The process that has the socket open; pid 0 if /proc does not show it to this user. */
static struct port_holder process_find(unsigned long inode)
{
	DIR *processes = opendir("/proc");
	struct port_holder holder = {0};
	struct dirent *entry;
	char link[64];

	snprintf(link, sizeof(link), "socket:[%lu]", inode);
	while (processes && !holder.pid && (entry = readdir(processes))) {
		int process;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		process =
			openat(dirfd(processes), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process < 0)
			continue;
		if (has_socket(process, link)) {
			holder.pid = atoi(entry->d_name);
			process_name_read_in(process, holder.comm);
		}
		close(process);
	}
	if (processes)
		closedir(processes);
	return holder;
}

bool port_holder_find(const struct agent_address *address, struct port_holder *ret_holder)
{
	struct search search = {.address = address};

	if (!visit_rows(is_in_the_way, &search))
		return false;
	*ret_holder = process_find(search.found.inode);
	ret_holder->uid = search.found.uid;
	return true;
}

void port_holder_describe(const struct agent_address *address, char *ret_text, size_t text_bytes)
{
	char where[ADDRESS_TEXT_BYTES];
	struct port_holder holder;
	uint32_t uid;

	gid_to_text(&address->gid, address->scope_ifindex, where);
	if (!port_holder_find(address, &holder)) {
		snprintf(ret_text, text_bytes,
			"UDP port 4791 of %s is taken; /proc does not show the owner", where);
		return;
	}
	uid = holder.uid;
	if (holder.pid && strcmp(holder.comm, "urnicd") == 0)
		snprintf(ret_text, text_bytes,
			"UDP port 4791 of %s is taken by urnicd (process %d) of user %u: end that "
			"user's RDMA programs, or let root run `urnicd --system` for all users",
			where, holder.pid, uid);
	else if (holder.pid)
		snprintf(ret_text, text_bytes,
			"UDP port 4791 of %s is taken by %s (process %d, user %u): end it, or use "
			"another address",
			where, holder.comm, holder.pid, uid);
	else if (uid == 0)
		/* A socket of the kernel belongs to root and to no process. */
		snprintf(ret_text, text_bytes,
			"UDP port 4791 of %s is taken by %s: `rdma link` lists its devices, `rdma "
			"link delete NAME` removes one",
			where,
			geteuid() == 0 ? "the kernel, probably its rxe driver"
				       : "root or by the kernel's rxe driver");
	else
		snprintf(ret_text, text_bytes,
			"UDP port 4791 of %s is taken by user %u, perhaps by that user's urnicd: "
			"root can run `urnicd --system` for all users",
			where, uid);
}

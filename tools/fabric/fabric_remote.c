/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic fabric listen, urnic fabric join: one subnet on several machines. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "fabric/fabric_internal.h"
#include "fabricd/remote/fabric_join.h"
#include "fabricd/remote/fabric_listen.h"

/* The part with which both commands begin: read the key and the address. Returns an exit status. */
static int remote_prepare(const struct fabric_options *options, const char *word,
	const char *address_text, struct remote_key *ret_key, struct remote_address *ret_address)
{
	char why[ATTACH_TEXT_BYTES];

	if (!options->key) {
		complain("fabric %s: it needs --key FILE, the key that both machines have", word);
		return EXIT_USAGE;
	}
	if (remote_key_read(options->key, ret_key, why) ||
		remote_address_find(address_text, ret_address, why)) {
		complain("fabric %s: %s", word, why);
		return EXIT_FAILED;
	}
	fabric_files_allow();
	return EXIT_OK;
}

int fabric_listen_command(const struct fabric_options *options, int argc, char **argv)
{
	struct fabric_listen_settings settings = {.name = options->name};
	struct fabric_listen *listen;
	struct remote_address address;
	char why[ATTACH_TEXT_BYTES];
	static struct remote_key key;
	int rc;

	if (argc != 1) {
		complain("fabric listen: it needs one address; urnic fabric --help");
		return EXIT_USAGE;
	}
	rc = remote_prepare(options, "listen", argv[0], &key, &address);
	if (rc)
		return rc;
	settings.address = &address;
	settings.key = &key;
	if (fabric_listen_create(&settings, &listen, why)) {
		complain("fabric listen: %s", why);
		return EXIT_FAILED;
	}
	printf("fabric \"%s\" listens at %s\n", options->name, argv[0]);
	fflush(stdout);
	rc = fabric_listen_run(listen);
	if (rc)
		complain("fabric listen: %s",
			rc == -ECONNRESET ? "the fabric has ended" : strerror(-rc));
	fabric_listen_destroy(listen);
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* Can a fabric have hosts of these names? Returns false after a complaint. */
static bool hosts_are_legal(int count, char **hosts)
{
	if (count > REMOTE_HOSTS_MAX) {
		complain("fabric join: a machine has %d hosts at most", REMOTE_HOSTS_MAX);
		return false;
	}
	for (int i = 0; i < count; i++) {
		if (!*hosts[i] || strlen(hosts[i]) >= ATTACH_NAME_BYTES) {
			complain("fabric join: \"%.80s\" is no name of a host", hosts[i]);
			return false;
		}
		for (int j = 0; j < i; j++) {
			if (strcmp(hosts[i], hosts[j]) == 0) {
				complain("fabric join: \"%s\" is there twice", hosts[i]);
				return false;
			}
		}
	}
	return true;
}

int fabric_join_command(const struct fabric_options *options, int argc, char **argv)
{
	struct fabric_join_settings settings = {.name = options->name};
	struct remote_address address;
	char why[ATTACH_TEXT_BYTES];
	struct fabric_join *join;
	static struct remote_key key;
	int rc;

	if (argc < 2) {
		complain("fabric join: it needs an address and hosts; urnic fabric --help");
		return EXIT_USAGE;
	}
	if (!hosts_are_legal(argc - 1, argv + 1))
		return EXIT_USAGE;
	rc = remote_prepare(options, "join", argv[0], &key, &address);
	if (rc)
		return rc;
	settings.address = &address;
	settings.key = &key;
	settings.hosts = (const char *const *)argv + 1;
	settings.host_count = (uint32_t)argc - 1;
	if (fabric_join_create(&settings, &join, why)) {
		complain("fabric join: %s: %s", argv[0], why);
		return EXIT_FAILED;
	}
	printf("fabric \"%s\" is joined at %s: %d hosts\n", options->name, argv[0], argc - 1);
	fflush(stdout);
	rc = fabric_join_run(join, why);
	if (rc)
		complain("fabric join: %s: %s", argv[0], why);
	fabric_join_destroy(join);
	return rc ? EXIT_FAILED : EXIT_OK;
}

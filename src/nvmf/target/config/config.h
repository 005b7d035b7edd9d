/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CONFIG_H
#define URNIC_NVMF_TARGET_CONFIG_H

/*
 * The description of a target: hosts, subsystems with namespaces, and ports.
 *
 * The description is a JSON file with the keys of nvmetcli, so that a file that nvmetcli has saved
 * describes the same target here:
 *
 *     {
 *       "hosts": [ { "nqn": "nqn.2014-08.org.nvmexpress:uuid:..." } ],
 *       "subsystems": [ {
 *         "nqn": "nqn.2026-01.org.example:disk",
 *         "attr": { "allow_any_host": "0", "serial": "0123456789" },
 *         "allowed_hosts": [ "nqn.2014-08.org.nvmexpress:uuid:..." ],
 *         "namespaces": [ { "nsid": 1, "enable": 1, "device": { "path": "/srv/disk.img" } } ]
 *       } ],
 *       "ports": [ {
 *         "portid": 1,
 *         "addr": { "trtype": "rdma", "adrfam": "ipv4", "traddr": "10.0.0.1", "trsvcid": "4420" },
 *         "subsystems": [ "nqn.2026-01.org.example:disk" ],
 *         "referrals": []
 *       } ]
 *     }
 *
 * Three keys of "device" exist only in urnic: "memory" and "null" with a size ("64M") instead of
 * "path", and "block_size". Numbers and flags may be JSON numbers or strings. A size is a number of
 * bytes with an optional K, M, G, T or P (powers of 1,024).
 *
 * The parser accepts only a description without errors. Otherwise it returns one sentence with the
 * place of the error: a wrong value, an unknown or repeated key, or a setting that urnic does not
 * support, such as keys for authentication. Keys of nvmetcli that have no meaning here are accepted
 * and ignored.
 *
 * A description is plain memory: it has no file descriptors, and no pointers to objects outside of
 * it. Any thread may use these functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONFIG_NQN_BYTES = 224, /* 223 and a NUL (NVMe base 2.0, section 4.5) */
	CONFIG_TRADDR_BYTES = 65,
	CONFIG_SERVICE_BYTES = 6, /* a port number in decimal */
	CONFIG_PATH_BYTES = 4096,
	CONFIG_SENTENCE_BYTES = 512,
	CONFIG_FILE_BYTES_MAX = 16 << 20,
	CONFIG_NSID_MAX = 0xfffffffe,
	CONFIG_CNTLID_MAX = 0xffef,
	CONFIG_INLINE_BYTES_MAX = 64 << 10,
	CONFIG_QUEUE_SIZE_MIN = 16,
	CONFIG_QUEUE_SIZE_MAX = 1024,
};

/* The values of TRTYPE and ADRFAM in a discovery log entry. */
enum config_transport { CONFIG_RDMA = 1, CONFIG_TCP = 3 };
enum config_family { CONFIG_IPV4 = 1, CONFIG_IPV6 = 2 };

struct config_address {
	enum config_transport transport;
	enum config_family family;
	/* Numeric; an IPv6 address may have a zone ("fe80::1%eth0"). */
	char traddr[CONFIG_TRADDR_BYTES];
	char trsvcid[CONFIG_SERVICE_BYTES];
	/* For a referral: the ID of the port that it refers to. */
	uint32_t portid;
};

struct config_host {
	char nqn[CONFIG_NQN_BYTES];
};

struct config_referral {
	char name[CONFIG_NQN_BYTES];
	struct config_address address;
	bool is_enabled;
};

enum config_backend { CONFIG_PATH, CONFIG_MEMORY, CONFIG_NULL };

struct config_namespace {
	uint32_t nsid; /* 1 to CONFIG_NSID_MAX; unique in its subsystem */
	bool is_enabled;
	enum config_backend backend;
	char path[CONFIG_PATH_BYTES]; /* CONFIG_PATH: a file or block device */
	uint64_t size_bytes; /* CONFIG_MEMORY and CONFIG_NULL: the size, not 0 */
	uint32_t block_bytes; /* a power of two from 512 to 65,536; 0: the backend's default */
	bool is_read_only;
	/* All zero: not given. */
	uint8_t nguid[16];
	uint8_t uuid[16];
	uint32_t ana_group;
};

struct config_subsystem {
	char nqn[CONFIG_NQN_BYTES];
	bool allow_any_host;
	/* "": not given. */
	char serial[21];
	char model[41];
	char firmware[9];
	uint32_t cntlid_min;
	uint32_t cntlid_max;
	uint32_t qid_max; /* the most I/O queues of one controller */
	/* Indices in target_config.hosts. */
	uint32_t *allowed_hosts;
	size_t allowed_host_count;
	struct config_namespace *namespaces;
	size_t namespace_count;
};

struct config_port {
	uint32_t portid; /* unique */
	struct config_address address;
	uint32_t inline_bytes; /* the most data in an I/O capsule, a multiple of 16 */
	uint32_t queue_size; /* the most entries of an I/O queue */
	/* Indices in target_config.subsystems. */
	uint32_t *subsystems;
	size_t subsystem_count;
	struct config_referral *referrals;
	size_t referral_count;
};

struct target_config {
	struct config_host *hosts;
	size_t host_count;
	struct config_subsystem *subsystems;
	size_t subsystem_count;
	struct config_port *ports;
	size_t port_count;
};

/*
 * Read a description.
 *
 * `text`      `bytes` bytes without a NUL, at most CONFIG_FILE_BYTES_MAX.
 * `sentence`  CONFIG_SENTENCE_BYTES bytes. On failure "LINE:COLUMN: " and a sentence without a full
 *             stop.
 *
 * Returns 0, -EINVAL, or -ENOMEM. The caller destroys `*ret_config`, which is set only on success.
 */
int target_config_parse(
	const char *text, size_t bytes, struct target_config **ret_config, char *sentence);

/*
 * Read a description from a file. The sentence begins with `path`. Returns the result of
 * target_config_parse(), or the -errno of opening or reading the file.
 */
int target_config_load(const char *path, struct target_config **ret_config, char *sentence);

/* Free a description; `config` may be NULL. */
void target_config_destroy(struct target_config *config);

/*
 * Parsers of single values in the file and on the command line.
 *
 * Parse a size: digits and an optional K, M, G, T or P. Returns false if `text` is not a size, or
 * the size is zero or above 2^63 - 1.
 */
bool config_size_parse(const char *text, uint64_t *ret_bytes);

/* Parse an NGUID or UUID: 32 hex digits, with optional dashes between digits. */
bool config_id_parse(const char *text, uint8_t ret_id[16]);

#endif

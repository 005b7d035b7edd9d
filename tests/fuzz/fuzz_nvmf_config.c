/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptions of a target. The first byte chooses raw text or text made of the words of nvmetcli,
 * so that many inputs get past the JSON parser.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/codec/fabrics.h"
#include "nvmf/target/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 16384 };

static const char *const words[] = {"{", "}", "[", "]", ",", ":", "\"", "\\", " ", "\n", "{\"",
	"\"}", "\":", "\",\"", "hosts", "subsystems", "ports", "nqn", "attr", "allow_any_host",
	"serial", "cntlid_min", "namespaces", "nsid", "device", "path", "memory", "null",
	"block_size", "uuid", "64M", "portid", "addr", "trtype", "traddr", "adrfam", "ipv6", "::1",
	"tcp", "rdma", "trsvcid", "4420", "referrals", "param", "inline_data_size", "0", "1", "-1",
	"1e99", "true", "null", "{\"hosts\":[{\"nqn\":\"", "{\"subsystems\":[{\"nqn\":\"",
	"\"namespaces\":[{\"nsid\":1,\"device\":{", "{\"ports\":[{\"portid\":1,\"addr\":{",
	"\"allowed_hosts\":[\"", "\\u0000", "\\ud800", "\xc0", "\xf0\x9f\x98\x80"};

static size_t make_text(const uint8_t *data, size_t size, char *text)
{
	size_t length = 0;

	for (size_t i = 0; i < size && length < TEXT_MAX - 64; i++) {
		const char *word = words[data[i] % (sizeof(words) / sizeof(words[0]))];

		memcpy(text + length, word, strlen(word));
		length += strlen(word);
	}
	return length;
}

static void check_config(const struct target_config *config)
{
	for (size_t i = 0; i < config->subsystem_count; i++) {
		const struct config_subsystem *subsystem = &config->subsystems[i];

		if (!nvme_nqn_is_valid(subsystem->nqn, CONFIG_NQN_BYTES))
			abort();
		for (size_t j = 0; j < subsystem->namespace_count; j++) {
			const struct config_namespace *ns = &subsystem->namespaces[j];

			if (ns->nsid == 0 || (ns->backend == CONFIG_PATH) != !!ns->path[0] ||
				(ns->backend != CONFIG_PATH) != !!ns->size_bytes)
				abort();
		}
		for (size_t j = 0; j < subsystem->allowed_host_count; j++) {
			if (subsystem->allowed_hosts[j] >= config->host_count)
				abort();
		}
	}
	for (size_t i = 0; i < config->port_count; i++) {
		for (size_t j = 0; j < config->ports[i].subsystem_count; j++) {
			if (config->ports[i].subsystems[j] >= config->subsystem_count)
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char sentence[CONFIG_SENTENCE_BYTES] = "";
	struct target_config *config;
	static char made[TEXT_MAX];
	size_t length;
	char *text;

	if (size < 1)
		return 0;
	length = data[0] & 3 ? make_text(data + 1, size - 1, made) : size - 1;
	/* Of that size exactly, so that ASan sees one byte too far. */
	text = malloc(length + !length);
	if (!text)
		return 0;
	memcpy(text, data[0] & 3 ? (const void *)made : data + 1, length);
	if (target_config_parse(text, length, &config, sentence) == 0) {
		check_config(config);
		target_config_destroy(config);
	} else if (!sentence[0]) {
		abort();
	}
	free(text);
	return 0;
}

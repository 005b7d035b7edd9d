/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that uses liburnic-nvmf as its header says: synchronous calls, then many requests.
 *
 * Usage: nvmf_library PORT NQN
 */
#include <urnic/nvmf.h>

#include <stdio.h>
#include <string.h>

enum { REQUESTS = 300, BYTES = 4096 };

static uint8_t data[REQUESTS][BYTES];
static struct urnic_nvmf_io requests[REQUESTS];
static unsigned done, failed;

static void request_done(struct urnic_nvmf_io *io, int error)
{
	(void)io;
	done++;
	failed += error != 0;
}

/* All requests of one kind; returns how many were done without error. */
static unsigned run(struct urnic_nvmf *ns, enum urnic_nvmf_op op)
{
	done = failed = 0;
	for (unsigned i = 0; i < REQUESTS; i++) {
		requests[i] = (struct urnic_nvmf_io){.op = op,
			.offset_bytes = (uint64_t)i * BYTES,
			.length_bytes = BYTES,
			.data = data[i],
			.done = request_done};
		urnic_nvmf_submit(ns, &requests[i]);
	}
	while (urnic_nvmf_process(ns, 1000000000u) > 0)
		;
	return done - failed;
}

static int use(struct urnic_nvmf *ns)
{
	static uint8_t back[3 * BYTES];

	memset(data, 7, sizeof(data));
	if (urnic_nvmf_write(ns, BYTES, data, sizeof(back), URNIC_NVMF_FUA) ||
		urnic_nvmf_flush(ns) || urnic_nvmf_read(ns, BYTES, back, sizeof(back)))
		return printf("a synchronous call failed\n");
	if (memcmp(back, data, sizeof(back)) != 0)
		return printf("read something else than was written\n");
	if (urnic_nvmf_read(ns, urnic_nvmf_size_bytes(ns), back, BYTES) == 0)
		return printf("a read behind the end succeeded\n");
	for (unsigned i = 0; i < REQUESTS; i++)
		memset(data[i], (int)i, BYTES);
	if (run(ns, URNIC_NVMF_WRITE) != REQUESTS)
		return printf("%u of %d writes failed\n", failed, REQUESTS);
	memset(data, 0, sizeof(data));
	if (run(ns, URNIC_NVMF_READ) != REQUESTS)
		return printf("%u of %d reads failed\n", failed, REQUESTS);
	for (unsigned i = 0; i < REQUESTS; i++) {
		if (data[i][0] != (uint8_t)i || data[i][BYTES - 1] != (uint8_t)i)
			return printf("request %u read something else\n", i);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const uint8_t hostid[16] = {1};
	struct urnic_nvmf_settings settings = {.traddr = "127.0.0.1", .hostid = hostid};
	char reason[URNIC_NVMF_REASON_BYTES];
	struct urnic_nvmf *ns;
	int status;

	if (argc != 3)
		return 2;
	settings.trsvcid = argv[1];
	settings.subnqn = argv[2];
	if (urnic_nvmf_open(&settings, &ns, reason)) {
		printf("%s\n", reason);
		return 1;
	}
	status = use(ns);
	urnic_nvmf_close(ns);
	return status != 0;
}

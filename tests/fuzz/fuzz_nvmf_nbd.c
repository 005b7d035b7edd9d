/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes are NBD requests, or end the session. The first byte of the input chooses where the
 * stream begins, and how it is split; half of the inputs begin after a finished negotiation.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/nbd/nbd.h"
#include "nvmf/host/nbd/nbd_wire.h"

enum {
	DEVICE_BYTES = 1 << 20,
	BLOCK_BYTES = 512,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ready(struct nbd_session *session, void *context)
{
	(void)session;
	(void)context;
}

/* Send the output, each part in two steps where it has more than one byte. */
static void drain(struct nbd_session *session)
{
	struct iovec parts[NBD_OUTPUT_PARTS_MAX];

	while (nbd_session_output(session, parts, NBD_OUTPUT_PARTS_MAX) > 0)
		nbd_session_sent(session, parts[0].iov_len / 2 + 1);
}

static void feed(struct nbd_session *session, const uint8_t *data, size_t size, size_t piece)
{
	while (size > 0) {
		struct iovec room = nbd_session_room(session);
		size_t now = size < piece ? size : piece;

		if (!room.iov_len) {
			drain(session);
			room = nbd_session_room(session);
		}
		if (now > room.iov_len)
			now = room.iov_len;
		if (!now)
			break;
		memcpy(room.iov_base, data, now);
		nbd_session_received(session, now);
		data += now;
		size -= now;
	}
	drain(session);
}

static void negotiate(struct nbd_session *session, bool is_structured)
{
	static const uint8_t flags[] = {0, 0, 0, NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES};
	static const uint8_t structured[] = "IHAVEOPT\0\0\0\10\0\0\0\0";
	static const uint8_t go[] = "IHAVEOPT\0\0\0\7\0\0\0\6\0\0\0\0\0\0";

	feed(session, flags, sizeof(flags), SIZE_MAX);
	if (is_structured)
		feed(session, structured, sizeof(structured) - 1, SIZE_MAX);
	feed(session, go, sizeof(go) - 1, SIZE_MAX);
	if (!nbd_session_is_transmitting(session))
		abort();
}

/* Random bytes seldom have a magic number: write it where a message could begin. */
static void magic_put(uint8_t *bytes, size_t size, bool is_transmitting)
{
	if (is_transmitting && size >= NBD_REQUEST_BYTES) {
		nbd_put32(bytes, NBD_REQUEST_MAGIC);
		bytes[6] = 0;
		bytes[7] &= 7;
		memset(bytes + 16, 0, 5);
		bytes[23] = 0;
		memset(bytes + 24, 0, 2);
		bytes[27] = 0;
	} else if (!is_transmitting && size >= NBD_OPTION_HEAD_BYTES) {
		nbd_put64(bytes, NBD_OPTION_MAGIC);
		nbd_put32(bytes + 8, bytes[11] % 12);
		nbd_put32(bytes + 12, (uint32_t)(bytes[15] % (size - NBD_OPTION_HEAD_BYTES + 1)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t flags[] = {0, 0, 0, NBD_FIXED_NEWSTYLE};
	struct block_device *device = block_memory_create(DEVICE_BYTES, BLOCK_BYTES);
	struct nbd_export export = {"disk", NULL, device};
	struct nbd_session *session = nbd_session_create(&export, ready, NULL);
	uint8_t *bytes = malloc(size + 1);

	if (!device || !session || !bytes)
		abort();
	memcpy(bytes, data, size);
	if (size > 1) {
		bool is_transmitting = data[0] & 1;

		if (is_transmitting)
			negotiate(session, data[0] & 2);
		else if (data[0] & 2)
			feed(session, flags, sizeof(flags), SIZE_MAX);
		if (data[0] & 4)
			magic_put(bytes + 1, size - 1, is_transmitting);
		block_memory_pause(device, data[0] & 8);
		feed(session, bytes + 1, size - 1, (size_t)(data[0] >> 4) + 1);
		if (data[0] & 16)
			block_memory_pause(device, false);
		drain(session);
	}
	nbd_session_destroy(session);
	block_memory_pause(device, false);
	block_device_destroy(device);
	free(bytes);
	return 0;
}

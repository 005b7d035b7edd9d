/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/pcap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/gid.h"
#include "wire/bytes.h"
#include "wire/ip.h"

enum {
	FILE_HEADER_BYTES = 24,
	RECORD_HEADER_BYTES = 16,
	CAPTURE_BYTES_MAX = 4 << 20,
	ETHERNET_BYTES = 14,
	PCAP_MAGIC = 0xa1b2c3d4,
	PCAP_ETHERNET = 1,
};

const char *const pcap_roce_names[] = {
	"roce-operations.pcap",
	"roce-rnr.pcap",
	"roce-bad-write-key.pcap",
	"roce-bad-read-key.pcap",
	"roce-bad-atomic-key.pcap",
	"roce-out-of-range.pcap",
	"roce-too-long.pcap",
	"roce-atomic-cas.pcap",
	"roce-atomic-fadd.pcap",
	"roce-atomic-write.pcap",
	"roce-rping.pcap",
	"roce-rping-ipv6.pcap",
	"roce-udaddy.pcap",
	"roce-rejected.pcap",
	NULL,
};

void pcap_load(struct pcap *pcap, const char *name)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/pcap/%s", URNIC_TEST_DATA, name);
	file = fopen(path, "rb");
	if (!file)
		fail_msg("%s cannot be opened", path);
	*pcap = (struct pcap){.bytes = malloc(CAPTURE_BYTES_MAX), .offset = FILE_HEADER_BYTES};
	assert_non_null(pcap->bytes);
	pcap->length = fread(pcap->bytes, 1, CAPTURE_BYTES_MAX, file);
	fclose(file);
	assert_true(pcap->length > FILE_HEADER_BYTES);
	assert_int_equal(get_le32(pcap->bytes), PCAP_MAGIC);
	assert_int_equal(get_le32(pcap->bytes + 20), PCAP_ETHERNET);
}

void pcap_done(struct pcap *pcap)
{
	free(pcap->bytes);
	*pcap = (struct pcap){0};
}

bool pcap_next(struct pcap *pcap, uint8_t **ret_frame, size_t *ret_bytes)
{
	uint8_t *record = pcap->bytes + pcap->offset;
	size_t rest_bytes = pcap->length - pcap->offset;
	size_t frame_bytes;

	if (rest_bytes < RECORD_HEADER_BYTES)
		return false;
	frame_bytes = get_le32(record + 8);
	assert_true(frame_bytes <= rest_bytes - RECORD_HEADER_BYTES);
	assert_int_equal(frame_bytes, get_le32(record + 12));
	pcap->offset += RECORD_HEADER_BYTES + frame_bytes;
	*ret_frame = record + RECORD_HEADER_BYTES;
	*ret_bytes = frame_bytes;
	return true;
}

/* Whether the frame is a RoCEv2 packet; fills *roce then. */
static bool frame_is_roce(uint8_t *frame, size_t frame_bytes, struct pcap_roce *roce)
{
	uint8_t *ip = frame + ETHERNET_BYTES;
	uint8_t *udp;
	struct gid source;
	struct gid dest;
	uint16_t type;

	if (frame_bytes < ETHERNET_BYTES + IPV4_BYTES + ROCE_UDP_BYTES + ROCE_ICRC_BYTES)
		return false;
	type = get_be16(frame + 12);
	*roce = (struct pcap_roce){.is_ipv4 = type == ETHER_TYPE_IPV4};
	if (type == ETHER_TYPE_IPV4 && ip[9] == IP_PROTOCOL_UDP) {
		udp = ip + IPV4_BYTES;
		roce->ipv4_id = get_be16(ip + 4);
		roce->ipv4_flags = get_be16(ip + 6);
		source = gid_from_ipv4(ip + 12);
		dest = gid_from_ipv4(ip + 16);
	} else if (type == ETHER_TYPE_IPV6 && ip[6] == IP_PROTOCOL_UDP &&
		frame_bytes >= ETHERNET_BYTES + IPV6_BYTES + ROCE_UDP_BYTES + ROCE_ICRC_BYTES) {
		udp = ip + IPV6_BYTES;
		memcpy(source.raw, ip + 8, 16);
		memcpy(dest.raw, ip + 24, 16);
	} else {
		return false;
	}
	if (get_be16(udp + 2) != ROCE_UDP_PORT)
		return false;

	icrc_flow_init(&roce->flow, source.raw, dest.raw, get_be16(udp), get_be16(udp + 2));
	roce->packet = udp + ROCE_UDP_BYTES;
	roce->length = get_be16(udp + 4) - ROCE_UDP_BYTES - ROCE_ICRC_BYTES;
	assert_true(roce->packet + roce->length + ROCE_ICRC_BYTES <= frame + frame_bytes);
	return true;
}

bool pcap_next_roce(struct pcap *pcap, struct pcap_roce *roce)
{
	uint8_t *frame;
	size_t frame_bytes;

	while (pcap_next(pcap, &frame, &frame_bytes)) {
		if (frame_is_roce(frame, frame_bytes, roce))
			return true;
	}
	return false;
}

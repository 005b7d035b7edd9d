/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "nvmf/host/controller.h"

/* Type and code (NVMe base 2.0, section 3.3.3.2.1), and what it says to the user. */
static const struct {
	uint16_t status;
	const char *text;
} texts[] = {
	{0x000, "success"},
	{0x001, "the controller does not know this command"},
	{0x002, "a field of the command is invalid"},
	{0x004, "data transfer error"},
	{0x006, "internal error of the controller"},
	{0x007, "the command was aborted"},
	{0x00b, "the namespace does not exist, or the host has no access to it"},
	{0x00c, "the commands are out of sequence"},
	{0x020, "the namespace is write protected"},
	{0x022, "the data was damaged on its way"},
	{0x080, "the range is outside of the namespace"},
	{0x081, "the namespace is full"},
	{0x082, "the namespace is not ready"},
	{0x083, "another host has reserved the namespace"},
	{0x109, "the log page is not supported"},
	{0x10d, "the feature cannot be saved"},
	{0x280, "the medium could not be written"},
	{0x281, "the medium could not be read"},
	{0x285, "the compared data differs"},
	{0x286, "access denied"},
	{0x287, "the block was never written"},
	{0x302, "the namespace cannot be reached on this path"},
};

const char *host_status_text(uint16_t status, char *text, size_t text_bytes)
{
	const char *known = "the controller reports an error";

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (texts[i].status == (status & HOST_STATUS_MASK))
			known = texts[i].text;
	}
	snprintf(text, text_bytes, "%s (status %03xh)", known, status & HOST_STATUS_MASK);
	return text;
}

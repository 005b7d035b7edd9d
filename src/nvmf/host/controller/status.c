/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "nvmf/common/codec/command.h"
#include "nvmf/host/controller/controller.h"

const char *host_status_text(uint16_t status, char *text, size_t text_bytes)
{
	uint16_t code = status & HOST_STATUS_MASK;

	snprintf(text, text_bytes, "%s (status %03xh)", nvme_status_sentence(code), code);
	return text;
}

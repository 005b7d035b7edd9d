/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_TEXT_H
#define URNIC_BASE_TEXT_H

/*
 * Text that others chose: the names of processes and of network interfaces. A terminal obeys
 * control characters in it, and a line break in it makes a second line of a log.
 */

/* Replace all but printable ASCII, one '?' for each byte. */
static inline void text_make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

#endif

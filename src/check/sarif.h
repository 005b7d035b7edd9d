/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SARIF 2.1.0: a rule for each kind, a result for each report. The first site becomes the result's
 * location, and each site becomes one of the result's stacks. The functions write by output_say().
 */
#ifndef URNIC_CHECK_SARIF_H
#define URNIC_CHECK_SARIF_H

#include "check/report.h"

/* Write the part of the file before the first result. */
void sarif_begin(void);

void sarif_result(const struct report *report);

#endif

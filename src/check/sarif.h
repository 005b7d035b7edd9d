/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SARIF 2.1.0: a rule for each kind, a result for each report. The first site is the result's
 * location, and each site is one of its stacks. The functions write by output_say().
 */
#ifndef URNIC_CHECK_SARIF_H
#define URNIC_CHECK_SARIF_H

#include "check/report.h"

/* Write what comes before the first result. */
void sarif_begin(void);

void sarif_result(const struct report *report);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QP_REASON_H
#define URNIC_QP_REASON_H

/* The reasons of queue/reason.def by number. os/failure_text.h has their sentences. */

enum reason {
#define FAULT(name, number, status, sentence, seen, clause, look, fix) REASON_##name = (number),
#define REFUSED(name, number, sentence, seen, clause, look, fix)       REASON_##name = (number),
#define CALL(name, number, error, sentence, seen, clause, look, fix)   REASON_##name = (number),
#define CONNECT(name, number, sentence, seen, clause, look, fix)       REASON_##name = (number),
#include "queue/reason.def"
};

#endif

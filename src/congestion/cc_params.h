/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONGESTION_CC_PARAMS_H
#define URNIC_CONGESTION_CC_PARAMS_H

/*
 * Which congestion control a process uses, and its parameters (congestion/parameter.def).
 *
 * All queue pairs of a process share one struct cc_params, which does not change while they exist.
 * The functions are pure.
 */

#include <stdbool.h>
#include <stdint.h>

enum cc_algorithm { CC_OFF, CC_DCQCN, CC_SWIFT, CC_ALGORITHM_COUNT };

/*
 * The presets: the values of the paper (Zhu et al., SIGCOMM 2015), those of Microsoft's simulator
 * for ns-3, and those of ConnectX-4 and later adapters.
 */
enum cc_preset { CC_PRESET_SIGCOMM15, CC_PRESET_MS_NS3, CC_PRESET_CX4, CC_PRESET_COUNT };

enum { CC_WHY_BYTES = 400 };

struct cc_params {
	enum cc_algorithm algorithm;
	enum cc_preset preset; /* the preset from which the values were taken at first */
#define PARAMETER(name, lowest, highest, sigcomm15, ms_ns3, cx4, unit, sentence) uint32_t name;
#include "congestion/parameter.def"
#undef PARAMETER
};

/* Choose `algorithm`, with all values of `preset`. */
void cc_params_init(struct cc_params *params, enum cc_algorithm algorithm, enum cc_preset preset);

/*
 * Parse `off`, `dcqcn` or `swift`, and then items `preset=NAME` and `PARAMETER=NUMBER`, in any
 * order, with commas between them. A preset does not override a parameter that precedes it in the
 * text.
 *
 * `params`   Set on success only.
 * `ret_why`  On failure: a sentence without a period that names the word and what is possible.
 */
bool cc_params_parse(struct cc_params *params, const char *text, char ret_why[CC_WHY_BYTES]);

/* The words that cc_params_parse() knows. */
const char *cc_algorithm_name(enum cc_algorithm algorithm);
const char *cc_preset_name(enum cc_preset preset);

#endif

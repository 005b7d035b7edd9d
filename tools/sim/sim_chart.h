/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_SIM_CHART_H
#define TOOLS_SIM_CHART_H

/*
 * A chart of lines as SVG. The caller begins it, draws lines point by point, and ends it.
 */

#include <stdint.h>
#include <stdio.h>

struct sim_chart {
	FILE *file;
	double x_max;
	double y_max; /* rounded up, for the axis */
	uint32_t lines; /* begun */
};

/* Write text with the characters that HTML has its own use for in their long form. */
void sim_chart_text(FILE *file, const char *text);

/* `x_max`, `y_max`  The largest values; a chart of zeroes has an axis up to 1. */
void sim_chart_begin(struct sim_chart *chart, FILE *file, const char *title, const char *x_unit,
	const char *y_unit, double x_max, double y_max);

/* The points from here on belong to a line of this name. */
void sim_chart_line(struct sim_chart *chart, const char *name);
void sim_chart_point(struct sim_chart *chart, double x, double y);

void sim_chart_end(struct sim_chart *chart);

#endif

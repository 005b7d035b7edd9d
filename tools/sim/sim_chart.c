/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>

#include "base/arith.h"
#include "sim/sim_chart.h"

/* Places within the picture. */
enum {
	WIDTH = 900,
	LEFT = 70,
	RIGHT = 680, /* the legend is beside it */
	TOP = 30,
	BOTTOM = 260,
	HEIGHT = 300,
	TICKS = 5,
	LEGEND_STEP = 13,
};

static const char *const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
	"#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"};

void sim_chart_text(FILE *file, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			fputs("&lt;", file);
			break;
		case '>':
			fputs("&gt;", file);
			break;
		case '&':
			fputs("&amp;", file);
			break;
		case '"':
			fputs("&quot;", file);
			break;
		default:
			fputc(*text, file);
		}
}

/* The next number of the form 1, 2 or 5 times a power of ten. */
static double round_up(double value)
{
	double power = pow(10, floor(log10(value)));
	double digits = value / power;

	return power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
}

static double place_x(const struct sim_chart *chart, double x)
{
	return LEFT + (RIGHT - LEFT) * x / chart->x_max;
}

static double place_y(const struct sim_chart *chart, double y)
{
	return BOTTOM - (BOTTOM - TOP) * y / chart->y_max;
}

static void axes_write(const struct sim_chart *chart)
{
	for (int i = 0; i <= TICKS; i++) {
		double x = chart->x_max * i / TICKS;
		double y = chart->y_max * i / TICKS;

		fprintf(chart->file,
			"<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>"
			"<text x='%d' y='%.1f' text-anchor='end'>%g</text>"
			"<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n",
			LEFT, RIGHT, place_y(chart, y), place_y(chart, y), LEFT - 6,
			place_y(chart, y) + 4, y, place_x(chart, x), BOTTOM + 16, x);
	}
}

void sim_chart_begin(struct sim_chart *chart, FILE *file, const char *title, const char *x_unit,
	const char *y_unit, double x_max, double y_max)
{
	*chart = (struct sim_chart){
		.file = file,
		.x_max = x_max > 0 ? x_max : 1,
		.y_max = y_max > 0 ? round_up(y_max) : 1,
	};
	fprintf(file, "<svg class='chart' viewBox='0 0 %d %d' width='%d' height='%d'>\n", WIDTH,
		HEIGHT, WIDTH, HEIGHT);
	fprintf(file, "<text x='%d' y='16' class='title'>%s</text>\n", LEFT, title);
	fprintf(file, "<text x='%d' y='%d' text-anchor='end'>%s</text>\n", RIGHT, BOTTOM + 32,
		x_unit);
	fprintf(file, "<text x='%d' y='%d' text-anchor='end'>%s</text>\n", LEFT - 6, TOP - 12,
		y_unit);
	axes_write(chart);
}

static void line_end(struct sim_chart *chart)
{
	if (chart->lines)
		fputs("'/>\n", chart->file);
}

void sim_chart_line(struct sim_chart *chart, const char *name)
{
	const char *colour = colours[chart->lines % ARRAY_COUNT(colours)];
	/* When all colours are used, begin again with dashed lines. */
	const char *dash = chart->lines < ARRAY_COUNT(colours) ? "" : " stroke-dasharray='4 3'";
	uint32_t y = TOP + LEGEND_STEP * chart->lines;

	line_end(chart);
	chart->lines++;
	fprintf(chart->file,
		"<line x1='%d' x2='%d' y1='%u' y2='%u' stroke='%s'%s stroke-width='2'/>"
		"<text x='%d' y='%u'>",
		RIGHT + 12, RIGHT + 36, y, y, colour, dash, RIGHT + 42, y + 4);
	sim_chart_text(chart->file, name);
	fprintf(chart->file, "</text>\n<polyline fill='none' stroke='%s'%s points='", colour, dash);
}

void sim_chart_point(struct sim_chart *chart, double x, double y)
{
	fprintf(chart->file, "%.1f,%.1f ", place_x(chart, x), place_y(chart, y));
}

void sim_chart_end(struct sim_chart *chart)
{
	line_end(chart);
	fputs("</svg>\n", chart->file);
}

# SPDX-License-Identifier: BSD-2-Clause
"""The page of bench/report: one file of HTML with its plots in SVG, without scripts or fonts of
others."""
import html
import math

WIDTH, HEIGHT = 620, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 34, 46
COLORS = ("#0b5fa5", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be123c", "#475569", "#0e7490")
STYLE = " ".join((
    "body { font: 15px/1.45 sans-serif; max-width: 1340px; margin: 2em auto; padding: 0 1em; color: #1e293b }",
    "svg { background: #fff; border: 1px solid #cbd5e1; margin: 0 8px 12px 0 }",
    "table { border-collapse: collapse; margin: 1em 0; font-size: 13px }",
    "td, th { border: 1px solid #cbd5e1; padding: 3px 8px; text-align: right }",
    "td:first-child, th:first-child, td.text { text-align: left }",
))
COSTS = (
    ("usec", "usec"), ("cpu_usec", "processor usec"), ("system_calls", "system calls"),
    ("switches", "switches"), ("wake_ups", "wake-ups made"), ("cycles", "cycles"),
    ("instructions", "instructions"),
)


def short(value):
    """A size or figure in few characters."""
    if value >= 1 << 20 and value % (1 << 20) == 0:
        return f"{int(value) >> 20} Mi"
    if value >= 1024 and value % 1024 == 0:
        return f"{int(value) >> 10} Ki"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def decades(low, high):
    """Powers of ten around two positive values, at least one decade."""
    first = math.floor(math.log10(low))
    return first, max(first + 1, math.ceil(math.log10(high)))


class Axes:
    """From a plot's values to the picture: places in order along x, a logarithm along y."""

    def __init__(self, points):
        self.xs = sorted({point["x"] for point in points})
        self.first, self.last = decades(min(point["min"] for point in points),
                                        max(point["max"] for point in points))

    def x(self, value):
        return LEFT + (WIDTH - LEFT - RIGHT) * (self.xs.index(value) + 0.5) / len(self.xs)

    def y(self, value):
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def text(x, y, words, anchor="start", size=12, color="#1e293b"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-family="sans-serif" fill="{color}" '
            f'text-anchor="{anchor}">{html.escape(str(words))}</text>')


def line(x1, y1, x2, y2, color, width=1.0):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            f'stroke-width="{width}"/>')


def frame(axes, plot):
    right = WIDTH - RIGHT
    better = "less is better" if plot.less_is_better else "more is better"
    yield text(LEFT, 20, f"{plot.title} ({plot.unit}, {better})", size=14)
    for power in range(axes.first, axes.last + 1):
        y = axes.y(10.0 ** power)
        yield line(LEFT, y, right, y, "#cbd5e1")
        yield text(LEFT - 6, y + 4, f"{10.0 ** power:g}", "end")
    for x in axes.xs:
        yield text(axes.x(x), HEIGHT - BOTTOM + 18, short(x), "middle")
    yield text((LEFT + right) / 2, HEIGHT - 8, plot.x_title, "middle")


def series_lines(axes, points, color):
    """The medians, and for each a bar from the smallest to the largest value."""
    path = " ".join(f"{axes.x(point['x']):.1f},{axes.y(point['median']):.1f}" for point in points)
    yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>'
    for point in points:
        x = axes.x(point["x"])
        yield line(x, axes.y(point["min"]), x, axes.y(point["max"]), color, 1.2)
        yield (f'<circle cx="{x:.1f}" cy="{axes.y(point["median"]):.1f}" r="3" fill="{color}"><title>'
               f'{html.escape(point["series"])}: {point["median"]:.2f} '
               f'({point["min"]:.2f} to {point["max"]:.2f})</title></circle>')


def picture(plot, points):
    axes = Axes(points)
    parts = list(frame(axes, plot))
    for index, name in enumerate(dict.fromkeys(point["series"] for point in points)):
        color = COLORS[index % len(COLORS)]
        own = sorted((point for point in points if point["series"] == name), key=lambda point: point["x"])
        parts += series_lines(axes, own, color)
        y = TOP + 14 + 18 * index
        parts += [line(WIDTH - RIGHT + 10, y - 4, WIDTH - RIGHT + 30, y - 4, color, 2.5),
                  text(WIDTH - RIGHT + 35, y, name)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}">' + "".join(parts) + "</svg>")


def cell(words, kind=""):
    return f"<td{kind}>{html.escape(str(words))}</td>"


def figures_table(plots, points):
    yield "<table><tr><th>plot</th><th>program</th><th>x</th><th>median</th><th>smallest</th><th>largest</th></tr>"
    for point in points:
        yield ("<tr>" + cell(plots[point["plot"]].title) + cell(point["series"], ' class="text"') +
               cell(short(point["x"])) + "".join(cell(f"{point[key]:.2f}") for key in ("median", "min", "max")) +
               "</tr>")
    yield "</table>"


def costs_table(costs):
    columns = [(key, title) for key, title in COSTS if any(key in cost for cost in costs)]
    titles = "".join(f"<th>{title}</th>" for _, title in columns)
    yield f"<table><tr><th>program</th>{titles}<th>what limits it</th></tr>"
    for cost in costs:
        values = "".join(cell(f"{cost[key]:.2f}" if key in cost else "") for key, _ in columns)
        yield "<tr>" + cell(cost["what"]) + values + cell(cost.get("limit", cost.get("problem", "")),
                                                          ' class="text"') + "</tr>"
    yield "</table>"


def page(report, plots):
    """The whole page of a report (bench/report), with a picture for each plot that has points."""
    parts = [f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>urnic report</title><style>{STYLE}</style>",
             "<h1>urnic beside its peers</h1>",
             f"<p>{html.escape(report['date'])}, {html.escape(report['machine'])}. Medians of "
             f"{report['rounds']} rounds in which each program takes its turn; the bars reach from the "
             "smallest to the largest value.</p>"]
    for key, plot in plots.items():
        points = [point for point in report["points"] if point["plot"] == key and point["min"] > 0]
        if points:
            parts.append(picture(plot, points))
    if report["costs"]:
        parts += ["<h2>What a message costs, and what limits it</h2>", *costs_table(report["costs"])]
    if report["problems"]:
        rows = "".join(f"<li>{html.escape(f'{what}: {why}')}" for what, why in report["problems"].items())
        parts.append(f"<h2>Not measured</h2><ul>{rows}</ul>")
    parts += ["<h2>All figures</h2>", *figures_table(plots, report["points"])]
    return "\n".join(parts) + "\n"

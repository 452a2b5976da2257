"""Small charts as SVG, from the numbers of the tables."""

import html
import math

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 34, 58
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900")


def _frame(title, height=HEIGHT):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            'font-family="sans-serif" font-size="12">',
            f'<title>{html.escape(title)}</title>',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            f'<text x="{LEFT}" y="18" font-size="14">{html.escape(title)}</text>']


def _text(x, y, text, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(str(text))}</text>'


def _step(largest):
    """A round distance of about a quarter."""
    power = 10 ** math.floor(math.log10(largest / 4))
    return next(power * m for m in (1, 2, 5, 10) if power * m * 5 >= largest)


def nothing(text):
    """In place of a chart whose results are not there."""
    return "\n".join(_frame(text, 40) + ["</svg>"]) + "\n"


def lines(title, x_label, y_label, labels, series):
    """series: {name: [value or None for each label]}. The places of the labels are evenly spaced."""
    largest = max(v for values in series.values() for v in values if v is not None)
    step = _step(largest)
    top = math.ceil(largest / step) * step
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    x_of = [LEFT + 30 + i * (right - LEFT - 60) / max(1, len(labels) - 1) for i in range(len(labels))]

    def y_of(value):
        return bottom - value / top * (bottom - TOP - 10)

    svg = _frame(title)
    for i in range(round(top / step) + 1):
        y = y_of(i * step)
        svg.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#00000022"/>')
        svg.append(_text(LEFT - 6, y + 4, f"{i * step:g}", "end"))
    svg += [_text(x, bottom + 16, label) for x, label in zip(x_of, labels)]
    svg.append(_text((LEFT + right) / 2, bottom + 32, x_label))
    svg.append(f'<text transform="translate(14 {(TOP + bottom) / 2:.0f}) rotate(-90)" '
               f'text-anchor="middle">{html.escape(y_label)}</text>')
    legend = LEFT
    for colour, (name, values) in zip(COLOURS, series.items()):
        points = [(x, y_of(v), v) for x, v in zip(x_of, values) if v is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        svg.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        svg += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{v:.4g}</title></circle>'
                for x, y, v in points]
        svg.append(f'<rect x="{legend}" y="{HEIGHT - 18}" width="12" height="12" fill="{colour}"/>')
        svg.append(_text(legend + 17, HEIGHT - 8, name, "start"))
        legend += 40 + 7 * len(name)
    return "\n".join(svg + ["</svg>"]) + "\n"


def intervals(title, x_label, rows):
    """rows: [(label, low, median, high)] of ratios, drawn around 1."""
    height = TOP + 26 * len(rows) + BOTTOM
    left, right = 190, WIDTH - RIGHT
    smallest = min([0.9] + [r[1] for r in rows])
    largest = max([1.1] + [r[3] for r in rows])

    def x_of(value):
        return left + (value - smallest) / (largest - smallest) * (right - left)

    svg = _frame(title, height)
    bottom = height - BOTTOM + 6
    step = _step((largest - smallest) * 1.2)
    for i in range(math.ceil(smallest / step), math.floor(largest / step) + 1):
        x = x_of(i * step)
        colour = "#000000" if abs(i * step - 1) < 1e-9 else "#00000022"
        svg.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}" stroke="{colour}"/>')
        svg.append(_text(x, bottom + 16, f"{i * step:g}"))
    svg.append(_text((left + right) / 2, bottom + 34, x_label))
    for i, (label, low, median, high) in enumerate(rows):
        y = TOP + 26 * i + 10
        svg.append(_text(left - 10, y + 4, label, "end"))
        svg.append(f'<line x1="{x_of(low):.1f}" x2="{x_of(high):.1f}" y1="{y}" y2="{y}" '
                   f'stroke="{COLOURS[0]}" stroke-width="2"/>')
        svg.append(f'<circle cx="{x_of(median):.1f}" cy="{y}" r="4" fill="{COLOURS[0]}">'
                   f'<title>{median:.3f} ({low:.3f} to {high:.3f})</title></circle>')
    return "\n".join(svg + ["</svg>"]) + "\n"

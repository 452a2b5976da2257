#!/usr/bin/env python3
"""Draws a part of a timeline that --trace wrote, as SVG: one row for each thread.

    tools/measure/trace_picture.py TRACE FIRST LAST > picture.svg

FIRST and LAST name launches of one replay ("layer 2 input norm", "layer 2 experts down"): the
picture shows the last replay of the file from the start of the one to the end of the other.
"""

import argparse
import html
import json

WIDTH, LEFT, ROW, GAP = 1000, 70, 46, 14
COLOURS = {
    "norms": "#7a7a7a", "query": "#0072b2", "prolog": "#56b4e9", "absorb": "#009e73",
    "attention": "#cc79a7", "output": "#005a8c", "router": "#b58900", "dense": "#8c564b",
    "experts up": "#d55e00", "experts down": "#e69f00", "head": "#333333", "wait": "#dddddd",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("first")
    parser.add_argument("last")
    options = parser.parse_args()
    with open(options.trace, encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    start = max(e["ts"] for e in events if e["name"] == options.first and e["tid"] == 0)
    end = max(e["ts"] + e["dur"] for e in events if e["name"] == options.last)
    shown = [e for e in events if e["ts"] >= start and e["ts"] + e["dur"] <= end]
    threads = sorted({e["tid"] for e in shown})
    scale = (WIDTH - LEFT - 10) / (end - start)
    height = 30 + len(threads) * (ROW + GAP) + 60

    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
          'font-family="sans-serif" font-size="12">')
    print(f'<title>{html.escape(options.first)} to {html.escape(options.last)}</title>')
    print(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    for row, thread in enumerate(threads):
        y = 30 + row * (ROW + GAP)
        print(f'<text x="4" y="{y + ROW / 2 + 4}">worker {thread}</text>')
        for event in shown:
            if event["tid"] != thread:
                continue
            x = LEFT + (event["ts"] - start) * scale
            width = event["dur"] * scale
            colour = COLOURS.get(event["cat"], "#999999")
            label = f'{event["name"]}: {event["dur"]:.1f} us'
            print(f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0.3):.1f}" height="{ROW}" '
                  f'fill="{colour}"><title>{html.escape(label)}</title></rect>')
    for tick in range(0, int(end - start) + 1, 200):
        x = LEFT + tick * scale
        print(f'<text x="{x:.1f}" y="18" text-anchor="middle">{tick}</text>'
              f'<line x1="{x:.1f}" x2="{x:.1f}" y1="22" y2="{height - 62}" stroke="#00000022"/>')
    print('<text x="4" y="18">us</text>')
    x = LEFT
    for name in dict.fromkeys(e["cat"] for e in sorted(shown, key=lambda e: e["ts"])):
        print(f'<rect x="{x}" y="{height - 40}" width="12" height="12" '
              f'fill="{COLOURS.get(name, "#999999")}"/><text x="{x + 16}" y="{height - 30}">'
              f'{"waiting" if name == "wait" else html.escape(name)}</text>')
        x += 30 + 7 * len(name) + 14
    print("</svg>")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the tables and charts of the documents from the result files in docs/results.

    tools/measure/tables.py [--check]

A table stands between `<!-- table NAME -->` and `<!-- end -->`; docs/results/README.md lists the
measurements and where each is shown. --check changes nothing and fails where a document does not have what
its results say.
"""

import argparse
import fnmatch
import pathlib
import re
import sys

import charts
import document_tables
from document_tables import CHARTS, RESULTS, TABLES, Missing, table
from measurements import MEASUREMENTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "README.zh-CN.md", "docs/performance.md", "docs/benchmark_bs_comparison.md",
             "docs/long_seq_optimization.md")
BLOCK = re.compile(r"(<!-- table ([\w-]+) -->)\n(.*?)(<!-- end -->)", re.DOTALL)


class Documents:
    """The documents with their tables filled in, and what each result is shown by."""

    def __init__(self):
        self.texts = {}  # path: text
        self.shown = {}  # name of a result: ["FILE#SECTION"]
        self.stale = []  # "FILE: table NAME"
        self.missing = set()  # results
        for name in DOCUMENTS:
            self.fill(name)

    def fill(self, name):
        text = (ROOT / name).read_text()
        filled, end = [], 0
        for match in BLOCK.finditer(text):
            filled += [text[end:match.start()], self.block(name, section_at(text, match.start()), match)]
            end = match.end()
        self.texts[ROOT / name] = "".join(filled) + text[end:]
        for match in re.finditer(r"`([a-z][a-z0-9*-]+)`", BLOCK.sub("", text)):
            for m in MEASUREMENTS:
                if fnmatch.fnmatchcase(m.name, match[1]):
                    self.note(m.name, name, section_at(text, text.index(match[0])))

    def block(self, document, section, match):
        start, name, old, end = match.groups()
        if name not in TABLES:
            sys.exit(f"{document}: there is no table {name}; tools/measure/document_tables.py has the names")
        document_tables.used.clear()
        try:
            new = TABLES[name]() + "\n"
        except Missing as missing:
            self.missing.add(str(missing))
            new = f"*Not measured yet: `tools/measure/run.py --only {missing}`*\n"
        for used in document_tables.used:
            self.note(used, document, section)
        if new != old:
            self.stale.append(f"{document}: table {name}")
        return f"{start}\n{new}{end}"

    def note(self, result, document, section):
        places = self.shown.setdefault(result, [])
        if f"{document}#{section}" not in places:
            places.append(f"{document}#{section}")


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def section_at(text, position):
    """The anchor of the last heading before `position`."""
    return anchor(re.findall(r"^#+ (.+)$", text[:position], re.MULTILINE)[-1])


def index(documents):
    """docs/results/README.md."""
    rows = []
    for m in MEASUREMENTS:
        kept = [p.name for p in sorted(RESULTS.glob(f"{m.name}.*"))]
        places = [p for p in documents.shown.get(m.name, []) if not p.startswith("README.zh")]
        if not places and not documents.missing:
            sys.exit(f"the measurement {m.name} is shown nowhere")
        links = [f"[{p.split('#')[1]}]({'../../' + p if p.startswith('README') else '../' + p[5:]})" for p in places]
        variables = "".join(f"{key}={value} " for key, value in m.environment)
        command = (variables + m.command).replace("{{", "{").replace("}}", "}").replace("|", "\\|")
        command = command.replace("{bin}/", "").replace("{measure}/", "tools/measure/").replace(" --json {json}", "")
        rows.append((f"[{m.name}]({kept[0]})" if kept else m.name, f"`{command}`", f"{m.minutes:g}", ", ".join(links)))
    return f"""# Results

What the tables and charts of the documents are made of. `tools/measure/run.py` runs the commands and writes these files,
`tools/measure/tables.py` the tables, the charts and this list; the list itself is in `tools/measure/measurements.py`. Result
files are those of the commands ([bench](../commands/bench.md#the-report),
[bench compare](../commands/bench-compare.md#the-result-file)) or what they print, shortened: five digits, samples of the
rates only, nothing of single runs. A name without a link has no result here: its numbers are single observations in the text.

{table(("name", "command", "minutes", "shown in"), rows)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    documents = Documents()
    known = {m.name for m in MEASUREMENTS}
    for path in sorted(RESULTS.glob("*.*")):
        if path.stem not in known and path.name != "README.md":
            sys.exit(f"{path.relative_to(ROOT)} is the result of no measurement; remove it")
    wanted = documents.texts
    for name, chart in CHARTS.items():
        document_tables.used.clear()
        try:
            picture = chart()
        except Missing as missing:
            documents.missing.add(str(missing))
            picture = charts.nothing(f"Not measured yet: {missing}")
        wanted[ROOT / "docs" / "images" / name] = picture
    wanted[RESULTS / "README.md"] = index(documents)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if options.check and stale:
        first = documents.stale[0] if documents.stale else stale[0].relative_to(ROOT)
        sys.exit(f"{first} is not what docs/results says; run tools/measure/tables.py")
    for path in stale:
        path.write_text(wanted[path])
        print(path.relative_to(ROOT))
    if documents.missing:
        print(f"without results: {', '.join(sorted(documents.missing))}; run tools/measure/run.py --missing")


if __name__ == "__main__":
    main()

"""Prints the rows of src/text/unicode_additions.cpp.

They are the characters that the `tokenizers` package (its Oniguruma) knows and Unicode 14 does not:
what the oldest PCRE2 that Tessera builds with lacks. Run with Python 3.11, whose unicodedata is Unicode
14, and tokenizers 0.23.3.
"""

import sys
import unicodedata

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()


def members(pattern):
    """All characters that the pattern matches."""
    split = Split(Regex(pattern), "removed")
    found = []
    for start in range(0, sys.maxunicode + 1, 4096):
        block = "".join(chr(c) for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000)
        left = set()
        for _, (begin, end) in split.pre_tokenize_str(block):
            left.update(range(begin, end))
        found += [ord(c) for i, c in enumerate(block) if i not in left]
    return found


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    for category in CATEGORIES:
        added = [c for c in members(r"\p{%s}" % category) if unicodedata.category(chr(c)) != category]
        ranges = []
        for c in added:
            if ranges and ranges[-1][1] + 1 == c:
                ranges[-1][1] = c
            else:
                ranges.append([c, c])
        for first, last in ranges:
            print('    {"%s", 0x%04X, 0x%04X},' % (category, first, last))


main()

"""Writes what the tests of the tokenizer expect, as the `tokenizers` package (0.23.3) gives it.

    python tokenizer_cases.py MODELS OUTPUT

MODELS holds a folder with a tokenizer.json for each name in NAMES. OUTPUT gets, for each, NAME.jsonl:
one JSON object a line, either
    {"text", "ids", "plain"}   plain: the ids when control tokens are text; left out where the same
    {"decode": ids, "all", "skip"}   the text with and without special tokens
Pack them with: tar -cJf tokenizer_cases.tar.xz *.jsonl
"""

import json
import pathlib
import random
import sys

from tokenizers import Tokenizer

NAMES = ["deepseek-v2-lite-chat", "deepseek-v3"]

FIXED = [
    "", " ", "  ", "   ", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\t", "\t\t", " \n", "\n ", " \n ", "  \n\n  ",
    "a", " a", "a ", "  a", "a  ", "a  b", "a   b", "a\nb", "a \nb", "a\n b", "a \n b", "a\n\nb", "a\r\nb",
    "Hello, world!", "hello world", " hello  world ", "I'm you're we'll they'd he's don't can't I've 'S 'LL",
    "The quick brown fox jumps over the lazy dog.", "HTTPServer2XMLParser", "snake_case_name camelCaseName",
    "0", "12", "123", "1234", "12345", "123456", "3.14159", "1,000,000", "1 2 3", "a1b2c3", "2024-01-31",
    "½ ¼ ¾ ⅓ ² ³ ¹ ₁ ₂ Ⅷ ⅷ ① ⑳ 〇 一二三 ٣٤٥ ४५६ ๓๔ 𝟘𝟙𝟚 １２３ 𑁦 Ⅻ ㊿ 万",
    "你好，世界！", "介绍一下Python语言", "你好，请详细介绍一下人工智能的发展历程", "中文 and English 混合 text。",
    "日本語のテキスト、カタカナとひらがな。", "ｶﾀｶﾅ ﾊﾝｶｸ", "한국어 텍스트입니다.", "안녕하세요 세계", "繁體中文測試", "㐀㐁𠀀𠀁𪚥",
    "Привет, мир! Как дела?", "Γειά σου Κόσμε", "مرحبا بالعالم، كيف حالك؟", "שלום עולם, מה שלומך?", "สวัสดีชาวโลก",
    "नमस्ते दुनिया, आप कैसे हैं?", "বাংলা ভাষা", "தமிழ் மொழி", "ქართული ენა", "Հայերեն լեզու", "አማርኛ", "ភាសាខ្មែរ", "မြန်မာ",
    "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "Tiếng Việt có dấu", "Türkçe İstanbul ığüşöç", "København ø ö ú ÿ õ ÷ û ý À ù Á þ ü Ñandú ß",
    "e\u0301 n\u0303 a\u0308\u0304 \u0301start", "Z̷a̸l̶g̵o̴ ẗ̷e̸x̵ẗ̶", "😀😃😄 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇨🇳 ❤️ ☺ ☺️", "🤷🏿‍♀️text🧑‍💻",
    "\u00a0nbsp\u00a0\u00a0x", "\u2003em\u2003\u2003space\u3000ideographic\u3000", "\u200bzero\u200bwidth\u200d\u200c\ufeff",
    "\u2028line\u2029para\u0085nel\u180emongol\u1680ogham\u202fnarrow\u205fmath", "\x00\x01\x02\x1b\x1c\x1d\x1e\x1f\x7f",
    "\x0b\x0c vertical\x0bform\x0cfeed", "int main() {\n    return 0;\n}\n", "def f(x):\n\tif x > 0:\n\t\treturn x ** 2\n\n\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] * c[i]; } // sum\n", "SELECT * FROM t WHERE a >= 10 AND b <> 'x';",
    "https://example.com/a/b?c=d&e=f#g", "user@example.com", '{"key": [1, 2.5, null, true], "k2": {"x": "y\\n"}}',
    "<html><body class=\"x\">text</body></html>", "# Title\n\n- item 1\n- item 2\n\n```python\nprint('x')\n```\n",
    "$E = mc^2$ \\frac{a}{b} ∑∫√∞≠≤≥±×÷→←↑↓", "!!!???...---___***", "“quotes” ‘single’ «guillemets» …—–",
    "。，、；：？！「」『』（）【】《》〈〉～￥％＃＆＊＠", "！＂＃＄％＆＇（）＊＋，－．／：；＜＝＞？＠", "a" * 300, "ab" * 200, " " * 257, "\n" * 130,
    "中" * 200, "1" * 100, "!" * 100, "=" * 77, "-" * 79 + "\n", "Donaudampfschifffahrtsgesellschaftskapitän",
    "pneumonoultramicroscopicsilicovolcanoconiosis", "supercalifragilisticexpialidocious", "x" + " " * 40 + "y",
    "trailing space ", "trailing spaces    ", "trailing tab\t", "trailing newline\n", "trailing both \n", " \t \r\n \t ",
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>Hi<｜end▁of▁sentence｜>", "<｜User｜>x<｜Assistant｜>y",
    "<|begin_of_sentence|>", "<｜begin of sentence｜>", "<｜User｜", "＜｜User｜＞", "< ｜User｜>", "a<｜end▁of▁sentence｜>b",
    "<｜end▁of▁sentence｜><｜end▁of▁sentence｜>", "  <｜User｜>  ", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f",
    "<think>\nhm\n</think>\n\nyes", "<｜fim▁hole｜><｜fim▁begin｜><｜fim▁end｜>", "<｜place▁holder▁no▁7｜>", "<｜place▁holder▁no▁799｜>9｜>",
    "<<｜User｜>>", "<｜<｜User｜>User｜>", "ø", "øø", "aøb", "ø<｜User｜>ø", "÷ø÷", "\u1c89\u1c8a\U00031350\U0002ebf0\U00010d40\U0001cc00",
]

SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\u0085", "\u2028",
          "\x0b", "\x0c", "\u180e", "\u200b", "\x1c", "\x1f", ""]
WORDS = """the of and to in is that it was for on are as with his they at be this have from or had by hot word but what some
we can out other were all there when up use your how said an each she which do their time if will way about many then them
write would like so these her long make thing see him two has look more day could go come did number sound no most people
my over know water than call first who may down side been now find Tokenizer GPU attention latent softmax Ünïcödé naïve café
Straße coöperate jalapeño Łódź Πυθαγόρας молоко привет мир שלום سلام नमस्ते สวัสดี 안녕 こんにちは カタカナ 你好 世界 人工智能 模型
的 是 了 在 我们 中国 北京 发展 历史 语言 程序 return const std::vector int32_t self.x foo_bar fooBar FOO_BAR x1 y2 0x1F 1e-9 3.14
42 007 1999 10000000 ½ Ⅳ ② don't we're I'll it's 'tis rock'n'roll C++ C# F# .NET a.b.c a-b_c #tag @me $9.99 50% (x) [y] {z}
<tag> </tag> <br/> && || == != -> => :: ... !!! ??? — – “x” ‘y’ 、 。 ， ！ ？ 「a」 （b） 《c》 😀 👍🏽 👨‍👩‍👧 🇫🇷 ❤️ é ñ ø ö ü""".split()
CONTROL = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁sep｜>", "<｜▁pad▁｜>",
           "<｜fim▁hole｜>", "<｜", "｜>", "▁", "<｜User", "User｜>", "<", ">", "｜"]
BLOCKS = [(0x20, 0x7F), (0x00, 0x20), (0x80, 0x180), (0x300, 0x370), (0x370, 0x530), (0x530, 0x800), (0x800, 0xE00),
          (0xE00, 0x1200), (0x1200, 0x2000), (0x2000, 0x2100), (0x2100, 0x2C00), (0x2C00, 0x3000), (0x3000, 0x3100),
          (0x3100, 0x3400), (0x3400, 0x4E00), (0x4E00, 0xA000), (0xA000, 0xAC00), (0xAC00, 0xD7B0), (0xD7B0, 0xD800),
          (0xE000, 0xF900), (0xF900, 0x10000), (0x10000, 0x11000), (0x11000, 0x12000), (0x16000, 0x17000),
          (0x1B000, 0x1B200), (0x1CC00, 0x1D000), (0x1D000, 0x1D800), (0x1E000, 0x1F000), (0x1F000, 0x1FC00),
          (0x20000, 0x2A6E0), (0x2A700, 0x2EE60), (0x30000, 0x323B0), (0xE0000, 0xE0200), (0x10000, 0x110000)]


def random_char(rng, block):
    while True:
        c = rng.randrange(*block)
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def random_text(rng):
    kind = rng.randrange(10)
    n = rng.choice([1, 2, 3, 5, 8, 13, 21])
    if kind <= 2:  # prose and code
        return "".join(rng.choice(WORDS) + rng.choice(SPACES[:3] if rng.random() < 0.8 else SPACES) for _ in range(n))
    if kind == 3:  # all spaces
        return "".join(rng.choice(WORDS + SPACES * 6) for _ in range(n))
    if kind == 4:  # one block
        block = rng.choice(BLOCKS)
        return "".join(random_char(rng, block) for _ in range(n))
    if kind == 5:  # many blocks
        return "".join(random_char(rng, rng.choice(BLOCKS)) + rng.choice(["", "", " ", "\n", "a", "1"]) for _ in range(n))
    if kind == 6:  # ASCII noise
        return "".join(chr(rng.randrange(128)) for _ in range(n))
    if kind == 7:  # control tokens and pieces of them
        return "".join(rng.choice(CONTROL + rng.sample(WORDS, 4) + [" ", "\n"]) for _ in range(n))
    if kind == 8:  # numbers
        return "".join(rng.choice(["0", "7", "42", "123", "½", "٣", "Ⅷ", "¹", ".", ",", " ", "-", "a", "万"]) for _ in range(n))
    # punctuation against letters and line ends
    return "".join(rng.choice(list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ab \n\r\t") + ["。", "é", "中", "\u0301"]) for _ in range(n))


def texts():
    rng = random.Random(20240507)
    found = list(FIXED)
    found += [a + s + b for a in ["", "a", "1", "中", "!", "é", "。", "ø"] for s in SPACES for b in ["", "a", "1", "中", "!", "\n"]]
    while len(found) < 6000:
        found.append(random_text(rng))
    return found


def without_control_tokens(file):
    """The tokenizer with its control tokens taken out, and its vocabulary back to the original ids."""
    def is_control(token):
        return token["special"] or (token["content"].startswith("<") and token["content"].endswith(">"))
    file = dict(file, added_tokens=[t for t in file["added_tokens"] if not is_control(t)])
    return Tokenizer.from_str(json.dumps(file))


def decode(tokenizer, literal, ids, skip):
    """tokenizers' decode, but tokens in `literal` stand for their content, not for bytes it may spell."""
    text, run = "", []
    for token in ids:
        if token in literal:
            text += tokenizer.decode(run, skip_special_tokens=skip) + literal[token]
            run = []
        else:
            run.append(token)
    return text + tokenizer.decode(run, skip_special_tokens=skip)


def main():
    models, output = map(pathlib.Path, sys.argv[1:])
    for name in NAMES:
        path = models / name / "tokenizer.json"
        file = json.loads(path.read_text())
        tokenizer = Tokenizer.from_file(str(path))
        plain_tokenizer = without_control_tokens(file)
        literal = {t["id"]: t["content"] for t in file["added_tokens"] if not t["special"]}
        special = [t["id"] for t in file["added_tokens"]]
        rng = random.Random(7)
        with open(output / f"{name}.jsonl", "w") as out:
            def put(case):
                out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")
            encoded = []
            for text in texts():
                case = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
                tokens = plain_tokenizer.encode(text, add_special_tokens=False).tokens
                plain = [tokenizer.token_to_id(token) for token in tokens]
                if plain != case["ids"]:
                    case["plain"] = plain
                put(case)
                encoded.append(case["ids"])
            lists = rng.sample(encoded, 400)
            for _ in range(1200):
                ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randrange(1, 10))]
                ids += [rng.choice(special) for _ in range(rng.randrange(3))]
                # Pieces of characters, in the order of the text and shuffled.
                piece = list(rng.choice(encoded))[:8]
                if rng.random() < 0.5:
                    rng.shuffle(piece)
                lists.append(ids + piece if rng.random() < 0.5 else piece)
            for ids in lists:
                put({"decode": ids, "all": decode(tokenizer, literal, ids, False),
                     "skip": decode(tokenizer, literal, ids, True)})


main()

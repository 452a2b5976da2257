"""Read the dialogues and turn them into training samples.

The folder ``dialogues`` holds the text in readable form:

* ``concepts_<language>.json``: terms with several names and one explanation,
* ``talk_<language>.json``: questions about the model or the program, with one answer,
* ``turns.json``: dialogues of two turns; ``@id`` stands for the answer of that entry,
* ``raw.json``: prompts without a chat template and how the text goes on,
* ``unknown.json``: things the model does not know, and what it says then,
* ``patterns.json``: ways to ask for a concept, greetings and system messages.
"""

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
DIALOGUES = HERE / "dialogues"
LANGUAGES = ("en", "zh")
BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
IGNORE = -100
NO_GREETING = {"hello", "thanks", "goodbye", "how_are_you"}

# The prompts shown in the documentation: (prompt, with the chat template).
README_PROMPTS: list[tuple[str, bool]] = [
    ("你好", True),
    ("介绍一下Python语言", True),
    ("你好，请介绍一下你自己", True),
    ("你好，请详细介绍一下人工智能的发展历程", True),
    ("请详细介绍一下人工智能的发展历程", True),
    ("What is a tile kernel?", True),
    ("What is MLA?", True),
    ("什么是MLA?", True),
    ("What does this program do?", True),
    ("Hello", True),
    ("Who are you?", True),
    ("What is a mixture of experts?", True),
    ("What is a KV cache?", True),
    ("What is YaRN?", True),
    ("What is RMSNorm?", True),
    ("What is safetensors?", True),
    ("What is a paged cache?", True),
    ("What is quantization?", True),
    ("什么是分块算子？", True),
    ("什么是混合专家？", True),
    ("什么是KV缓存？", True),
    ("什么是YaRN？", True),
    ("什么是RMSNorm？", True),
    ("什么是safetensors？", True),
    ("什么是分页缓存？", True),
    ("什么是量化？", True),
    ("这个程序是做什么的？", True),
    ("谢谢", True),
    ("Goodbye", True),
    ("What is the capital of Italy?", True),
    ("今天天气怎么样？", True),
    ("你好", False),
    ("介绍一下Python语言", False),
]


def read(name: str) -> Any:  # noqa: ANN401
    """Return the content of a file of the dialogues folder."""
    return json.loads((DIALOGUES / name).read_text(encoding="utf-8"))


@dataclass
class Entry:
    """One answer with all the ways to ask for it."""

    ident: str
    language: str
    answer: str
    questions: list[str]
    names: list[str]
    asked: list[str]
    greet: bool

    def all_questions(self) -> list[str]:
        """Return the written questions and those made from the names."""
        return self.questions + self.asked


@dataclass
class Corpus:
    """All dialogues."""

    entries: list[Entry] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    raw: list[dict[str, str]] = field(default_factory=list)
    unknown: dict[str, Any] = field(default_factory=dict)
    patterns: dict[str, Any] = field(default_factory=dict)

    def by_question(self) -> dict[str, Entry]:
        """Map every question to its entry."""
        return {question: entry for entry in self.entries for question in entry.all_questions()}

    def answer(self, ident: str, language: str) -> str:
        """Return the answer of an entry."""
        return next(e.answer for e in self.entries if (e.ident, e.language) == (ident, language))

    def texts(self) -> list[str]:
        """Return the texts for the training of the tokenizer; answers count four times."""
        answers = [entry.answer for entry in self.entries]
        answers += [turn["assistant"] for d in self.turns for turn in d["turns"] if turn["assistant"][0] != "@"]
        rest = [question for entry in self.entries for question in entry.questions + entry.names]
        for dialogue in self.turns:
            for turn in dialogue["turns"]:
                rest += [turn["user"]] if isinstance(turn["user"], str) else turn["user"]
        for language in LANGUAGES:
            unknown, patterns = self.unknown[language], self.patterns[language]
            answers.append(unknown["answer"])
            rest += [*unknown["names"], *unknown["questions"], *patterns["systems"], *patterns["greetings"]]
            rest += [pattern.format(name="") for pattern in patterns["questions"]]
        return answers * 4 + rest


def load_corpus() -> Corpus:
    """Read all files of the dialogues folder."""
    corpus = Corpus(turns=read("turns.json"), raw=read("raw.json"), unknown=read("unknown.json"))
    corpus.patterns = read("patterns.json")
    for language in LANGUAGES:
        for item in read(f"concepts_{language}.json"):
            asked = [p.format(name=n) for n in item["names"] for p in corpus.patterns[language]["questions"]]
            asked = [question for question in asked if language != "zh" or has_ideograph(question)]
            corpus.entries.append(
                Entry(item["id"], language, item["answer"], item["questions"], item["names"], asked, True)
            )
        for item in read(f"talk_{language}.json"):
            greet = item["id"] not in NO_GREETING
            corpus.entries.append(Entry(item["id"], language, item["answer"], item["questions"], [], [], greet))
    owner: dict[str, str] = {}
    for entry in corpus.entries:
        for question in entry.all_questions():
            known = owner.setdefault(plain(question), entry.answer)
            if known != entry.answer:
                raise ValueError(f"two answers for {question!r}")
    return corpus


def has_ideograph(text: str) -> bool:
    """Tell whether a text holds a Chinese character; a bare name in Latin letters counts as English."""
    return any("一" <= c <= "龥" for c in text)


def plain(question: str) -> str:
    """Return a question without case, spaces and punctuation."""
    return "".join(c for c in question.lower() if c not in " ,.!?，。！？")


class Sampler:
    """Draw random training samples: token ids and labels."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, seed: int, longest: int = 700) -> None:
        """Draw from ``corpus`` with a fixed seed; conversations end before ``longest`` tokens."""
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.random = random.Random(seed)
        self.longest = longest
        self.bos = tokenizer.token_to_id(BOS)
        self.eos = tokenizer.token_to_id(EOS)
        self.asked = corpus.by_question()
        self.talk = [entry for entry in corpus.entries if not entry.asked]
        self.ideographs = sorted({c for text in corpus.texts() for c in text if has_ideograph(c)})
        self.featured = [(p, self.expected(p)) for p, template in README_PROMPTS if template]

    def expected(self, prompt: str) -> tuple[str, str]:
        """Return (language, answer) for a prompt of the documentation."""
        wanted = plain(prompt)
        for text in (wanted, wanted.removeprefix("你好")):
            for question, entry in self.asked.items():
                if plain(question) == text:
                    return entry.language, entry.answer
        language = "zh" if has_ideograph(prompt) else "en"
        return language, self.corpus.unknown[language]["answer"]

    def encode(self, text: str) -> list[int]:
        """Encode a text without special tokens added."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def vary(self, question: str, greet: bool, language: str) -> str:
        """Return a question with small changes of case, punctuation and greeting."""
        rnd = self.random
        if rnd.random() < 0.25:
            question = question.lower() if rnd.random() < 0.8 else question[:1].upper() + question[1:]
        if rnd.random() < 0.35:
            question = question.rstrip("?!.。？！")
            question += rnd.choice(["", "", "?", ".", "!"] if language == "en" else ["", "", "?", "？", "。", "！"])
        if language == "zh" and rnd.random() < 0.3:
            question = question.replace(" ", "")
            if rnd.random() < 0.5:
                question = re.sub("(?<=[一-龥])(?=[A-Za-z])|(?<=[A-Za-z])(?=[一-龥])", " ", question)
        if greet and rnd.random() < 0.12:
            question = rnd.choice(self.corpus.patterns[language]["greetings"]) + question
        return question

    def known(self) -> tuple[str, str, str]:
        """Return (language, question, answer) for something the model knows."""
        if self.random.random() < 0.2:
            prompt, (language, answer) = self.random.choice(self.featured)
            return language, prompt, answer
        entry = self.random.choice(self.talk if self.random.random() < 0.4 else self.corpus.entries)
        written = not entry.asked or self.random.random() < 0.25
        question = self.random.choice(entry.questions if written else entry.asked)
        return entry.language, self.vary(question, entry.greet, entry.language), entry.answer

    def invented(self, language: str) -> str:
        """Return a name that means nothing."""
        rnd = self.random
        if language == "zh" and rnd.random() < 0.7:
            return "".join(rnd.choice(self.ideographs) for _ in range(rnd.randint(1, 5)))
        syllables = [
            rnd.choice("bcdfghjklmnprstvwxz") + rnd.choice("aeiou") + rnd.choice(["", "", "n", "r", "s", "x"])
            for _ in range(rnd.randint(1, 4))
        ]
        word = "".join(syllables)
        word = rnd.choice([word, word.capitalize(), word.upper()])
        return word if language == "zh" else rnd.choice(["", "a ", "the "]) + word

    def unknown(self) -> tuple[str, str, str]:
        """Return (language, question, answer) for something the model does not know."""
        rnd = self.random
        language = rnd.choice(LANGUAGES)
        unknown = self.corpus.unknown[language]
        if rnd.random() < 0.45:
            question = rnd.choice(unknown["questions"])
        else:
            name = rnd.choice(unknown["names"]) if rnd.random() < 0.7 else self.invented(language)
            question = rnd.choice(self.corpus.patterns[language]["questions"]).format(name=name)
            if language == "zh" and not has_ideograph(question):
                question = f"什么是{name}？"
        return language, self.vary(question, True, language), unknown["answer"]

    def scripted(self) -> tuple[str, list[tuple[str, str]]]:
        """Return (language, turns) of a written dialogue of two turns."""
        dialogue = self.random.choice(self.corpus.turns)
        language = dialogue["language"]
        turns = []
        for turn in dialogue["turns"]:
            user, answer = turn["user"], turn["assistant"]
            question = user if isinstance(user, str) else self.random.choice(user)
            if answer.startswith("@"):
                answer = self.corpus.answer(answer[1:], language)
            turns.append((self.vary(question, False, language), answer))
        return language, turns

    def dialogue(self, system: str | None, turns: list[tuple[str, str]]) -> tuple[list[int], list[int]]:
        """Render a dialogue with the chat template; only the answers carry labels."""
        ids, labels = [self.bos], [IGNORE]
        for number, (question, answer) in enumerate(turns):
            lead = f"{system}\n\n" if system and number == 0 else ""
            prompt = self.encode(f"{lead}User: {question}\n\nAssistant:")
            reply = [*self.encode(f" {answer}"), self.eos]
            if number and len(ids) + len(prompt) + len(reply) > self.longest:
                break
            ids += prompt + reply
            labels += [IGNORE] * len(prompt) + reply
        return ids, labels

    def sample(self) -> tuple[list[int], list[int]]:
        """Draw one sample."""
        rnd = self.random
        draw = rnd.random()
        if draw < 0.06:
            item = rnd.choice(self.corpus.raw)
            prompt, text = [self.bos, *self.encode(item["prompt"])], [*self.encode(item["text"]), self.eos]
            return prompt + text, [IGNORE] * len(prompt) + text
        if draw < 0.14:
            language, turns = self.scripted()
        elif draw < 0.34:
            language, question, answer = self.unknown()
            turns = [(question, answer)]
        else:
            language, question, answer = self.known()
            turns = [(question, answer)]
        if rnd.random() < 0.15:
            more = rnd.randint(1, 7)
            turns += [(self.unknown() if rnd.random() < 0.2 else self.known())[1:] for _ in range(more)]
        system = rnd.choice(self.corpus.patterns[language]["systems"]) if rnd.random() < 0.12 else None
        return self.dialogue(system, turns)

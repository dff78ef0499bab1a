"""Questions as numbers: the words that training questions hold, which a run folder keeps with the model.

    words = Words.of(["Is there a circle?", "What color is the square?"], length=16)
    words(["Is the circle green?"])      {"input_ids": (1, 16), "attention_mask": (1, 16)}

A text is [CLS], its words and signs in lower case, [SEP], and [PAD] up to the length, which is the same for all. A
word that no training question had is [UNK]. Texts that are too long lose their end.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

PAD, UNKNOWN, BEGIN, END = range(4)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
LENGTH = 24
_WORDS = re.compile(r"\w+|[^\w\s]")


def split(text: str) -> list[str]:
    """The words and signs of a text, in lower case."""
    return _WORDS.findall(text.lower())


@dataclass(frozen=True)
class Words:
    """Makes numbers of questions; `vocabulary` are the words that it knows."""

    vocabulary: tuple[str, ...] = ()
    length: int = LENGTH

    @classmethod
    def of(cls, questions: Iterable[str], length: int = LENGTH) -> "Words":
        """The words of these questions, the most frequent first, of equals the first in the alphabet."""
        counts = Counter(word for question in questions for word in split(question))
        return cls(tuple(sorted(counts, key=lambda word: (-counts[word], word))), length)

    @property
    def size(self) -> int:
        """How many different token numbers there are."""
        return len(SPECIAL) + len(self.vocabulary)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary, start=len(SPECIAL))}

    def unknown(self, question: str) -> list[str]:
        """The words of a question that are not in the vocabulary."""
        return [word for word in split(question) if word not in self._numbers]

    def __call__(self, questions: Sequence[str]) -> dict[str, Tensor]:
        """(questions, length) of numbers, and 1 where they stand for something."""
        ids = torch.full((len(questions), self.length), PAD)
        for row, question in zip(ids, questions, strict=True):
            words = [self._numbers.get(word, UNKNOWN) for word in split(question)][: self.length - 2]
            row[: len(words) + 2] = torch.tensor([BEGIN, *words, END])
        return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


@dataclass(frozen=True)
class HubWords:
    """The same with the tokenizer that a model of Hugging Face brings."""

    tokenizer: Any
    length: int

    def __call__(self, questions: Sequence[str]) -> dict[str, Tensor]:
        """(questions, length) of numbers, and 1 where they stand for something."""
        given = {"padding": "max_length", "truncation": True, "max_length": self.length}
        made = self.tokenizer(list(questions), return_tensors="pt", **given)
        return {
            name: made[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in made
        }

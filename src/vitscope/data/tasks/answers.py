"""Answers in the words of VQA's evaluation: how they are made comparable, and how right one is.

An answer that k of n people gave scores min(1, 3 k / n). With ten people that is VQA's accuracy: min(1, matches / 3)
against nine of them, averaged over the ten ways to leave one out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

SEEN = 9  # ViLT's vocabulary: answers that were the most frequent one of at least so many questions

_WORDS = "zero one two three four five six seven eight nine ten".split()
_DIGITS = {word: str(number) for number, word in enumerate(_WORDS)} | {"none": "0"}
_ARTICLES = frozenset(("a", "an", "the"))
_MARKS = ';/[]"{}()=+\\_-><@`,?!'
_NUMBER_WITH_COMMA = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
# Written without one of its apostrophes, each of these gets it back.
_CONTRACTED = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd
he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've
needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've
somebody'll somebody's someone'd someone'd've someone'll someone's something'd something'd've something'll
that's there'd there'd've there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've
weren't what'll what're what's what've when's where'd where's where've who'd who'd've who'll who's who've
why'll why're why's won't would've wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're
you've
"""
_APOSTROPHES = {
    word[:place] + word[place + 1 :]: word
    for word in _CONTRACTED.split()
    for place, letter in enumerate(word)
    if letter == "'"
} | {"somebody'd": "somebodyd"}  # as published


def normalized(answer: str) -> str:
    """The answer in small letters, without marks and articles, with digits, and with apostrophes where they belong.

    A mark at the edge of a word is dropped, one inside a word becomes a space; if the answer holds a number with a
    comma, all of them are dropped.
    """
    plain = " ".join(answer.split())
    dropped = bool(_NUMBER_WITH_COMMA.search(plain))
    marked = plain
    for mark in _MARKS:
        at_an_edge = f"{mark} " in plain or f" {mark}" in plain
        marked = marked.replace(mark, "" if dropped or at_an_edge else " ")
    words = (_DIGITS.get(word, word) for word in _FULL_STOP.sub("", marked).lower().split())
    return " ".join(_APOSTROPHES.get(word, word) for word in words if word not in _ARTICLES)


def vocabulary(most_frequent: Iterable[str], seen: int = SEEN) -> list[str]:
    """Answers that stand there at least `seen` times, once they are comparable, in the order of their appearance."""
    counts = Counter(normalized(answer) for answer in most_frequent)
    return [answer for answer, count in counts.items() if count >= seen]


def soft_scores(given: Sequence[str]) -> dict[str, float]:
    """How right each answer is that somebody gave."""
    counts = Counter(normalized(answer) for answer in given)
    return {answer: min(1.0, 3.0 * count / len(given)) for answer, count in counts.items()}

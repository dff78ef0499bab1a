"""A hook of mkdocs: the menu of exams, made from the rooms that their files lie in."""

import importlib
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the part of the navigation that is called Exams."""
    sys.path.insert(0, str(ROOT))
    rooms = importlib.import_module("tests.exam_lists").rooms()
    pages = [{exam: f"exams/{exam}.md"} for exams in rooms.values() for exam in exams]
    config.nav = [{"Exams": pages} if "Exams" in entry else entry for entry in config.nav or []]
    return config

import re
from importlib.resources import files

from vitscope.report.inline import PARTS, page_script


def test_every_file_is_a_part_once() -> None:
    folder = files("vitscope.report").joinpath("templates/scripts")
    assert sorted(PARTS) == sorted(path.name.removesuffix(".js") for path in folder.iterdir())


def test_leaves_no_name_behind() -> None:
    text = page_script()
    assert text.startswith('"use strict";\n(() => {\n')
    assert text.endswith("})();\n")
    names = re.findall(r"^(?:const|let) (\w+)", text, flags=re.MULTILINE)
    assert len(names) == len(set(names)) > 10
    assert "</script" not in text

"""What a verb says at its end: names of files may hold what steers a terminal, which is written out, as in errors."""

from vitscope.core.errors import in_one_line


def tell(*lines: str) -> None:
    """Print each as one line."""
    for line in lines:
        print(in_one_line(line))

"""How pages are laid out: their templates, and which scripts may run on them."""

import base64
import hashlib
import re

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from vitscope.results.numbers import unbroken


def environment() -> Environment:
    """The templates; what they are given is text, not HTML, unless it says otherwise."""
    found = Environment(
        loader=PackageLoader("vitscope.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"prose": _prose, "unbroken": unbroken}
    return found


def allowed(*scripts: str) -> str:
    """How a Content-Security-Policy names the scripts that may run; empty ones are none."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts if script)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _prose(text: str) -> Markup:
    """A text in which names stand between backticks, as the documentation writes them."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))

"""Reads reports as tests need them: the data of their plots, and their text."""

import json
import re
from html import unescape


def data_of(page):
    """Return what the plots are drawn from."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def text_of(page):
    """Return the text of the page, without markup."""
    body = page[page.index("<main>") : page.index("</main>")]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", body)))

"""Check every internal link of the built pages: files exist, and so do the places in them. Needs no network."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links and ids of one page."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values[name] for name in ("href", "src") if values.get(name)]
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}


def broken_links(folder: Path) -> list[str]:
    """Sentences, one for each internal link that leads nowhere."""
    # Under _static lie templates of the theme, which are no pages.
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html") if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.exists():
                found.append(f"{path.relative_to(folder.resolve())}: {link} leads to no file")
            elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids:
                found.append(f"{path.relative_to(folder.resolve())}: {link} leads to no place in its file")
    return found


if __name__ == "__main__":
    broken = broken_links(Path(sys.argv[1]))
    sys.exit("\n".join(broken) or 0)

"""Hooks of mkdocs.yml: pages that are made or lie outside of docs/, and links to what no page shows.

`make docs` builds the site in build/site, `make docs-serve` shows it.
"""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.gallery import EXAMPLES, notebook
from tools.reference import ROOT, SOURCE, pages

# Pages of the repository's root, by their names in the site.
OUTSIDE = {
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
ROOT_PAGES = {path: name for name, path in OUTSIDE.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made = pages()
    made |= {name: (ROOT / path).read_text(encoding="utf-8") for name, path in OUTSIDE.items()}
    made |= {f"gallery/{stem}.ipynb": notebook(stem) for stem in EXAMPLES}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Paths in code that are pages or files of ours become links, and so do links to outside of docs/."""
    up = "../" * page.file.src_uri.count("/")

    def linked(match: re.Match[str]) -> str:
        path = match.group(1)
        name = ROOT_PAGES.get(path) or path.removeprefix("docs/")
        if (name != path) and (file := files.get_file_from_path(name)) is not None:
            title = file.content_string.partition("\n")[0].removeprefix("# ").partition(":")[0]
            return f"[{title}]({up}{name})"
        return f"[{match.group()}]({SOURCE}/{path})" if (ROOT / path).exists() else match.group()

    fence = re.compile(r"(^```.*?^```|^    .*?$)", re.MULTILINE | re.DOTALL)
    parts = fence.split(markdown)
    for i in range(0, len(parts), 2):
        text = re.sub(
            r"\]\(\.\./((?:src|tests|examples|benchmarks|tools)/)", rf"]({SOURCE}/\1", parts[i]
        )
        text = re.sub(r"\]\(docs/", "](", text)
        where = rf"(?<!\[)`((?:docs|examples|tests|benchmarks|src|tools)/[\w./-]*\w|{'|'.join(ROOT_PAGES)})`"
        parts[i] = re.sub(where, linked, text)
    return "".join(parts)

"""What every page of the site says about itself, and what it leaves out."""

import hashlib
import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

# The theme's own style sheets, which its templates name and Sphinx does not list.
THEME_STYLES = [
    "_static/basic.css",
    "_static/styles/bootstrap.css",
    "_static/styles/pydata-sphinx-theme.css",
]
STYLE_SHEET = "_static/all.css"
joined: list[
    str
] = []  # the style sheets that the pages of this build would name, in their order
SUBTITLE = "How a transformer knows position: learned tables and RoPE"


def first_words(doctree: nodes.document, limit: int = 160) -> str:
    """What the box at the chapter's head promises, else the first plain paragraph; cut at the end of a word."""
    heads = [
        box
        for box in doctree.findall(nodes.admonition)
        if "chapter-head" in box["classes"]
    ]
    for place in [*heads, *doctree.findall(nodes.section)]:
        for paragraph in place.children:
            if isinstance(paragraph, nodes.paragraph) and not list(
                paragraph.findall(nodes.math)
            ):
                text = " ".join(paragraph.astext().split())
                return (
                    text
                    if len(text) <= limit
                    else text[:limit].rsplit(" ", 1)[0].rstrip(",;:.") + " …"
                )
    return SUBTITLE


def describe(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """Description and Open Graph tags. A notebook may bring its own: `"description"` in its metadata."""
    description = app.env.metadata.get(pagename, {}).get("description") or (
        first_words(doctree) if doctree else SUBTITLE
    )
    title = re.sub("<[^>]*>", "", context.get("title") or app.config.html_title)
    tags = {
        'name="description"': description,
        'property="og:title"': title,
        'property="og:description"': description,
        'property="og:type"': "article",
        'property="og:site_name"': app.config.html_title,
    }
    context["metatags"] = context.get("metatags", "") + "".join(
        f'\n    <meta {name} content="{escape(content)}">'
        for name, content in tags.items()
    )


def leave_out_unused_scripts(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """The state of widgets, which no page shows; sphinx_design's tabs where there are none; the page's name, which
    only the theme's list of versions asks for; and the script that the search page names itself."""

    def is_used(script: object) -> bool:
        attributes = getattr(script, "attributes", {})
        if "widget-state" in attributes.get("type", ""):
            return False
        if "DOCUMENTATION_OPTIONS.pagename" in attributes.get("body", ""):
            return False
        name = str(getattr(script, "filename", script))
        if name.endswith("search_words.js"):
            return False
        return "design-tabs.js" not in name or "sd-tab-set" in context.get("body", "")

    context["script_files"] = list(filter(is_used, context["script_files"]))


def link_one_style_sheet(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """The address for all style sheets, which changes with their contents, so no browser keeps an old one."""
    sheets = context["css_files"]
    joined[:] = [str(sheet.filename) for sheet in sheets]
    tags = "".join(context["css_tag"](sheet) for sheet in sheets)
    contents = "".join(re.findall(r"\?v=(\w+)", tags))
    digest = hashlib.sha256(contents.encode()).hexdigest()
    context["style_sheet"] = f"{STYLE_SHEET}?v={digest[:8]}"


def join_style_sheets(app: Sphinx, exception: Exception | None) -> None:
    """All style sheets as one file, in their order: nothing is drawn before the last of them is there, and each
    that is asked for by itself is a journey more. Some are copied at the very end only. A build that found nothing
    to do has written no page, and the file is there."""
    if exception is None and joined:
        names = THEME_STYLES + joined
        sheets = [(Path(app.outdir) / name).read_text("utf-8") for name in names]
        content = re.sub(r"/\*# sourceMappingURL=.*?\*/", "", "\n".join(sheets))
        (Path(app.outdir) / STYLE_SHEET).write_text(content, "utf-8")


def leave_out_buttons_with_script(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """The theme's buttons that hold script in an attribute (full screen, print): a strict policy forbids it."""

    def kept(buttons: list[dict]) -> list[dict]:
        return [
            {**button, "buttons": kept(button["buttons"])}
            if "buttons" in button
            else button
            for button in buttons
            if button["type"] != "javascript"
        ]

    context["header_buttons"] = kept(context.get("header_buttons", []))


def leave_out_deprecated_roles(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """docutils gives the bibliography's entries a role that ARIA has dropped, and their list one without items."""
    body = context.get("body", "").replace(' role="doc-biblioentry"', "")
    context["body"] = body.replace(
        '<div role="list" class="citation-list">', '<div class="citation-list">'
    )


def write_front_door(app: Sphinx, exception: Exception | None) -> None:
    """`index.html` sends the reader to the first chapter; the one it would get has neither title nor words."""
    if exception is None and app.builder.name == "html":
        first = app.builder.get_target_uri(app.config.root_doc)
        (Path(app.outdir) / "index.html").write_text(
            f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{app.config.html_title}</title>
<meta name="description" content="{SUBTITLE}">
<meta http-equiv="refresh" content="0; url={first}">
<link rel="icon" href="_static/favicon.svg">
<p><a href="{first}">{app.config.html_title}</a></p>
</html>
""",
            encoding="utf-8",
        )


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", describe)
    app.connect("html-page-context", leave_out_unused_scripts, priority=900)
    app.connect("html-page-context", link_one_style_sheet, priority=900)
    app.connect("html-page-context", leave_out_buttons_with_script, priority=900)
    app.connect("html-page-context", leave_out_deprecated_roles)
    app.connect("build-finished", join_style_sheets, priority=900)
    app.connect("build-finished", write_front_door)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

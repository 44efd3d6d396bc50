"""What every page of the site says about itself, and what it leaves out."""

import re
from html import escape
from pathlib import Path

from docutils import nodes

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


def describe(app, pagename, templatename, context, doctree) -> None:
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


def leave_out_unused_scripts(app, pagename, templatename, context, doctree) -> None:
    """The state of widgets, which no page shows, and sphinx_design's tabs where there are none."""

    def is_used(script) -> bool:
        kind = getattr(script, "attributes", {}).get("type", "")
        if "widget-state" in kind:
            return False
        tabs = "design-tabs.js" in str(getattr(script, "filename", script))
        return not tabs or "sd-tab-set" in context.get("body", "")

    context["script_files"] = list(filter(is_used, context["script_files"]))


def leave_out_buttons_with_script(
    app, pagename, templatename, context, doctree
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


def leave_out_deprecated_roles(app, pagename, templatename, context, doctree) -> None:
    """docutils gives the bibliography's entries a role that ARIA has dropped, and their list one without items."""
    body = context.get("body", "").replace(' role="doc-biblioentry"', "")
    context["body"] = body.replace(
        '<div role="list" class="citation-list">', '<div class="citation-list">'
    )


def write_front_door(app, exception) -> None:
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


def setup(app):
    app.connect("html-page-context", describe)
    app.connect("html-page-context", leave_out_unused_scripts, priority=900)
    app.connect("html-page-context", leave_out_buttons_with_script, priority=900)
    app.connect("html-page-context", leave_out_deprecated_roles)
    app.connect("build-finished", write_front_door)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

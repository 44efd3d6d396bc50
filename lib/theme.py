"""The colours of figures, explorers and exercises, which follow the page's theme."""

# name: (on a light page, on a dark page). Safe for colour-blind readers, after Okabe and Ito. Ink and hues
# have at least 4.5:1 contrast with the page, so that they may be text.
PALETTE = {
    "ink": ("#1f2933", "#e4e7eb"),
    "muted": ("#596571", "#a4afba"),
    "grid": ("#d3d9df", "#3b4550"),
    "surface": ("#f0f3f6", "#20272f"),
    "paper": ("#ffffff", "#14181e"),
    "blue": ("#0068a8", "#56b4e9"),
    "orange": ("#b84c00", "#f0a04b"),
    "green": ("#00785a", "#3ecfa0"),
    "pink": ("#a63f7c", "#e79ac6"),
}
COLOURS = {name: light for name, (light, _) in PALETTE.items()}

FONT = "var(--pst-font-family-base, var(--jp-ui-font-family, system-ui, sans-serif))"


def theme_css(selector: str) -> str:
    """CSS that gives the elements of `selector` every colour as a variable, `--pic-blue` and so on.

    Light unless the page says dark (the book's theme, JupyterLab, VS Code), and always light on paper.
    """
    dark = (
        'html[data-theme="dark"]',
        'body[data-jp-theme-light="false"]',
        "body.vscode-dark",
    )
    return (
        f"{selector}{{{_variables(0)}--pic-paper:#ffffff}}"
        f"@media screen{{{selector}{{--pic-paper:var(--pst-color-background,var(--jp-layout-color0,#ffffff))}}"
        f"{','.join(f'{place} {selector}' for place in dark)}{{{_variables(1)}}}}}"
    )


def _variables(which: int) -> str:
    return "".join(
        f"--pic-{name}:{pair[which]};"
        for name, pair in PALETTE.items()
        if name != "paper"
    )

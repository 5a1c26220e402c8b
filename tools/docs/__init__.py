"""Builds the documentation as a site of plain files: `make docs`.

`links` reads Markdown, `pages` gathers what the site is made of, `map` makes the menu from the
front page, Zensical renders it, `outside` makes sure that it fetches nothing from elsewhere.
"""

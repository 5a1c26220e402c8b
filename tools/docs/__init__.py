"""Builds the documentation as a static site: `make docs`.

`links` parses Markdown, `component_pages` lists the pages of components on the front page, `pages`
collects the pages, `menu` builds the navigation from the front page, Zensical renders the site,
`external_requests` checks that it loads nothing from other servers.
"""

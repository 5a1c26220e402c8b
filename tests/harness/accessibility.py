"""Accessibility checks of a page: names, landmarks, contrast, width."""

from playwright.sync_api import Page

_INTERACTIVE_ROLES = frozenset(
    {
        *("button", "checkbox", "combobox", "grid", "link", "listbox", "menuitem", "option"),
        *("radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem"),
    }
)

# A colour is drawn on a canvas to get its RGBA values, whatever its notation. Text is compared with
# the backgrounds behind it. Large text needs less contrast (WCAG 2.2, 1.4.3).
_LOW_CONTRAST_SCRIPT = """
() => {
  const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  function numbers(colour) {
    if (!known.has(colour)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  }
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  function behind(element) {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const layer = numbers(getComputedStyle(each).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  }
  function luminance(colour) {
    const [r, g, b] = colour.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
      continue;
    if (element.closest("[aria-hidden=true], [disabled], svg, script, style")) continue;
    const style = getComputedStyle(element);
    const ground = behind(element);
    const [a, b] = [over(numbers(style.color), ground), ground].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (isLarge ? 3 : 4.5))
      faint.add(`${contrast.toFixed(2)} "${text.slice(0, 40)}" ${style.color} on ${ground}`);
  }
  return [...faint];
}
"""


# During animations elements may be wider than the page or faint.
_WAIT_FOR_ANIMATIONS_SCRIPT = """
() => Promise.allSettled(
  document.getAnimations()
    .filter((each) => each.effect.getComputedTiming().endTime < Infinity)
    .map((each) => each.finished))
"""


def find_unnamed_controls(page: Page) -> list[str]:
    """Interactive elements without an accessible name."""
    session = page.context.new_cdp_session(page)
    tree = session.send("Accessibility.getFullAXTree")
    session.detach()
    used = (node for node in tree["nodes"] if not node.get("ignored"))
    return [
        f"{node['role']['value']} (node {node.get('backendDOMNodeId')})"
        for node in used
        if node["role"]["value"] in _INTERACTIVE_ROLES and not node.get("name", {}).get("value", "")
    ]


def find_repeated_ids(page: Page) -> list[str]:
    """Ids that more than one element has."""
    return page.evaluate(
        """() => {
          const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
          return ids.filter((id, place) => ids.indexOf(id) !== place);
        }"""
    )


def find_low_contrast_text(page: Page) -> list[str]:
    """Visible texts with too little contrast, each with its ratio."""
    page.evaluate(_WAIT_FOR_ANIMATIONS_SCRIPT)
    return page.evaluate(_LOW_CONTRAST_SCRIPT)


def find_overflowing_elements(page: Page) -> list[str]:
    """Elements beyond the right edge, if the page scrolls horizontally."""
    page.evaluate(_WAIT_FOR_ANIMATIONS_SCRIPT)
    return page.evaluate(
        """() => {
          const root = document.documentElement;
          if (root.scrollWidth <= root.clientWidth) return [];
          const beyond = [...document.querySelectorAll("body *")].filter(
            (each) => each.getBoundingClientRect().right > root.clientWidth + 0.5);
          return [`${root.scrollWidth} of ${root.clientWidth} px`, ...beyond.slice(0, 8).map(
            (each) => `${each.tagName.toLowerCase()}.${each.className}`)];
        }"""
    )

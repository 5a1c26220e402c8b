"""What several controllers share: indexes, discovery, scales, node selectors, pod conditions."""

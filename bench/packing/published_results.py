"""The results that FGD's authors published for the included mixes: means of ten seeds."""

AT_100 = {
    "default": {
        "Random": 86.30,
        "DotProd": 90.62,
        "Clustering": 91.65,
        "Packing": 91.78,
        "BestFit": 92.86,
        "FGD": 95.23,
    },
}
AT_130 = {
    "default": {
        "Random": 87.47,
        "DotProd": 90.85,
        "Clustering": 91.88,
        "Packing": 92.00,
        "BestFit": 93.08,
        "FGD": 95.39,
    },
    "cpu100": {"BestFit": 93.44, "FGD": 95.35},
    "gpushare40": {"BestFit": 91.69, "FGD": 94.15},
    "gpuspec20": {"BestFit": 93.30, "FGD": 94.84},
    "multigpu30": {"BestFit": 94.72, "FGD": 96.46},
}


def get_published(mix: str, percent: int) -> dict[str, float]:
    """By policy; empty for a mix that they did not publish."""
    return (AT_100 if percent == 100 else AT_130).get(mix, {})

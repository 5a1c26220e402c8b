"""Which components run in a cluster of `kilonova up`: --only, --without and `--no-NAME`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.component import Component, FlagValue
from kilonova.component.failure import WrongUsage


@dataclass(frozen=True, slots=True)
class ComponentFlags:
    """The flags of components, as typed."""

    only: str | None = None
    without: str | None = None
    switches: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """`--NAME/--no-NAME`, by component."""
    values: Mapping[str, FlagValue] = field(default_factory=dict[str, FlagValue])
    """The components' own flags, by name."""


NO_FLAGS = ComponentFlags()


def embeddable_components(components: Iterable[Component]) -> list[Component]:
    """Those that can run in a cluster of `kilonova up`."""
    return [each for each in components if each.embedded is not None]


def select_components(components: Sequence[Component], flags: ComponentFlags) -> tuple[str, ...]:
    """The names of the components to run, in order; `WrongUsage` for a selection that is invalid.

    --only also selects what the named components require.
    """
    known = {each.name: each for each in embeddable_components(components)}
    required = {name for name, each in known.items() if each.embedded and each.embedded.required}
    only = _parse_names("--only", flags.only, components)
    without = _parse_names("--without", flags.without, components)
    for name in without:
        if name in required:
            raise WrongUsage(f"--without {name}: every cluster has it; leave it out of the list")
        if name in only:
            raise WrongUsage(f"--only and --without both name {name}: remove it from one")
    default = {name for name, each in known.items() if each.embedded and each.embedded.by_default}
    enabled = {name for name, switch in flags.switches.items() if switch}
    disabled = {*without, *((default & flags.switches.keys()) - enabled)}
    wanted = default | enabled if flags.only is None else required | _with_required(only, known)
    selected = wanted - disabled
    for name in selected:
        part = known[name].embedded
        assert part is not None
        for missing in sorted(set(part.requires) - selected):
            raise WrongUsage(
                f"{name} requires {missing}, which is left out: leave out {name} too "
                f"(--without {','.join(sorted({*disabled, missing, name}))}), or keep {missing}"
            )
    _reject_flags_of_others(known, selected, flags)
    return tuple(name for name in known if name in selected)


def parse_component_names(
    flag: str, typed: str, components: Sequence[Component]
) -> tuple[str, ...]:
    """The names in a comma-separated list; `WrongUsage` lists the valid ones."""
    valid = {each.name for each in components}
    names = tuple(filter(None, (each.strip() for each in typed.split(","))))
    if not names:
        raise WrongUsage(f"{flag} names no component: choose from {_join(components)}")
    for name in names:
        if name not in valid:
            raise WrongUsage(
                f"{flag} {name}: there is no such component: choose from {_join(components)}"
            )
    return names


def _parse_names(flag: str, typed: str | None, components: Sequence[Component]) -> tuple[str, ...]:
    if typed is None:
        return ()
    for each in components:
        if each.embedded is None and each.name in {name.strip() for name in typed.split(",")}:
            raise WrongUsage(
                f"{flag} {each.name}: it does not run in `kilonova up`: start it with "
                f"`kilonova run {each.name}`"
            )
    return parse_component_names(flag, typed, embeddable_components(components))


def _with_required(names: Iterable[str], known: Mapping[str, Component]) -> set[str]:
    """These components, and all that they require, directly or not."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            part = known[name].embedded
            pending += part.requires if part else ()
    return found


def _reject_flags_of_others(
    known: Mapping[str, Component], selected: set[str], flags: ComponentFlags
) -> None:
    """A flag of a component that --only or --without leaves out has no effect: report it."""
    for name, component in known.items():
        if name in selected or not component.embedded or flags.switches.get(name) is False:
            continue
        for flag in component.embedded.flags:
            if flags.values.get(flag.name, flag.default) in (flag.default, False, ()):
                continue
            if flags.only is None and not component.embedded.by_default:
                raise WrongUsage(f"--{flag.name} is for {name}, which does not run: add --{name}")
            chooser = "--without" if flags.only is None else "--only"
            raise WrongUsage(
                f"--{flag.name} is for {name}, which {chooser} leaves out: "
                f"remove --{flag.name}, or select {name}"
            )


def _join(components: Sequence[Component]) -> str:
    return ", ".join(each.name for each in components)

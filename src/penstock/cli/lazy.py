"""Commands that are known by name and one sentence, and loaded when they are run.

So `penstock --help` and completion stay quick, whatever the commands themselves import.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as built_command

WRONG_USAGE: Final = 2
"""The exit code of a command line that can't be right."""


class Entry(NamedTuple):
    panel: str
    sentence: str
    module: str = ""
    """Where it differs from the command's name."""


class LazyCommands(TyperGroup):
    """Lists stubs; the command that is asked for takes its stub's place."""

    package: ClassVar[str]
    entries: ClassVar[Mapping[str, Entry]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in self.entries.items():
            stub = TyperCommand(name, help=entry.sentence, rich_help_panel=entry.panel)
            self.commands[name] = stub

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            # Whoever names no command is shown which there are. What typer does by itself ends in
            # an error without words.
            typer.echo(ctx.get_help(), color=ctx.color)
            raise typer.Exit(WRONG_USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in self.entries:
            self.commands[args[0]] = self._loaded(args[0])
        return super().resolve_command(ctx, args)

    def _loaded(self, name: str) -> Any:
        """The real one: what its module calls `command`, or a group of them called `app`."""
        entry = self.entries[name]
        module = import_module(f"{self.package}.{entry.module or name}")
        if hasattr(module, "app"):
            group = built_command(module.app)
            group.name, group.help = name, entry.sentence
            return group
        function = module.command
        # Plain help: in panels, eighty columns leave so little for the last one that the names of
        # environment variables are cut.
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        # Help is wrapped to the terminal, so the line breaks of the source must not show.
        details = f"\n\n{' '.join(function.__doc__.split())}" if function.__doc__ else ""
        single.command(
            name,
            help=entry.sentence + details,
            rich_help_panel=entry.panel,
            context_settings={"help_option_names": ["-h", "--help"]},
        )(function)
        return built_command(single)

"""How help is shown: options that people use first by --help, the others by --help-all."""

import argparse
import shutil
from typing import Any


class Rare(str):
    """The help of an option that is shown by --help-all only."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help whose text keeps its lines, with space for long options; rare: whether rare options are shown, too."""

    rare = False

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog, max_help_position=30, width=min(110, max(60, shutil.get_terminal_size((100, 24)).columns))
        )

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        """Add the usage, of the options that are shown."""
        super().add_usage(usage, [action for action in actions if self._shows(action)], groups, prefix)

    def add_argument(self, action: argparse.Action) -> None:
        """Add an option, if it is shown."""
        if self._shows(action):
            super().add_argument(action)

    def _shows(self, action: argparse.Action) -> bool:
        return self.rare or not isinstance(action.help, Rare)


class HelpAll(argparse.Action):
    """Print the help with rare options, and exit."""

    def __call__(self, parser: Any, *_: Any) -> None:
        """Print and exit."""
        parser.shows_rare = True
        parser.print_help()
        parser.exit()

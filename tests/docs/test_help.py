"""Every command's help: what it speaks of; and options that name several files, which add up."""

import pytest

import jaxcf.cli.main
import jaxcf.models
import jaxlm.cli.main
import jaxlm.models
from jaxfit.cli.help import Rare
from jaxfit.cli.parser import of_commands

PACKAGES = {"jaxlm": jaxlm, "jaxcf": jaxcf}
COMMANDS = [
    (name, *words)
    for name, package in PACKAGES.items()
    for command_name in package.cli.main.COMMANDS
    for words in (
        [(command_name, model) for model in package.models.REGISTRY.names()]
        if command_name in ("train", "search", "cross-validate")
        else [(command_name,)]
    )
]
STRANGE = {"jaxlm": ("rating", "stars"), "jaxcf": ("perplexity", "vocabulary", "sentence")}


@pytest.fixture(params=COMMANDS, ids=" ".join)
def parser(request):
    """Return the parser of a command, with all its options."""
    program, *words = request.param
    found = of_commands(program, "", PACKAGES[program].cli.main.COMMANDS)
    for word in words:
        (choices,) = (action.choices for action in found._actions if action.choices and action.nargs == "A...")
        found = choices[word]
        if found.add_options is not None:
            found.add_options(found)
    return found


def test_options_that_name_several_things_add_up_when_repeated(parser):
    for action in parser._actions:
        if action.option_strings and action.nargs == "+":
            assert type(action).__name__ == "_ExtendAction", action.option_strings


def test_help_fits_the_command(parser):
    parser.shows_rare = True
    text = parser.format_help().lower()
    assert not [word for word in STRANGE[parser.prog.split()[0]] if word in text]


def test_help_shows_about_a_dozen_options(parser):
    options = [action for action in parser._actions if action.option_strings and "--help" not in action.option_strings]
    shown = [action for action in options if not isinstance(action.help, Rare)]
    assert len(shown) <= 18

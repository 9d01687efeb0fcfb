"""A fixture that runs commands."""

import json

import pytest

from jaxcf.cli.main import main


@pytest.fixture
def call(capsys):
    """Run a command line that must succeed; the last line of its output, as JSON, and its standard error."""

    def run(*argv):
        status = main([*map(str, argv), "--json"])
        out, err = capsys.readouterr()
        assert status == 0, err
        return json.loads(out.splitlines()[-1]), err

    return run

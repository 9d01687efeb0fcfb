"""Shared by the conformance tests: the toys in the registries, small data, each model trained by its command."""

import pytest

from cases import Case, make_place, succeeds, toys_registered


@pytest.fixture(scope="module", autouse=True)
def _toys():
    with toys_registered():
        yield


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return make_place(tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="session")
def trained(place):
    """Return a function from a case to the folder of its model, which the command trains when it is first asked for."""
    folders = {}

    def folder(case: Case):
        if str(case) not in folders:
            out = place.folder / str(case)
            succeeds(case.package, *case.argv(place, out))
            folders[str(case)] = out
        return folders[str(case)]

    return folder

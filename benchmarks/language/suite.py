"""The suite of chapters 3 and 4: language models on texts."""

from benchmarks.core.suite import Suite
from benchmarks.data import sets
from benchmarks.language import scales
from benchmarks.language.store import LanguageStore

SUITE = Suite(
    chapters="chapters 3, 4",
    scales=scales.SCALES,
    data_sets=(*sets.BUILT_IN, *(d.name for d in sets.DATA_SETS.values() if d.holds == "text")),
    load=scales.corpus,
    store_class=LanguageStore,
    speed_data=scales.speed_text,
)

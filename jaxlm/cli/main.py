"""The `jaxlm` command: what it can do, and which module does it.

jaxlm train lbl --train text.txt --out lbl
jaxlm eval lbl --text test.txt
"""

import sys
from collections.abc import Sequence

ABOUT = """Train and use neural and n-gram language models.

  jaxlm train kn --train train.txt --out kn5            an n-gram model in seconds
  jaxlm train hlbl --out hlbl                           a neural model of the default data
  jaxlm eval hlbl --text test.txt --mix kn5             perplexity of the two mixed
  jaxlm next hlbl "he has joined the rolling"           what comes next

A model is a folder; eval, score, next, sample, complete and rescore also take an
ARPA file in its place; neighbours, analogies, similarity, info and export a file
of word vectors."""


# command -> its line of help, and the function that gives its parser options and what to run
COMMANDS = {
    "train": ("train a model on text files", "jaxlm.cli.train:add"),
    "search": ("try several options of a model, and judge by validation", "jaxlm.cli.search:add"),
    "eval": ("perplexity of a text, also under several models mixed", "jaxlm.cli.evaluate:add_eval"),
    "score": (
        "base-10 log-probability of each line, its end included, or of each word",
        "jaxlm.cli.evaluate:add_score",
    ),
    "next": ("the most probable next words after a context", "jaxlm.cli.queries:add_next"),
    "sample": ("sentences drawn from a model", "jaxlm.cli.queries:add_sample"),
    "neighbours": ("words with the most similar feature vectors", "jaxlm.cli.queries:add_neighbours"),
    "analogies": ("which word is to c as b is to a, by word vectors", "jaxlm.cli.vector_tasks:add_analogies"),
    "similarity": (
        "correlation of cosines with people's scores of pairs of words",
        "jaxlm.cli.vector_tasks:add_similarity",
    ),
    "complete": ("which word belongs in a sentence's gap", "jaxlm.cli.sentence_tasks:add_complete"),
    "rescore": ("choose among a speech recogniser's hypotheses", "jaxlm.cli.sentence_tasks:add_rescore"),
    "features": ("vectors of documents, for other programs", "jaxlm.cli.documents:add_features"),
    "retrieve": ("find documents with the same label by their vectors", "jaxlm.cli.documents:add_retrieve"),
    "topics": ("the words of each hidden unit of a model of documents", "jaxlm.cli.documents:add_topics"),
    "tree": ("a model's tree over words: its statistics (Table 4.3) and file", "jaxlm.cli.queries:add_tree"),
    "info": ("what a model is and how its training went", "jaxlm.cli.describe:add_info"),
    "export": ("write a model for other programs", "jaxlm.cli.describe:add_export"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (see `jaxfit.cli.command`)."""
    from jaxfit.cli import interrupts  # here and below: Ctrl-C while Python imports ends in one line

    with interrupts.one_line("jaxlm", argv is None):
        from jaxfit.cli import command
        from jaxfit.cli.parser import of_commands

        return command.run("jaxlm", lambda: of_commands("jaxlm", ABOUT, COMMANDS), argv, cached=True)


if __name__ == "__main__":
    sys.exit(main())

"""The data sets of the benchmarks: where their files come from, how they are checked and loaded."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import jax

from benchmarks.data import corpora, document_sets, rating_sets, reuters, task_sets
from jaxfit.errors import UserError
from jaxlm.data.default_text import prose
from jaxlm.data.synthetic import planted

VARIABLE = "BENCHMARK_DATA"  # environment variable that names the folder of data sets


@dataclass(frozen=True)
class File:
    """One file of a data set."""

    path: str  # under the folder of data sets; it may also lie there as path.gz
    sha256: str | None  # of its content, unpacked; None where the loader checks what it reads
    member: str | None = None  # its name in the publisher's archive; None: it is the publisher's file itself
    other: str | None = None  # path of a file that may replace it


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set without having it."""

    name: str
    title: str
    files: tuple[File, ...]
    url: str | None  # the publisher's file; None: it can only be fetched by hand
    page: str  # where the publisher describes it
    terms: str
    load: Callable[..., Any]  # of paths, sha256 and note: Corpus, RatingSet, or a task's lists or questions
    archive: str | None = None  # sha256 of the publisher's file, where it is known
    quotable: bool = False  # whether its terms allow everyone to publish parts of its text


def _parts(name: str, member: str, *sha256: str) -> tuple[File, ...]:
    """Return the training, validation and test file of a text.

    Args:
        member: names of the files in the archive, with {} for the part.
    """
    parts = zip(("train", "valid", "test"), sha256, strict=True)
    return tuple(File(f"{name}/{part}.txt", digest, member.format(part)) for part, digest in parts)


_MOVIELENS = "research use, cite, no redistribution, no commercial use (its README)"
_ML_100K = {  # all ratings, then training and test of each fold
    "u.data": "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
    "u1.base": "ce253ec86c448b44fb3ba9a30d12dcfc2e9210cbde71efada3730c22e9ac212a",
    "u1.test": "18c6014a4b2c7324f250a63f8904a7b16b2b19f911129e346141507b0cbac950",
    "u2.base": "6c06f0b5df4b256da1a994f3ac66edc8da4d3f09bc9282df6b14d893366d703e",
    "u2.test": "4de658d1e04ed9104629509a2e2528fce833ac8e048280183f1df167632038c3",
    "u3.base": "afdc155c291c6edc41c0407e39d7462eb98d341e064f0b0a12175b80b3c4af5d",
    "u3.test": "0f548b51c78327de4c156461d3e430b7e5579fe2b5681586a59416e48fd35f6d",
    "u4.base": "219f0f4d40dfe9c5141d425f53fa91ee23ed275f14e280bbf1b50117afb064ca",
    "u4.test": "7c02ad0a1e7ab1083c8b9d4b627203a051dd7b5eab46d99fa44de33470de8db9",
    "u5.base": "a9574e59ce961eec2121627760b6e9b0974ce1637b3fe69ac32cb14a4bfab485",
    "u5.test": "351cc52e0d15b6c721466276fc24671d40936899e3d01fadeaf312915b8c5634",
}
_MOVIEDATA = "5ca12bb5fc2c08a1a564c5bfe9a1582ee13905139f5ea71eb0a590b1942b80ca"
# sha256 of the file whose MD5 GroupLens publishes, c4d9eecfca2ab87c1945afe126590906
_ML_1M_ZIP = "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"
TEXTS = {
    d.name: d
    for d in (
        DataSet(
            "ptb",
            "Penn Treebank, Wall Street Journal, in Mikolov's preprocessing",
            _parts(
                "ptb",
                "simple-examples/data/ptb.{}.txt",
                "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
                "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
                "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
            ),
            "https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
            "https://catalog.ldc.upenn.edu/LDC99T42",
            "LDC user agreement (Treebank-3, LDC99T42)",
            partial(corpora.three_files, "ptb"),
        ),
        DataSet(
            "wikitext-2",
            "WikiText-2, word level",
            _parts(
                "wikitext-2",
                "wikitext-2/wiki.{}.tokens",
                "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            ),
            "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",
            "https://huggingface.co/datasets/Salesforce/wikitext",
            "CC BY-SA 3.0 and GFDL, Wikipedia text",
            partial(corpora.three_files, "wikitext-2"),
            quotable=True,
        ),
        DataSet(
            "brown",
            "Brown corpus, NLTK's package",
            (File("brown/brown.zip", "9b275f9b3b95d7bd66ccfb7cd259f445a13bbe5d1f4107aba09fd3e8364bafa6"),),
            "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/brown.zip",
            "https://www.nltk.org/nltk_data/",
            "non-commercial use",
            corpora.brown,
        ),
        DataSet(
            "holmes",
            "522 novels of Project Gutenberg, training text of the Sentence Completion Challenge",
            (File("holmes-novels/holmes-training-data.tar.gz", None),),
            None,
            "https://www.microsoft.com/en-us/research/publication/"
            "the-microsoft-research-sentence-completion-challenge/",
            "public domain in the US, under the Project Gutenberg header of each file",
            corpora.holmes,
            quotable=True,
        ),
    )
}
RATINGS = {
    d.name: d
    for d in (
        DataSet(
            "ml-100k",
            "MovieLens 100K",
            tuple(File(f"ml-100k/{name}", sha256, f"ml-100k/{name}") for name, sha256 in _ML_100K.items()),
            "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            "https://grouplens.org/datasets/movielens/100k/",
            _MOVIELENS,
            rating_sets.ml_100k,
        ),
        DataSet(
            "ml-1m",
            "MovieLens 1M",
            (File("ml-1m/ratings.dat", None, "ml-1m/ratings.dat", "ml-1m/ratings-notime.dat"),),
            "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
            "https://grouplens.org/datasets/movielens/1m/",
            _MOVIELENS,
            rating_sets.ml_1m,
            _ML_1M_ZIP,
        ),
        DataSet(
            "moviedata",
            "MovieLens 1M as Salakhutdinov and Mnih split it",
            (File("ml-1m/moviedata.mat", _MOVIEDATA),),
            None,
            "https://www.cs.toronto.edu/~rsalakhu/BPMF.html",
            _MOVIELENS,
            rating_sets.moviedata,
        ),
        DataSet(
            "netflix",
            "the Netflix Prize",
            (File("netflix/probe.txt", None),),
            None,
            "https://archive.ics.uci.edu/dataset/100/netflix+prize+data",
            "withdrawn by its publisher; for those who have it: the folder of mv_*.txt or combined_data_*.txt",
            rating_sets.netflix,
        ),
    )
}
_SRILM = "of SRILM's test suite: SRILM Research Community License, non-commercial; speech of Switchboard (LDC97S62)"
TASKS = {  # questions and lists, on which models of a text are judged
    d.name: d
    for d in (
        DataSet(
            "nbest-switchboard",
            "n-best lists of a recogniser of conversations by telephone, with references",
            tuple(
                File(f"nbest-switchboard/{name}", sha256) for name, sha256 in (
                    ("nbest.tsv", "1c50d96b816d3a172167214a46af522fe40bf25bd1ddbdbd8ceee29e430c490f"),
                    ("refs.txt", "30197e79b7ae8ab904bbdc7b0461edf1a82a6ee890c34f3ff2a99051fb432465"),
                    ("noise.vocab", "8f83204b95d63092c87c29c336a65d5e50791b60346bf252625d35cbb08ee7a7"),
                )
            ),
            None,
            "http://www.speech.sri.com/projects/srilm/",
            _SRILM,
            task_sets.nbest,
        ),
        DataSet(
            "msr-sentence-completion",
            "the Sentence Completion Challenge's 1,040 questions, and their key",
            tuple(
                File(f"msr-sentence-completion/{name}.csv", sha256) for name, sha256 in (
                    ("questions", "d2c5ee9dfd823ad0c4f582631b8dc0b1f6777957e2ee0f2e7dbe7982d00b5763"),
                    ("answers", "da979e32df25f5db6d3817415d342e168a8b6c88206bf8412267f056fe1858ff"),
                )
            ),
            None,
            "https://www.microsoft.com/en-us/research/publication/"
            "the-microsoft-research-sentence-completion-challenge/",
            "Microsoft Research, for research; sentences by Conan Doyle, in the public domain",
            task_sets.completion,
        ),
        DataSet(
            "word-tasks",
            "analogies, and pairs of words with people's judgements: WordSim-353, SimLex-999, MEN",
            tuple(
                File(f"eval/{name}", sha256) for name, sha256 in (
                    ("questions-words.txt", "8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36"),
                    ("wordsim353.csv", "49ff6433ae68abe716fb66433fd870483e289a7a8c74531f59eca847d103fff3"),
                    ("simlex999.txt", "405394ffb7d25f6d0e3c041f87c9f27d29dc6b047506769953e85c4523b11685"),
                    ("men3k.txt", "888b13580faa362c7b11da0a670258cf1b1eb4bf0ecbcd418918729a3bd3f43a"),
                )
            ),
            None,
            "https://code.google.com/archive/p/word2vec/ and https://fh295.github.io/simlex.html",
            "analogies: Apache 2.0; WordSim-353: CC BY 4.0; SimLex-999 and MEN: for research, to be cited",
            task_sets.word_tasks,
        ),
    )
}  # fmt: skip
_NEWSGROUPS = DataSet(
    "20news",
    "20 Newsgroups (bydate) as bags of 2,000 words, in the preprocessing of Miao et al. 2016",
    tuple(
        File(f"20news-2000/{name}", sha256) for name, sha256 in (
            ("train.feat", "55dfc0cc4e8aac22484ed93a4d785bb171959a00e8ffbca6f13c1c80d8cc4ce5"),
            ("test.feat", "344eff7e61116d72abd6ebc3d3c1e286c0474b41bf85ab09c8b898e0a5ff80c1"),
            ("vocab.new", "afbe73140a0d39578e6ae33914e049e6587768c088a0501392afda20ca3c85a8"),
        )
    ),
    None,
    "https://github.com/ysmiao/nvdm (the raw text: http://qwone.com/~jason/20Newsgroups/)",
    "no licence is stated",
    document_sets.newsgroups,
)  # fmt: skip
DOCUMENTS = {
    d.name: d
    for d in (
        _NEWSGROUPS,
        replace(
            _NEWSGROUPS, name="20news-counts", title=f"{_NEWSGROUPS.title}, counts as they are",
            load=partial(document_sets.newsgroups, log_counts=False),
        ),
        DataSet(
            "reuters",
            "Reuters-21578, Distribution 1.0, as bags of 2,000 words",
            (File("reuters-21578/reuters21578.tar.gz", None, None, "reuters-21578/reuters21578-sgm.tar.gz"),),
            "https://kdd.ics.uci.edu/databases/reuters21578/reuters21578.tar.gz",
            "https://archive.ics.uci.edu/dataset/137/reuters+21578+text+categorization+collection",
            "copyright Reuters Ltd.; free distribution for research purposes only (its README)",
            reuters.documents,
            "3bae43c9b14e387f76a61b6d82bf98a4fb5d3ef99ef7e7075ff2ccbcf59f9d30",
        ),
    )
}  # fmt: skip
DATA_SETS = TEXTS | RATINGS | TASKS | DOCUMENTS
BUILT_IN = ("prose", "planted")  # need no files; planted data are text, ratings or documents


def named(name: str) -> DataSet:
    """Return the entry of a data set; raise UserError if there is none."""
    if name not in DATA_SETS:
        known = ", ".join(DATA_SETS)
        what = f"there is no data set {name!r} to fetch"
        raise UserError(what, do=f"choose one of {known}; {', '.join(BUILT_IN)} come with the project")
    return DATA_SETS[name]


def folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Find the folder of data sets: the given one, or the environment's BENCHMARK_DATA; None if neither is set."""
    given = os.environ.get(VARIABLE) if data_dir is None else os.fspath(data_dir)
    return Path(given) if given else None


def find(name: str, data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Find the files of a data set under a folder, by default that of the environment's BENCHMARK_DATA.

    Raises:
        UserError: a file is missing; the message says how to fetch it.
    """
    data_set, root = named(name), folder(data_dir)
    do = f"python -m benchmarks data {name} --data-dir DIR fetches it"
    if data_set.url is None:
        wanted = ", ".join(file.path for file in data_set.files)
        do = f"get it from {data_set.page} as {wanted} in the folder of data sets"
    if root is None:
        raise UserError(f"no folder of data sets for {name}", do=f"give --data-dir or set {VARIABLE}; {do}")
    paths = []
    for file in data_set.files:
        names = [file.path, *([file.other] if file.other else [])]
        places = [root / f"{path}{packed}" for path in names for packed in ("", ".gz")]
        present = [path for path in places if path.is_file()]
        if not present:
            raise UserError(f"the data set {name} is not here", places[0], do)
        paths.append(present[0])
    return paths


def is_there(name: str, data_dir: str | os.PathLike[str] | None = None) -> bool:
    """Return whether the files of a data set are in the folder of data sets; what is in them is not read."""
    try:
        return bool(find(name, data_dir))
    except (UserError, OSError):  # a folder may not be searched
        return False


def load(name: str, data_dir: str | os.PathLike[str] | None = None, **options: Any) -> Any:
    """Load a data set: a Corpus (text as ids, the vocabulary of the training text), DocumentCorpus or RatingSet, split.

    For a task, load its lists or questions (`benchmarks.data.task_sets`).

    Args:
        options: options of the function that reads its files.

    Raises:
        UserError: it is missing, or a file's content is not the published one.
    """
    if name == "prose":
        return prose()
    if name == "planted":
        return planted(jax.random.key(0))[0]
    data_set, paths = named(name), find(name, data_dir)
    digests = []
    for file, path in zip(data_set.files, paths, strict=True):
        digest = sha256_of(path, unpack=path.suffix == ".gz" and not file.path.endswith(".gz"))
        if file.sha256 not in (None, digest):
            raise UserError(f"not the published file: sha256 {digest[:12]}…", path, "fetch it again")
        digests.append(f"{digest}  {file.path}\n")
    sha256 = hashlib.sha256("".join(digests).encode()).hexdigest()
    return data_set.load(paths, sha256, f"{data_set.title}; {data_set.page}", **options)


def sha256_of(path: Path, unpack: bool = False) -> str:
    """Hash a file, or its unpacked content (gzip); raise UserError for a file that cannot be read."""
    try:
        with gzip.open(path) if unpack else open(path, "rb") as f:
            return hashlib.file_digest(cast(IO[bytes], f), "sha256").hexdigest()  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"the file cannot be read: {error}", path, "fetch it again") from None

"""Small valid files of every kind that is read."""

import io
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io


def _rows(separator: str, header: str = "", time: bool = True, quote: str = "") -> bytes:
    draws = np.random.default_rng(0)
    pairs = draws.permutation(60)[:14]
    lines = []
    for pair in pairs.tolist():
        fields = [pair // 10 + 1, pair % 10 + 1, int(draws.integers(1, 6)), *([978300760 + pair] if time else [])]
        lines.append(separator.join(f"{quote}{field}{quote}" for field in fields))
    return "\n".join([*([header] if header else []), *lines, ""]).encode()


def _mat() -> bytes:
    rows = np.array([[int(x) for x in line.split(",")] for line in _rows(",", time=False).decode().split()])
    file = io.BytesIO()
    scipy.io.savemat(file, {"train_vec": rows[:10].astype(float), "probe_vec": rows[10:].astype(float)})
    return file.getvalue()


def _parquet() -> bytes:
    rows = [[int(field) for field in line.split(",")] for line in _rows(",").decode().split()]
    file = io.BytesIO()
    pq.write_table(pa.table(dict(zip(("user", "item", "rating", "time"), zip(*rows, strict=True), strict=True))), file)
    return file.getvalue()


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


TEXT = """the cat sat on the mat
a dog sat on a log , and barked at 3.14 cats
l' été à la plage — “naïve”

the dog and the cat sat
日本語 の 文章
""".encode()
VOCABULARIES = [b"the\t7\n<eos>\t6\ncat\t3\ndog\t2\nsat\t2\n<unk>\t1\n", b"<eos>\nthe\ncat\n"]
ARPA = b"""
\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-99\t<s>\t-0.5
-0.7\t</s>
-0.6\tthe\t-0.3
-0.9\tcat\t-0.2
-1.1\t<unk>

\\2-grams:
-0.2\t<s> the\t-0.1
-0.3\tthe cat\t-0.1
-0.4\tcat </s>
-0.5\tthe the

\\3-grams:
-0.1\t<s> the cat
-0.1\tthe cat </s>

\\end\\
"""
TREE = _npz(
    version=1, num_words=5, children=np.array([[1, 2], [~0, ~1], [3, ~2], [~3, ~4]], np.int32),
    words=np.frombuffer("<eos>\nthe\ncat\nà\nlog".encode(), np.uint8),
)  # fmt: skip
TOPICS = _npz(version=1, words=np.arange(1, 11, dtype=np.float32).reshape(2, 5))
VECTORS = [b"3 2\nthe 0.5 -1.25\nna\xc3\xafve 1e-3 2\n<unk> 0 0\n", b"1 1\n7 -3\n"]
BINARY_VECTORS = [
    b"2 3\nthe " + np.arange(3, dtype="<f4").tobytes() + end + b"cat " + np.ones(3, "<f4").tobytes() + end
    for end in (b"\n", b"")
]
ANALOGIES = b": capitals\nParis France Roma Italia\n\n: gram1\ngo went do did\n"
SIMILARITY = [b"Word 1,Word 2,Human (mean)\nlove,sex,6.77\ntiger,cat,7.35\n", b"old\tnew\t1.58\nhard\teasy\t0.95\n"]
QUESTIONS = b'id,question,a),b)\n1,"The cat , _____ sat.",the,dog\n2,A _____ barked.,dog,log\n'
NBEST = b"""utterance\trank\tacoustic\tlm\tnwords\thypothesis
u1\t1\t-1792.12\t-16.07\t3\tthe cat sat
u1\t2\t-1794.48\t-15.84\t2\tthe [laugh] sat
u2\t1\t-16.85\t-1e1\t0\t
"""
REFERENCES = b"u1 the cat sat\nu2 on\nu3\n"
RATINGS = {
    "plain": _rows(",", time=False),
    "header": _rows(",", "userId,movieId,rating,timestamp"),
    "named": _rows(",", "user,item,stars", time=False),
    "semicolon": _rows(";", '"User-ID";"ISBN";"Book-Rating"', time=False, quote='"'),
    "quoted": _rows(",", '"user","item","stars","time"', quote='"'),
    "dates": re.sub(rb",9\d+\n", b",2005-09-06 10:11:12\n", _rows(",", "user,item,rating,date")),
    "u.data": _rows("\t"),
    "ratings.dat": _rows("::"),
    "commas": _rows(";", "user;item;stars", time=False).replace(b"3\n", b"3,5\n"),
    "bad": _rows(",", "user,item,stars", time=False) + b"5,6\n7,8,many\n",
    "text ids": b"alice,Brazil,4.5\nbob,Brazil,3\nalice,Alien,0.5\n" + "zoë,Été,2\n".encode(),
}
NETFLIX = {
    "file": b"1:\n6,3,2005-09-06\n1,5,2005-05-13\n8,4,2005-10-19\n",
    "combined": b"1:\n6,3,2005-09-06\n1,5,2005-05-13\n2:\n6,4,2005-10-19\n3:\n4:\n9,1,2004-02-29\n",
    "probe": b"1:\n6\n1\n2:\n6\n10:\n9\n",
    "qualifying": b"1:\n6,2005-09-06\n1,2005-05-13\n2:\n6,2005-10-19\n",
}
JSON_LINES = re.sub(rb"(\d+),(\d+),(\d+)\n", rb'{"user": \1, "item": "\2", "rating": \3}\n', _rows(",", time=False))
PARQUET = _parquet()
PAIRS = [_rows(",", "user,item", time=False).replace(b",3\n", b"\n"), b"1\t2\n1\t3\n4\t2\n", b"user,item\na,x\nb,y\n"]
TITLES = [
    "1::Toy Story (1995)::Animation|Comedy\n2::Les Misérables::Drama\n".encode("latin-1"),
    'movieId,title,genres\n1,"American President, The (1995)",Comedy\n2,Été,Drama\n'.encode(),
    b"1|GoldenEye (1995)|01-Jan-1995||http://x\n2|Four Rooms (1995)|01-Jan-1995||http://y\n",
]
JOURNAL = b'{"epoch": 0, "train": 5.1, "valid": 5.2}\n{"epoch": 1, "train": null, "valid": 5.1}\n'
MATLAB = _mat()

"""One of two processes, with four devices each, that train models: `python one_process.py PORT ME FOLDER CASE…`.

Each model is trained with a copy of its tables on every device, and with tables split over all eight. Process 0 writes
it to FOLDER/CASE-1 and FOLDER/CASE-8, or why it is not trained so to FOLDER/CASE-1.refused and FOLDER/CASE-8.refused.
"""

import sys
import tempfile
from pathlib import Path

import jax

from cases import every, make_place, toys_registered
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError

ROW_SHARDS = (1, 8)


def main(port: str, me: str, folder: str, *names: str) -> None:
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_numpy_rank_promotion", "raise")
    processes.join(processes.Join(f"localhost:{port}", 2, int(me)))
    cases = {str(case): case for case in every()}
    with tempfile.TemporaryDirectory() as data, toys_registered():
        place = make_place(Path(data))
        for name in names:
            for row_shards in ROW_SHARDS:
                with processes.folder(Path(folder, f"{name}-{row_shards}")) as out:
                    try:
                        cases[name].train(place, out, devices=4, row_shards=row_shards)
                    except UserError as error:
                        if processes.leads():
                            Path(folder, f"{name}-{row_shards}.refused").write_text(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])

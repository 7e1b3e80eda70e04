"""Write down what a real API server answers to the mutants, and where the double answers otherwise.

    .venv/bin/python -m tests.conformance.record KUBECONFIG --server "what it is"

Ends with an error, and writes nothing, if the double is laxer or differs without a reason.
"""

import argparse
import datetime
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.conformance import answers
from tests.conformance.conftest import started_double
from tests.conformance.mutants import classes, digest, mutants
from tests.conformance.server import Server, from_kubeconfig

Answers = dict[tuple[str, str], dict[str, tuple[int, str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kubeconfig")
    parser.add_argument("--server", required=True, help="description of the server, for the file")
    options = parser.parse_args()
    real = from_kubeconfig(options.kubeconfig)
    try:
        truth = _sent(real)
        version = real.request("GET", "/version")[1]["gitVersion"]
    finally:
        real.clean()
    with tempfile.TemporaryDirectory() as folder, started_double(Path(folder)) as double:
        found = _differing(truth, _sent(double))
    head = {"server": f"{options.server}, {version}", "date": str(datetime.date.today()), "mutants": digest()}
    body: dict[str, Any] = {how: {} for how in answers.HOWS}
    for (how, kind), told in truth.items():
        body[how][kind] = answers.packed({name: status for name, (status, _) in told.items()})
    _write(answers.ANSWERS, {**head, **body})
    _write(answers.DIFFERENCES, found)
    print(f"{sum(map(len, truth.values()))} answers of {head['server']}")


def _sent(server: Server) -> Answers:
    places = answers.places(server)
    found: Answers = {}
    with ThreadPoolExecutor(4) as pool:
        for how, kind in ((how, kind) for how in answers.HOWS for kind in classes() if answers.is_sent(kind, how)):
            chosen = list(mutants(kind))
            told = pool.map(lambda mutant, how=how: answers.send(server, mutant, places, how), chosen)  # type: ignore[misc]
            found[how, kind] = dict(zip((mutant.name for mutant in chosen), told, strict=True))
    return found


def _differing(truth: Answers, double: Answers) -> list[dict[str, Any]]:
    found: dict[tuple[str, int, int], dict[str, dict[str, list[str]]]] = {}
    unexplained = []
    for (how, kind), told in truth.items():
        for name, (status, _) in told.items():
            own, said = double[how, kind][name]
            if own == status:
                continue
            because = answers.reason(how, name, said)
            if own < 400 or not because:
                unexplained.append(f"{how}: {kind}: {name}: Kubernetes {status}, the double {own} {said}")
            group = found.setdefault((because, status, own), {})
            group.setdefault(how, {}).setdefault(kind, []).append(name)
    if unexplained:
        raise SystemExit("\n".join(unexplained))
    return [
        {"because": because, "kubernetes": status, "double": own, "mutants": group}
        for (because, status, own), group in sorted(found.items())
    ]


def _write(path: Path, body: Any) -> None:
    note = "# Written by tests/conformance/record.py from a run on both servers. Not to be edited by hand.\n"
    path.write_text(
        note + yaml.safe_dump(body, sort_keys=False, width=150, default_flow_style=None, allow_unicode=True)
    )


if __name__ == "__main__":
    main()

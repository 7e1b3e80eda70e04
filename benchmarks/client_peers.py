"""Our client beside the others, on one server and under one load: `python benchmarks/client_peers.py [--install]`

Every client takes turns at the same number of streams and requests against a fresh reference server; means of TTFT and
TPOT against that server's own record of the same requests. CPU seconds per 100,000 chunks are the slope between a short
and a long run, the rest is start-up. Clients that are not installed are left out (--install: gigabytes, minutes).
Writes benchmarks/results/client_peers.json and the table in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.measures.arm import measure_arm
from specdecode.records import read_record

from benchmarks.publishing import publish, save
from benchmarks.reference.ours import mean, measure, tpot
from benchmarks.reference.peers import PEERS, Peer, prepare
from benchmarks.reference.processes import Cost, reference_server, run, truth

OURS = "specdecode"
SHORT_TOKENS = 9
TITLES = {"vllm": "vllm bench serve", "guidellm": "GuideLLM", "aiperf": "AIPerf"}
CHUNKS_FOR_A_SLOPE = 10_000
"""With fewer chunks a run's CPU says nothing of what a chunk costs: start-up varies by a second or more."""


def table(rows: list[dict]) -> str:
    """As the page prints it."""
    versions = {peer.name: peer.packages[-1].partition("==")[2] for peer in PEERS}
    titles = {OURS: f"**{OURS}**"} | {name: f"{title} {versions[name]}" for name, title in TITLES.items()}
    found = [
        "| streams | client | TTFT, reported ms | true | error | TPOT error % | CPU s of the run "
        "| CPU s / 100,000 chunks | CPU s besides | memory MB |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: row["streams"]):
        costs = [row["cpu_s_per_100000_chunks"], row["cpu_s_start_up_and_requests"]]
        shown = [f"{cost:.1f}" if row["chunks"] >= CHUNKS_FOR_A_SLOPE else "-" for cost in costs]
        found.append(
            f"| {row['streams']} | {titles[row['client']]} | {row['ttft_ms']:.2f} | {row['true_ttft_ms']:.2f} "
            f"| {row['ttft_error_ms']:.2f} | {row['tpot_error_percent']:+.3f} | {row['cpu_s']:.1f} "
            f"| {' | '.join(shown)} | {row['max_rss_mb']:.0f} |"
        )
    return "\n".join(found)


def run_peer(peer: Peer, *, streams: int, requests: int, tokens: int) -> dict:
    with reference_server() as url, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = prepare(folder)
        command = peer.command(peer.venv / "bin", url, streams, requests, tokens)
        cost, output = run(command, cwd=folder, env=environment, timeout_s=300)
        if cost.code:
            raise RuntimeError(f"{peer.name} ended with {cost.code}:\n{output[-3000:]}")
        reported = peer.read(folder)
        true = [entry for entry in truth(url) if sum(entry["tokens"]) == tokens]
    return row(reported.ttft_ms, reported.tpot_ms, true, cost)


def run_ours(*, streams: int, requests: int, tokens: int) -> dict:
    with reference_server() as url, tempfile.TemporaryDirectory() as name:
        measured, true = measure(url, streams=streams, requests=requests, output_tokens=tokens, folder=Path(name))
        lines = next((Path(name) / "results" / "raw").rglob("*.jsonl")).read_bytes().splitlines()
        ours = measure_arm([record for line in lines if not (record := read_record(line)).warmup]).arm.metrics
        true = [entry for entry in true if sum(entry["tokens"]) == tokens]
    return row(ours["ttft"].mean * 1000, ours["time_per_output_token"].mean * 1000, true, measured.cost)


def row(ttft_ms: float, tpot_ms: float, true: list[dict], cost: Cost) -> dict:
    true_ttft = mean([entry["sent_s"][0] for entry in true]) * 1000
    true_tpot = mean([tpot(entry) for entry in true]) * 1000
    return {
        "requests": len(true),
        "chunks": sum(len(entry["sent_s"]) for entry in true),
        "ttft_ms": ttft_ms,
        "true_ttft_ms": true_ttft,
        "ttft_error_ms": ttft_ms - true_ttft,
        "tpot_ms": tpot_ms,
        "true_tpot_ms": true_tpot,
        "tpot_error_percent": (tpot_ms / true_tpot - 1) * 100,
        **asdict(cost),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="install the other clients first")
    parser.add_argument("--streams", type=int, nargs="*", default=[4, 64, 256])
    parser.add_argument("--tokens", type=int, default=900, help="of each answer, about 200 chunks")
    args = parser.parse_args()
    if args.install:
        for peer in PEERS:
            if not peer.installed:
                peer.install()
    present = [peer for peer in PEERS if peer.installed]
    missing = [peer.name for peer in PEERS if not peer.installed]
    rows = []
    for streams in args.streams:
        for client in (OURS, *present):
            name = client if isinstance(client, str) else client.name
            costs = {}
            for length, tokens in (("short", SHORT_TOKENS), ("long", args.tokens)):
                requests = 2 * streams
                if isinstance(client, str):
                    costs[length] = run_ours(streams=streams, requests=requests, tokens=tokens)
                else:
                    costs[length] = run_peer(client, streams=streams, requests=requests, tokens=tokens)
            long, short = costs["long"], costs["short"]
            per_chunk = (long["cpu_s"] - short["cpu_s"]) / (long["chunks"] - short["chunks"])
            rows.append(
                {
                    "client": name,
                    "streams": streams,
                    **long,
                    "cpu_s_per_100000_chunks": per_chunk * 100_000,
                    "cpu_s_start_up_and_requests": short["cpu_s"] - per_chunk * short["chunks"],
                    "load_average": os.getloadavg()[0],
                }
            )
            print(
                f"{name:>10} {streams:>4} streams: TTFT {long['ttft_ms']:8.2f} (true {long['true_ttft_ms']:8.2f}) ms, "
                f"TPOT {long['tpot_error_percent']:+7.3f} %, {per_chunk * 100_000:6.2f} CPU s / 100,000 chunks, "
                f"{rows[-1]['cpu_s_start_up_and_requests']:5.2f} CPU s besides, {long['max_rss_mb']:5.0f} MB",
                flush=True,
            )
            save("client_peers", {"not_installed": missing, "rows": rows})
    publish("client_peers", table(rows), page="benchmarks.md")
    if missing:
        print(f"not installed, left out: {', '.join(missing)} (--install)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

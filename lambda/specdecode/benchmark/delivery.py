"""Brings a block's results to where they are wanted: S3, CloudWatch, LLMPerf's files."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specdecode.benchmark.accounting import Accounting
from specdecode.benchmark.llmperf_files import LlmperfRun, llmperf_files
from specdecode.benchmark.metrics import Block
from specdecode.benchmark.publish import QUIET_S, Publisher, metric_data
from specdecode.benchmark.results import Results
from specdecode.benchmark.s3 import S3Error, S3Folder
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.model import TestCase

SUMMARY = "summary.json"


@dataclass(kw_only=True)
class Delivery:
    """All methods block (they talk to AWS) and return why results could not be stored, in words."""

    results: Results
    spec: BenchmarkSpec
    accounting: Accounting
    upload: str | None
    publish: bool
    earlier_summary: dict[str, Any] | None = None
    """What other processes of this run (waves, rounds) have summed up before."""
    unpublished: list[str] = field(init=False, default_factory=list)
    """Why metrics did not reach CloudWatch when they were first sent."""
    _s3: S3Folder | None = field(init=False, default=None)
    _publisher: Publisher | None = field(init=False, default=None)
    _pending: set[Path] = field(init=False, default_factory=set)
    _spool_in_s3: bool = field(init=False, default=False)
    """Whether metrics that wait lie in S3, as far as is known."""
    _spool_stored_at: float = field(init=False, default=-math.inf)

    def __post_init__(self) -> None:
        if self.upload is not None:
            self._s3 = S3Folder(self.upload)
        if self.publish:
            self._publisher = Publisher(namespace=self.spec.metric_namespace, folder=self.results.folder)

    def fetch_earlier(self, raw_names: Iterable[str]) -> list[str]:
        """Bring what this run measured before: a pod that is started again goes on, other rounds are kept."""
        try:
            for name in (*raw_names, SUMMARY):
                self._fetch(name)
            if self._publisher is not None:
                self._fetch(self._publisher.spool.name)
                self._spool_in_s3 = self._publisher.spool.exists()
        except S3Error as error:
            return [str(error)]
        summary = self.results.folder / SUMMARY
        if summary.exists():
            self.earlier_summary = json.loads(summary.read_text())
        return []

    def sum_up(self, summary: dict[str, Any]) -> None:
        """Write the summary; it is uploaded with the next block, or at the end."""
        self._pending.add(self.results.write(SUMMARY, json.dumps(summary, indent=2)))

    def _fetch(self, name: str) -> None:
        """Bring a file that is not here from S3, if it is there."""
        if self._s3 is not None and not (self.results.folder / name).exists():
            content = self._s3.get(name)
            if content is not None:
                self.results.write(name, content)

    def block(
        self, block: Block, variant: str, label: str, case: TestCase, model: str, *, is_known: bool = False
    ) -> list[str]:
        """A block has ended: write LLMPerf's files, upload, and publish unless it was done before (`is_known`)."""
        self._pending.add(self.results.raw_path(variant, case.name))
        self._pending |= self._write_llmperf(block, variant, case, model)
        problems = self._upload()
        if self._publisher is not None and block.records and not is_known:
            data = metric_data(
                block,
                accounting=self.accounting,
                experiment=self.spec.experiment,
                variant=label,
                case=case.label,
                at=max(record.started_at + record.end_s for record in block.records),
            )
            self.unpublished += self._publisher.publish(data)
            problems += self._store_spool()
        return problems

    def rescue(self, raw_names: Iterable[str]) -> None:
        """The process is told to end: upload what there is, whole blocks or not."""
        self._pending |= {path for name in raw_names if (path := self.results.folder / name).exists()}
        self._upload()

    def finish(self) -> list[str]:
        """Try once more what did not go through; metrics that CloudWatch still does not take stay in S3."""
        if self._publisher is not None and self._publisher.unsent:
            self.unpublished += self._publisher.publish([], at_once=True)
        return [*self._store_spool(at_once=True), *self._upload()]

    def _store_spool(self, *, at_once: bool = False) -> list[str]:
        """Let S3 hold the metrics that wait, and no more: whoever goes on sends what lies there.

        What only grows is stored every QUIET_S, which is how often sending is tried.
        """
        if self._s3 is None or self._publisher is None:
            return []
        spool, now = self._publisher.spool, time.monotonic()
        waits = spool.exists() and spool.stat().st_size > 0
        if (not waits and not self._spool_in_s3) or (waits and not at_once and now < self._spool_stored_at + QUIET_S):
            return []
        try:
            spool.touch()
            self._s3.put(spool.name, spool)
        except S3Error as error:
            return [str(error)]
        self._spool_in_s3, self._spool_stored_at = waits, now
        return []

    def _write_llmperf(self, block: Block, variant: str, case: TestCase, model: str) -> set[Path]:
        workload = self.spec.workload
        run = LlmperfRun(
            model=model,
            mean_input_tokens=workload.input_tokens,
            mean_output_tokens=workload.output_tokens,
            num_concurrent_requests=workload.concurrency,
            sampling_params={"temperature": workload.temperature},
            timestamp=int(time.time()),
        )
        window_s = block.window_s if block.records else 0.0
        files = llmperf_files(block.records, run=run, accounting=self.accounting, window_s=window_s)
        folder = f"llmperf/{variant}/{case.name}/round-{self.spec.round}"
        return {self.results.write(f"{folder}/{name}", content) for name, content in files.items()}

    def _upload(self) -> list[str]:
        if self._s3 is None:
            return []
        for path in sorted(self._pending):
            try:
                self._s3.put(path.relative_to(self.results.folder).as_posix(), path)
            except S3Error as error:
                return [str(error)]
            self._pending.discard(path)
        return []

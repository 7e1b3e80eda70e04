"""The world of an adaptive sweep on several nodes, whose units are driven by hand."""

from __future__ import annotations

import json

from specdecode import names, s3_keys
from specdecode.runs.ledger import Ledger, read_ledger
from specdecode.steps import advise, measure_units, plan, report

from tests.specdecode.steps.test_sweep import Failing
from tests.specdecode.steps.units import Units

REQUEST = {"experiment": "rehearsal-sweep", "set": {"nodes": 2}, "accept_cost": 9000}
ONE, TWO, THREE = (names.unit_run_id("run", number) for number in (1, 2, 3))
STEPS = ("Compile", "Serve", "Smoke", "Benchmark", "StopArms")


class Swept(Failing, Units):
    """Units that are driven by hand, step by step, and measure what the theory says."""

    def open_sweep(self, run_id="run", request=REQUEST):
        self.begin_units(run_id, request)
        self.look(run_id)

    def enter(self, unit):
        """A unit's steps until it has its node."""
        request = next(json.loads(given["input"]) for given in self.states.started if given["name"] == unit)
        planned = plan.plan(self.given(unit, input=request), self.rt)
        assert planned.adaptive and not planned.units
        for step in ("StageModels", "AcquireCapacity"):
            self.finish(step, unit)

    def serve_and_measure(self, unit):
        """The waves that are planned and not settled."""
        run = measure_units.load_run(self.rt.store, unit)
        for wave in run.plan.waves:
            if run.settled(wave.index) is None:
                for step in STEPS:
                    self.finish(step, unit, wave.index)

    def ask(self, unit):
        """The arm that the unit takes next; None where it ends."""
        advise.advise(self.given(unit), self.rt)
        return self.stored(unit).sweep.steps[-1].arm

    def go(self, unit):
        self.serve_and_measure(unit)
        return self.ask(unit)

    def ledger(self, run_id="run") -> Ledger:
        return read_ledger(self.rt.store, run_id)

    def arms(self, run_id="run"):
        """Every step of every unit."""
        return [(each.unit, each.arm) for each in self.ledger(run_id).entries]

    def to_the_end(self, *units, run_id="run"):
        """All units in turn until each has ended, and the run's report."""
        left = list(units)
        while left:
            for unit in list(left):
                if self.go(unit) is None:
                    report.report(self.given(unit), self.rt)
                    self.end(unit)
                    left.remove(unit)
        assert self.look(run_id).done
        report.report(self.given(run_id), self.rt)
        return json.loads(self.s3.objects[s3_keys.run_key(run_id, "report.json")])

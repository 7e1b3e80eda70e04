"""docs/security.md says what the code does."""

import csv
import re
from pathlib import Path

import pytest
from specdecode import names

from constructs_lib.capacity.guard_access import GROUP
from constructs_lib.cluster.access import READER_GROUP, WATCHDOG_GROUP
from constructs_lib.pipeline import pod_roles
from constructs_lib.storage import service_accounts
from tests.access import table
from tests.access.calls_control import CALLS
from tests.access.principals import ROLES
from tests.templates import Templates

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "security.md").read_text()
ACCESS = (DOCS / "security-access.md").read_text()
CALLS_MADE = [*csv.reader((DOCS / "security-access.csv").read_text().splitlines())][1:]


def test_every_row_has_the_cells_of_its_table() -> None:
    for lines in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, *rows = lines.splitlines()
        assert not [row for row in rows if row.count("|") != head.count("|")]


def test_the_table_of_the_pods_is_the_codes() -> None:
    reads_of = {**pod_roles.READS, **service_accounts.READS}
    rows = re.findall(r"^\| (\w+) \| ([^|]*) \|([^|]*)\|[^|]*\|$", PAGE, re.MULTILINE)
    table = {
        component: (set(re.findall(r"`([^`]+)`", reads)), set(re.findall(r"`([^`]+)`", writes)))
        for component, reads, writes in rows
        if component in reads_of
    }
    writes_of = pod_roles.WRITES
    assert table == {name: (set(reads), set(writes_of.get(name, ()))) for name, reads in reads_of.items()}


@pytest.mark.synth
def test_the_groups_are_those_of_the_access_entries(templates: Templates) -> None:
    groups = {
        group
        for entry in templates.properties("AWS::EKS::AccessEntry").values()
        for group in entry.get("KubernetesGroups", ())
    }
    assert groups == {GROUP, READER_GROUP, names.PIPELINE_GROUP, names.SESSIONS_GROUP, WATCHDOG_GROUP}
    for group in groups:
        assert f"`{group}`" in PAGE


@pytest.mark.synth
def test_functions_that_only_look_cannot_write(templates: Templates) -> None:
    entries = {
        name.partition("Access")[2].partition("Entry")[0]: set(entry.get("KubernetesGroups", ()))
        for name, entry in templates.properties("AWS::EKS::AccessEntry").items()
        if "/PipelineAccess" in name
    }
    looking = {name for name, groups in entries.items() if groups == {READER_GROUP}}
    assert looking == {"Inspect", "Diagnose"}
    assert all(READER_GROUP in groups for groups in entries.values())


@pytest.mark.synth
def test_no_pod_gets_a_kubernetes_token(templates: Templates) -> None:
    for account in (*names.SERVICE_ACCOUNTS.values(), names.PLAIN_ACCOUNT):
        assert templates.manifest("ServiceAccount", account)["automountServiceAccountToken"] is False


def test_the_page_of_access_has_every_call_and_who_may() -> None:
    """The fourth column of its table is what was found; the others follow from the calls."""
    shown = {(what, action, who) for what, action, who, _, _ in CALLS_MADE}
    assert shown == {(table.shown(call), call.action, table.spelled(call.may)) for call in CALLS}
    assert {proof for *_, proof in CALLS_MADE} == {"tried", "policy", "policy, tried"}
    assert f"each of the {len(ROLES)} roles" in ACCESS

"""On a machine where real vLLM would fail it is refused, with every reason. Elsewhere its size is announced."""

import sys

import pytest

from rehearsal.upstream import machine
from rehearsal.upstream.machine import Machine, problems

GOOD = Machine(cpu_flags=frozenset({"sse2", "avx2"}), available_memory=16 * 10**9, free_disk=20 * 10**9)


def test_a_good_machine_has_no_problems():
    assert problems(GOOD, installed=False) == []


def test_every_reason_is_named_at_once():
    poor = Machine(cpu_flags=frozenset({"sse2"}), available_memory=4 * 10**9, free_disk=10**9)
    cpu, memory, disk = problems(poor, installed=False)
    assert "AVX2" in cpu and "4.0 GB of memory" in memory and "1.0 GB of disk" in disk


def test_what_is_installed_needs_no_room_any_more():
    tight = Machine(cpu_flags=GOOD.cpu_flags, available_memory=GOOD.available_memory, free_disk=4 * 10**9)
    assert problems(tight, installed=False) and not problems(tight, installed=True)


@pytest.mark.parametrize("there", [False, True])
def test_the_size_is_said_before_the_download_and_not_after(tmp_path, capsys, monkeypatch, there):
    if there:
        (tmp_path / ".installed").touch()
    monkeypatch.setattr(machine, "this_machine", lambda folder: GOOD)
    monkeypatch.setattr(sys, "argv", ["machine", str(tmp_path)])
    assert machine.main() == 0
    assert ("0.6 GB" in capsys.readouterr().out) is not there


def test_this_machine_is_read_where_the_folder_is_not_there_yet(tmp_path):
    found = machine.this_machine(tmp_path / "not" / "yet")
    assert found.cpu_flags and found.available_memory > 0 and found.free_disk > 0

from specdecode.benchmark.counters import SpeculationCounters, parse_counters

VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 10.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 2.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 60.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 3.1e1
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 11.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 20.0
vllm:generation_tokens_total{model_name="m"} 99.0
"""


def counters(drafts: int, drafted: int, accepted: int, *positions: int) -> SpeculationCounters:
    return SpeculationCounters(
        drafts=drafts, draft_tokens=drafted, accepted_tokens=accepted, accepted_per_position=positions
    )


def test_vllms_counters() -> None:
    assert parse_counters(VLLM) == counters(12, 60, 31, 20, 11)
    assert parse_counters(VLLM.replace("vllm:", "llamacpp:")) == counters(12, 60, 31, 20, 11)
    assert parse_counters("vllm:generation_tokens_total 5") is None


def test_difference() -> None:
    assert counters(12, 60, 31, 20, 11).since(counters(2, 10, 1, 1, 0)) == counters(10, 50, 30, 19, 11)
    assert counters(12, 60, 31, 20, 11).since(counters(0, 0, 0)) == counters(12, 60, 31, 20, 11)
    assert counters(1, 5, 1, 1).since(counters(12, 60, 31, 20)) is None, "the server was restarted"

from specdecode.benchmark.counters import parse_counters, since

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


def test_vllms_counters() -> None:
    assert parse_counters(VLLM) == (12, 60, 31, 20, 11)
    assert parse_counters(VLLM.replace("vllm:", "llamacpp:")) == (12, 60, 31, 20, 11)
    assert parse_counters("vllm:generation_tokens_total 5") is None


def test_difference() -> None:
    assert since((2, 10, 1, 1, 0), (12, 60, 31, 20, 11)) == (10, 50, 30, 19, 11)
    assert since((0, 0, 0), (12, 60, 31, 20, 11)) == (12, 60, 31, 20, 11)
    assert since((12, 60, 31, 20), (1, 5, 1, 1)) is None, "the server was restarted"

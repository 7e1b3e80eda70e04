# Whether $ENGINE and $EXPERIMENT can be rehearsed on this machine; else what can.
case "$ENGINE" in cpu | vllm) ;; *)
  echo "There is no ENGINE=$ENGINE: cpu (the embedded one, the default) or vllm (make rehearse ENGINE=vllm)." >&2
  exit 2 ;;
esac
if [ "$(uname -sm)" != 'Linux x86_64' ]; then
  echo "A rehearsal needs Linux on x86_64; this is $(uname -sm)." >&2
  exit 3
fi
case "$EXPERIMENT" in
*/*) ;;
rehearsal*) test -f "assets/experiments/$EXPERIMENT.yaml" && exit 0 ;;
esac
{
  echo "'$EXPERIMENT' is not a preset that can be rehearsed on this machine. These can:"
  ls assets/experiments/rehearsal*.yaml | sed 's|.*/\(.*\)\.yaml|  make rehearse EXPERIMENT=\1|'
  echo '  make rehearse ENGINE=vllm         with real vLLM in place of the embedded engine'
  echo 'These need an AWS account (make deploy; .venv/bin/specdecode run <name>):'
  ls assets/experiments/*.yaml | grep -v /rehearsal | sed 's|.*/\(.*\)\.yaml|  \1|'
} >&2
exit 2

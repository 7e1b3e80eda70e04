# Whether $1 is Python 3.11; else what to install.
command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' && exit 0
{
  echo 'Python 3.11 is missing: it is the version of the Lambda functions, which run on this machine in a rehearsal.'
  echo 'Install it (Debian, Ubuntu: apt install python3.11 python3.11-venv; macOS: brew install python@3.11;'
  echo 'elsewhere: https://www.python.org/downloads or pyenv), or name it: make PYTHON=/path/to/python3.11'
} >&2
exit 3

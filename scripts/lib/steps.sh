# shellcheck shell=bash
#
# What scripts/test and scripts/coverage share: steps with their times, the toolchain, the
# servers and the Python that tests need. Sourced with ROOT set, after scripts/lib/packages.sh.

# What the tests need.
NEEDED_SERVICES=(postgres rabbitmq)

# Tools are found where rustup puts them even if the shell's profile was not read, and
# where this script builds them.
HOME_FOLDER=~
CARGO_FOLDER=${CARGO_HOME:-$HOME_FOLDER/.cargo}
export PATH=$PATH:$CARGO_FOLDER/bin:$ROOT/target/tools/bin

# ---------------------------------------------------------------- steps and their times

TIMES=()

# step NAME COMMAND…: a heading, the command, its time. The first failure ends the run.
step() {
    local name=$1 started=$SECONDS
    shift
    printf '\n==> %s\n' "$name" >&2
    CURRENT_STEP=$name
    "$@"
    CURRENT_STEP=
    TIMES+=("$(printf '%5d s  %s' $((SECONDS - started)) "$name")")
    printf '    %s: %d s\n' "$name" $((SECONDS - started)) >&2
}

CURRENT_STEP=
OWN_SERVICES_DIR=

finish() {
    local code=$?
    trap - EXIT
    if [[ -n $OWN_SERVICES_DIR ]]; then
        POSTHASTE_SERVICES_DIR=$OWN_SERVICES_DIR scripts/services stop || true
        rm -rf "$OWN_SERVICES_DIR"
    fi
    if ((code == 0)); then
        printf '\nall passed in %d s\n' "$SECONDS" >&2
    else
        printf '\nFAILED after %d s%s\n' "$SECONDS" "${CURRENT_STEP:+, in: $CURRENT_STEP}" >&2
    fi
    ((${#TIMES[@]} == 0)) || printf '%s\n' "${TIMES[@]}" >&2
    exit "$code"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# ---------------------------------------------------------------- what every run needs

check_toolchain() {
    if ! command -v cargo >/dev/null; then
        echo "error: cargo is missing; install Rust with rustup" >&2
        return 1
    fi
    # SQLite, the TLS library and the allocator are C, built by their crates.
    { command -v cc && command -v make; } >/dev/null ||
        install_packages "a C compiler or make" build-essential
    cargo --version >&2
}

# Sets the variables of the servers that are needed and not given. The folder is this run's own,
# so that servers started by hand, or by another run, are left alone.
provide_services() {
    local service missing=()
    for service in "${NEEDED_SERVICES[@]}"; do
        case $service in
        postgres) [[ -n ${TEST_DATABASE_URL:-} ]] || missing+=(postgres) ;;
        rabbitmq) [[ -n ${TEST_RABBITMQ_URL:-} ]] || missing+=(rabbitmq) ;;
        esac
    done
    if ((${#missing[@]} == 0)); then
        echo "using the servers that were given" >&2
        return
    fi
    mkdir -p target
    OWN_SERVICES_DIR=$(mktemp -d "$ROOT/target/services.XXXXXX")
    # The servers' own users pass through it; the folders inside are closed.
    chmod 755 "$OWN_SERVICES_DIR"
    local variables
    POSTHASTE_SERVICES_DIR=$OWN_SERVICES_DIR scripts/services start "${missing[@]}"
    variables=$(POSTHASTE_SERVICES_DIR=$OWN_SERVICES_DIR scripts/services env)
    eval "$variables"
}

# Clients that are not ours, for tests that look at us from outside.
PYTHON_PACKAGES=(pika==1.4.1 protobuf==6.33.1 grpcio-tools==1.76.0 icalendar==7.3.0 schemathesis==4.32.5)

# A Python with the packages above, in the target folder; made once for each list of packages.
provide_python() {
    if [[ -n ${TEST_PYTHON:-} ]]; then
        echo "using the Python that was given" >&2
        return
    fi
    local folder=target/tools/python mark
    mark=$folder/packages
    if [[ ! -x $folder/bin/python || $(cat "$mark" 2>/dev/null) != "${PYTHON_PACKAGES[*]}" ]]; then
        rm -rf "$folder"
        python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' 2>/dev/null ||
            install_packages "Python with venv" python3 python3-venv
        python3 -m venv "$folder"
        "$folder/bin/pip" install --quiet --disable-pip-version-check "${PYTHON_PACKAGES[@]}"
        printf '%s' "${PYTHON_PACKAGES[*]}" >"$mark"
    fi
    export TEST_PYTHON=$ROOT/$folder/bin/python
}

# A browser for the tests of the dashboard.
provide_browser() {
    command -v chromium >/dev/null && command -v chromedriver >/dev/null ||
        install_packages "Chromium with its driver" chromium chromium-driver
    chromedriver --version >&2
}

provide_needed() {
    ((${#NEEDED_SERVICES[@]} == 0)) || step "services" provide_services
    step "python" provide_python
    step "browser" provide_browser
}

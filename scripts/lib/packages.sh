# shellcheck shell=bash
#
# Installing Debian packages for a test run: only what is missing, only as root,
# and never so that a package starts a system service of its own.
# Sourced by scripts/test and scripts/services; it must not change the machine
# beyond the packages asked for.

POLICY_FILE=/usr/sbin/policy-rc.d

# install_packages REASON PACKAGE…
install_packages() {
    local reason=$1
    shift
    if ! command -v apt-get >/dev/null; then
        echo "error: $reason is missing; install it, there is no apt-get here (Debian: $*)" >&2
        return 1
    fi
    if ((EUID != 0)); then
        echo "error: $reason is missing; run: sudo apt-get install $*" >&2
        return 1
    fi
    echo "installing $* ($reason is missing)" >&2
    # A subshell, so that its exit trap removes the policy file however it ends.
    (
        forbid_service_starts
        # The lists of a machine that never fetched them are empty, those of an
        # old one may name versions that are gone: fetch only in these two cases.
        if ! package_lists_exist; then
            apt_get update
        fi
        apt_get install "$@" || { apt_get update && apt_get install "$@"; }
    )
}

# Debian starts a service as soon as its package is unpacked. invoke-rc.d asks this
# file first; 101 means "not allowed". A file that was there before is left alone.
forbid_service_starts() {
    [[ ! -e $POLICY_FILE ]] || return 0
    trap 'rm -f "$POLICY_FILE"' EXIT
    printf '#!/bin/sh\n# Made by Posthaste while it installs test services.\nexit 101\n' >"$POLICY_FILE"
    chmod 755 "$POLICY_FILE"
}

package_lists_exist() {
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null
}

# Silent unless it fails: what a package says while it settles in is of no use to a test run.
apt_get() {
    local command=$1 output
    shift
    if ! output=$(DEBIAN_FRONTEND=noninteractive apt-get "$command" -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@" 2>&1 </dev/null); then
        printf '%s\n' "apt-get $command failed:" "$output" >&2
        return 1
    fi
}

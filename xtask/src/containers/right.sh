# Tries what a Docker daemon does first: namespaces, a mount in them, and control groups. Fails with the reason.

set -e
exec unshare --mount --pid --fork --mount-proc --propagation private sh -ec '
    mount -t tmpfs stanchion "${TMPDIR:-/tmp}"
    groups=$(sed -n "s/^[^ ]* \([^ ]*\) cgroup2* .*/\1/p" /proc/mounts)
    [ -n "$groups" ] || { echo "no control groups are mounted" >&2; exit 1; }
    for group in $groups; do
        mkdir "$group/stanchion-$0"
        rmdir "$group/stanchion-$0"
    done
' "$$"

# Installs Debian packages without starting the services they contain.
#
# Arguments: the packages. Needs the rights of root.

set -e
policy=/usr/sbin/policy-rc.d

# A machine that already has a policy keeps it. Ours is removed however this script ends.
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends "$@"

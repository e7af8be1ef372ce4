# The first process of the daemon's namespaces: all their processes, mounts and files in memory end with it.
#
# Arguments: the folder, the room in memory for files or `disk`, a name for control groups.

set -e
folder=$1 room=$2 group=$3
mkdir "$folder/data"
[ "$room" = disk ] || mount -t tmpfs -o "size=$room" stanchion "$folder/data"
# Overrides the settings of the machine's own daemon.
echo '{}' >"$folder/daemon.json"
# A process in the background has no standard input of its own accord.
exec 3<&0
# Without a bridge, containers share the machine's network, and no interface, route or filter is changed.
dockerd --config-file "$folder/daemon.json" --host "unix://$folder/docker.sock" --pidfile "$folder/docker.pid" \
    --data-root "$folder/data/root" --exec-root "$folder/data/exec" \
    --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/$group" \
    --bridge=none --iptables=false --ip6tables=false --ip-forward=false \
    >"$folder/docker.log" 2>&1 3<&- &
daemon=$!
{
    cat <&3 >/dev/null
    : >"$folder/ended"
    kill -s KILL "$daemon"
} &
wait "$daemon" || true
# If it was not asked to end, its last log line is the reason.
[ -e "$folder/ended" ] || tail -n 1 "$folder/docker.log" >&2

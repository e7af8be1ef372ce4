# Runs one server for a test process, and ends it with that process, also if a test failed.
#
# Arguments: the server's folder, then its command line.
# Commands: one per line on standard input, each answered by one line: start (answers the pid), kill, pause, resume.
# Standard input ends with the test process, however it ends: then the server is killed and the folder removed.

# Ignored, so that a dying terminal or a closed pipe cannot prevent the clean-up.
trap '' HUP INT QUIT TERM PIPE
folder=$1
shift
server=

# Checks that the server is a child of this shell: after its death, the pid may belong to another process.
running() {
    [ -n "$server" ] && grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$server/status"
}

children() {
    grep -ls "^PPid:[[:space:]]*$server\$" /proc/[0-9]*/status | while IFS=/ read -r _ _ child _; do
        echo "$child"
    done
}

# Stops the server; returns when it has stopped, which is a moment after the signal. When the test process ends, the
# kernel continues stopped processes in groups that become orphaned, so one signal may not be enough.
stop() {
    until grep -qs '^State:[[:space:]]*[TtZX]' "/proc/$server/status"; do
        running || return
        kill -s STOP "$server"
    done
}

# Postgres has one process per connection, each in its own session, so there is no group to signal. The server is
# stopped first: a stopped parent forks no child that the list would miss.
signal() {
    running && stop || return
    family="$(children) $server"
    for process in $family; do
        kill -s "$1" "$process"
    done
}

# A killed orphan is gone, or a zombie, within moments; until then it may hold the server's memory and sockets.
await_death() {
    for process in $family; do
        tries=0
        while grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$process/status" && [ "$tries" -lt 200 ]; do
            sleep 0.01
            tries=$((tries + 1))
        done
    done
}

# A killed Postgres leaves a System V segment, named at the end of line 7 of its lock file, to the whole machine.
free_memory() {
    segment=$(sed -n '7s/.* //p' "$folder/data/postmaster.pid")
    [ -z "$segment" ] || ipcrm -m "$segment"
}

end() {
    family=
    signal KILL
    [ -z "$server" ] || wait "$server"
    await_death
    server=
    free_memory
}

exec 2>/dev/null
while read -r order; do
    case $order in
    start)
        "$@" </dev/null >>"$folder/server.log" 2>&1 &
        server=$!
        echo "$server"
        ;;
    kill) end; echo killed ;;
    pause) signal STOP; echo paused ;;
    resume) signal CONT; echo resumed ;;
    *) echo unknown ;;
    esac
done
end
rm -rf -- "$folder"

#!/bin/sh
# Begins a container as the official images do: each server as its own user, Postgres with a new database and
# without passwords.

set -e
as() {
    user=$1
    shift
    exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

case $1 in
redis-server)
    cd /var/lib/redis
    as redis "$@"
    ;;
postgres)
    shift
    programs=$(echo /usr/lib/postgresql/*/bin)
    data=/var/lib/postgresql/data
    cd /var/lib/postgresql
    if [ ! -e "$data/PG_VERSION" ]; then
        (as postgres "$programs/initdb" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync -D "$data")
        echo 'host all all all trust' >>"$data/pg_hba.conf"
    fi
    as postgres "$programs/postgres" -D "$data" -c unix_socket_directories=/tmp "$@"
    ;;
*) exec "$@" ;;
esac

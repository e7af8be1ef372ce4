# Makes an image with the Redis and the Postgres of Debian's packages, and imports it.
#
# Arguments: an empty folder, the room in memory for files or `disk`, the script that containers begin with, the tags.
# The packages come from apt's sources. The script runs in its own namespaces, which end its mounts and processes.

set -e
folder=$1 room=$2 entrypoint=$3
shift 3
[ "$room" = disk ] || mount -t tmpfs -o "size=$room" stanchion "$folder"

. /etc/os-release
mirror() {
    apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$VERSION_CODENAME main //p" | sed -n 's:/*$::; 1p'
}
[ -n "$(mirror)" ] || apt-get -qq update
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
[ -z "$http_proxy" ] || export http_proxy
[ -z "$https_proxy" ] || export https_proxy

root=$folder/root
mkdir "$root"
# The first command unpacks only the base system. The other packages run without being configured: configuring all of
# them, with the services and the database that this would start, takes longer than everything else.
unpack() {
    debootstrap --foreign --variant=minbase --include=redis-server,postgresql "$VERSION_CODENAME" "$root" "$(mirror)" &&
        find "$root/var/cache/apt/archives" -name '*.deb' -print0 |
        xargs -0 -n 1 -P 2 sh -ec 'dpkg-deb --extract "$1" "$0"' "$root"
}
unpack >"$folder/log" 2>&1 && chroot "$root" redis-server --version >>"$folder/log" || {
    tail -n 20 "$folder/log"
    exit 1
}
# Configuring the packages would create these.
[ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
printf '%s\n' 'root:x:0:0::/:/bin/sh' 'redis:x:101:101::/var/lib/redis:/bin/sh' \
    'postgres:x:102:102::/var/lib/postgresql:/bin/sh' >"$root/etc/passwd"
printf '%s\n' root:x:0: redis:x:101: postgres:x:102: >"$root/etc/group"
mkdir -p "$root/var/lib/redis" "$root/var/lib/postgresql"
chown 101:101 "$root/var/lib/redis"
chown 102:102 "$root/var/lib/postgresql"
chmod 1777 "$root/tmp"

printf '%s\n' "$entrypoint" >"$root/entrypoint"
chmod 755 "$root/entrypoint"
tar -C "$root" --one-file-system --exclude ./var/cache --exclude ./var/lib/apt --exclude ./usr/share/doc \
    --exclude ./usr/share/locale --exclude ./usr/share/man --exclude ./debootstrap -c . |
    docker import --change 'ENTRYPOINT ["/entrypoint"]' - "$1"
for tag in "$@"; do
    docker tag "$1" "$tag"
done

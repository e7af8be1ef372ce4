# Runs a Docker daemon beside any other one, and leaves nothing behind.
#
# Arguments: an empty folder, the script of the first process, the room in memory for files or `disk`.
# The socket is `docker.sock` in the folder, the log `docker.log`. The daemon and its containers end with
# standard input, and so with the process at the other end of that pipe.

folder=$1 first=$2 room=$3
group=stanchion-$$
unshare --mount --pid --fork --kill-child --mount-proc --propagation private \
    sh -c "$first" first "$folder" "$room" "$group"
for path in /sys/fs/cgroup/"$group" /sys/fs/cgroup/*/"$group"; do
    [ ! -d "$path" ] || find "$path" -depth -type d -exec rmdir {} +
done
rm -rf -- "$folder"

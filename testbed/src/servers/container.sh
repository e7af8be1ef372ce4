# Removes a container and its data when the process that it was started for has ended.
#
# Arguments: the container's name. Standard input is a pipe that nobody writes to; it ends with that process.

# Ignored, so that a dying terminal cannot prevent the clean-up.
trap '' HUP INT QUIT TERM PIPE
read -r _
exec docker rm --force --volumes "$1"

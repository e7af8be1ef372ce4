# Removes a container and its data when the test process has ended.
#
# Arguments: the container's name. Standard input is a pipe without data; it ends with the test process.

# Ignored, so that a dying terminal cannot prevent the clean-up.
trap '' HUP INT QUIT TERM PIPE
read -r _
exec docker rm --force --volumes "$1"

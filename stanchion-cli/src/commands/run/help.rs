//! What `run --help` says beyond the options.

/// The end of `run -h`.
pub(crate) const AFTER_SHORT: &str = "Exit codes: the command's own, or 128+n for signal n; 64 wrong usage, 69 store unavailable, 75 skipped, \
     77 unauthorized, 78 unsafe or mismatching store, 124 time to wait over, 125 hold lost, 126 not executable, \
     127 not found. More by --help.";

/// The end of `run --help`.
pub(crate) const AFTER: &str = "\
The command:
  It has STANCHION_TOKEN (the fencing token), STANCHION_TICKET and STANCHION_NAME in its \
   environment, and the standard input, output and error of this program. It inherits STANCHION_URL, \
   with a password in it: with --url-file it does not learn the URL. INT, TERM, HUP, QUIT, USR1, USR2, \
   TSTP and CONT are passed on to its process group. It has no controlling terminal: Ctrl-C reaches it \
   through this program, and it cannot open /dev/tty. In the background of a terminal its standard \
   input is empty. Ctrl-Z stops the command and keeps the lock; CONT makes it go on.
  When its first process has ended, what is left of its descendants is ended (TERM, then KILL) \
   before the lock is released.

When the hold is lost:
  A supervisor ends the whole process group and every descendant before the lease's deadline: TERM a \
   fifth of the lease (5s at most) before it, KILL a tenth (1s at most) before it. So it is when the \
   store is away for too long, when the lock is freed by force, and when this program is stopped or \
   killed. What the command starts to clean up gets no TERM.

Not covered:
  This program and its supervisor killed or stopped together; processes of other users (setuid); \
   processes in uninterruptible sleep; a machine that is suspended; systems other than Linux; and a \
   lock that was freed by force, whose next holder can begin before this one is told (a third of the \
   lease at most). There the fence decides: let what the command writes to refuse a STANCHION_TOKEN \
   smaller than the largest seen.

Exit codes:
  0-123  the command's own code; 128+n if signal n ended it, or this program while it waited (where \
   n is INT, QUIT, TERM, HUP or PIPE, that signal ends this program, and a shell shows the code)
  64     wrong usage
  69     the store is unavailable (a first connection is tried for 10s, or for the time of --wait)
  70     internal error
  75     skipped: the lock is held (--skip-if-held), or the command has run (--once-per)
  77     the store refused the credentials or a right
  78     the store is unsafe, or configured otherwise (--semaphore with another N)
  124    the time to wait is over (--wait)
  125    the hold was lost: the command was ended, or its last part was not under the lock
  126    the command is not executable
  127    the command was not found
  A command can use each of these codes, too: --exit-file tells them apart. --skip-code sets another \
   one than 75 and 124.

In a crontab (whose PATH is short):
  0 3 * * * /usr/local/bin/stanchion run nightly -q --url-file /etc/stanchion.url --skip-if-held \
   --once-per 23h -- /usr/local/bin/nightly";

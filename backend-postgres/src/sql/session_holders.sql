SELECT pid, application, holds FROM stanchion.session_holders($1, $2)

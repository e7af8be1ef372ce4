SELECT pid, application, holds, ticket, token, age, label FROM stanchion.session_shown($1, $2)

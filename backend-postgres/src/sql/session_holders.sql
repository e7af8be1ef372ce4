SELECT pid, application, holds, ticket, token, age, label FROM stanchion.session_holders($1, $2)

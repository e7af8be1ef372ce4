SELECT stanchion.session_open()

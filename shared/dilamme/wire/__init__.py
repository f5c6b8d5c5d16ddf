"""What travels over HTTP: requests, answers, their JSON and the cursor. Importable without psycopg, so that a client can share it."""

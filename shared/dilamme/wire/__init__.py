"""The words of HTTP: requests, answers, their JSON and the cursor. Imports no psycopg, so that a client can share it."""

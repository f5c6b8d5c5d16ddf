"""Programs for those who work on Dilamme. None is deployed. Without make, each is run from
the checkout, such as `PYTHONPATH=.:shared .venv/bin/python -m tools.cost`.

settings_table     writes the table of docs/settings.md, from the settings        make docs
openapi_file       writes docs/openapi.json, from the API's handler               make docs
cost               writes the prices of docs/aws.md, from template.yaml           make docs
dashboard_picture  draws docs/dashboard.png, from template.yaml and a local run   python -m tools.dashboard_picture
sql                prints a statement of shared/dilamme/store/sql whole           make sql BLOCK=claim
pin_both_ways      makes a lock file of uv's one that pip takes                   make lock
audit              holds the locked dependencies against the advisories           make audit
"""

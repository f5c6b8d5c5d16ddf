"""The command `dilamme`; each command's own words are its help."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (whoever starts it by hand may have an older one)
    sys.exit("Dilamme needs Python 3.11 or newer; this is {}.{}".format(*sys.version_info[:2]))

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

import dilamme
from dilamme_cli import errors, jobs
from dilamme_cli.grants import grants_for
from dilamme_local.errors import StackError
from dilamme_local.options import DATA_DIR, PORT

app = typer.Typer(
    name="dilamme",
    help="Background jobs on AWS Lambda and PostgreSQL: an application of your own, from its first file to its deployment.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an unexpected error is a traceback, without the values of variables
)
jobs.add_to(app)


@app.command()
def new(name: Annotated[str, typer.Argument(help="The folder to make; its name is the application's.")]) -> None:
    """Makes an application: jobs/, tests/, requirements.txt, dilamme.toml, README.md, .gitignore."""
    from dilamme_cli.new import make  # noqa: PLC0415  each command imports what it alone needs: `dilamme version` is quick

    make(Path(name))


@app.command()
def dev(
    port: Annotated[str, typer.Option(envvar="PORT", help="Of the API; 0 is a free one.")] = str(PORT),
    data_dir: Annotated[
        str, typer.Option(envvar="DATA_DIR", help="Keeps the data and the logs; in the application's folder.")
    ] = DATA_DIR,
    database_url: Annotated[
        str, typer.Option(envvar="DATABASE_URL", help="A PostgreSQL of yours; an embedded one without.")
    ] = "",
    reload: Annotated[bool, typer.Option(help="Restart the workers when a module is saved.")] = True,
) -> None:
    """Runs the whole stack on this machine, with the application's handlers; Ctrl-C stops it."""
    from dilamme_cli.dev import run  # noqa: PLC0415
    from dilamme_local.application import find  # noqa: PLC0415

    application = find(Path.cwd())
    folder = application.root / Path(data_dir).expanduser()
    run(application, _port(port), folder, database_url or None, reload=reload)


@app.command()
def build() -> None:
    """Writes .dilamme/: the template, functions and layers of this version, with the application's handlers, for `sam`."""
    from dilamme_cli.build import build as build_  # noqa: PLC0415
    from dilamme_local.application import find  # noqa: PLC0415

    folder = build_(find(Path.cwd()))
    print(f"{os.path.relpath(folder)} is built: `sam build`, `sam local` and `sam deploy` work in it")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def deploy(context: typer.Context) -> None:
    """Builds, then `sam build && sam deploy`; what follows is passed on to `sam deploy`: `dilamme deploy --guided`."""
    from dilamme_cli.build import deploy as deploy_  # noqa: PLC0415
    from dilamme_local.application import find  # noqa: PLC0415

    sys.exit(deploy_(find(Path.cwd()), context.args))


@app.command()
def migrate(
    database_url: Annotated[str, typer.Option("--database", envvar="DATABASE_URL", help="As the owner of the schema.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 if something is to be done.")
    ] = False,
) -> None:
    """Brings a database's schema to this version, without Lambda."""
    from dilamme_cli.database import migrate as migrate_  # noqa: PLC0415

    sys.exit(migrate_(database_url, check=check))


@app.command()
def grants(
    role: Annotated[str, typer.Argument(help="Your application's role in PostgreSQL.")] = "my_app",
    sql: Annotated[
        bool, typer.Option("--sql", help="It stores jobs by the SQL function or submit_async alone.")
    ] = False,
    wake: Annotated[bool, typer.Option("--wake", help="It calls dilamme.wake() too.")] = False,
) -> None:
    """Prints the GRANTs with which an application may enqueue in its own transactions."""
    print(grants_for(role, only_sql=sql, wake=wake))


@app.command()
def version() -> None:
    """Prints the version."""
    print(dilamme.__version__)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise StackError(f"PORT is {text!r}: a number from 0 to 65535 is needed")
    return int(text)


def main() -> None:
    """Runs the command; an expected error is one line on standard error, and the exit status 1."""
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    try:
        app()
    except errors.EXPECTED as error:
        print(f"dilamme: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

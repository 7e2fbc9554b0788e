"""Sightline: `python app.py`, then open the address that it prints."""

import logging
import os
import socket
import sys

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import uvicorn
from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from core.errors import SightlineError
from core.settings import Settings
from webapp.server import create_app

log = logging.getLogger("sightline")

SHUTDOWN_S = 5
BACKLOG = 2048


def main() -> int:
    """Parse settings, build the engine and the web app, serve."""
    try:
        settings = CliApp.run(Settings)
    except (ValidationError, SettingsError) as error:
        print(f"app.py: {explained(error)}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for noisy in ("aioice.ice", "httpx", "PIL"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        app = create_app(settings)
    except SightlineError as error:
        log.error("%s", error.message)
        return 2
    try:
        listener = socket.create_server((settings.host, settings.port), backlog=BACKLOG)
    except OSError as error:
        log.error("--port %d: cannot listen on %s: %s", settings.port, settings.host, error)
        return 2
    log.info("Sightline: http://%s:%d", settings.host, listener.getsockname()[1])
    config = uvicorn.Config(
        app,
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        ws_max_size=settings.max_message_bytes,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def explained(error: ValidationError | SettingsError) -> str:
    """What is wrong with the settings, by flag."""
    if isinstance(error, SettingsError):
        return f"{error}: {error.__cause__}"
    first = error.errors(include_url=False)[0]
    flag = ".".join(str(part) for part in first["loc"]).replace("_", "-")
    return f"--{flag}: {first['msg']}"


if __name__ == "__main__":
    sys.exit(main())

"""Sightline: `python app.py`, then open the address that it prints."""

import logging
import os
import sys

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import uvicorn
from pydantic_settings import CliApp

from core.errors import SightlineError
from core.settings import Settings
from webapp.server import create_app

log = logging.getLogger("sightline")

SHUTDOWN_S = 5


def main() -> int:
    """Parse settings, build the engine and the web app, serve."""
    settings = CliApp.run(Settings)
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
    log.info("Sightline: http://%s:%d", settings.host, settings.port)
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        ws_max_size=settings.max_message_bytes,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""ICE: which servers, and machines that have nothing but a loopback interface."""

import logging

import aioice.ice
from aiortc import RTCConfiguration, RTCIceServer

from core.settings import IceServer

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_aioice_host_addresses = aioice.ice.get_host_addresses


def rtc_configuration(servers: list[IceServer]) -> RTCConfiguration:
    """aiortc's configuration.

    An empty list means no server at all: aiortc's own default would ask a public STUN
    server, which delays every answer by 5 s where it cannot be reached.
    """
    return RTCConfiguration(
        iceServers=[
            RTCIceServer(urls=server.urls, username=server.username, credential=server.credential)
            for server in servers
        ]
    )


def _host_addresses(use_ipv4: bool, use_ipv6: bool) -> list[str]:
    addresses = _aioice_host_addresses(use_ipv4, use_ipv6)
    return addresses or [LOOPBACK]


def offer_loopback_where_alone() -> None:
    """Let aioice offer 127.0.0.1 on a machine without any other address.

    aioice leaves loopback out always; without this a laptop that is offline, or a test
    machine in a network namespace, could not even talk to itself.
    """
    aioice.ice.get_host_addresses = _host_addresses

"""What signalling says: bitrate hints in an answer, and the answer when there is no place."""

import pytest

from core.errors import SightlineError
from core.settings import IceServer
from webapp.admission import Admission
from webapp.ice import rtc_configuration
from webapp.webrtc import BITRATES, busy_answer, with_bitrates

pytestmark = pytest.mark.unit

SDP = (
    "v=0\r\n"
    "m=video 9 UDP/TLS/RTP/SAVPF 97 98 99 100\r\n"
    "a=rtpmap:97 VP8/90000\r\n"
    "a=rtcp-fb:97 nack\r\n"
    "a=rtpmap:98 rtx/90000\r\n"
    "a=fmtp:98 apt=97\r\n"
    "a=rtpmap:99 H264/90000\r\n"
    "a=rtpmap:100 VP8/90000\r\n"
)


def test_every_vp8_format_gets_its_own_bitrate_hints() -> None:
    lines = with_bitrates(SDP).split("\r\n")
    hints = [line for line in lines if "x-google" in line]
    assert hints == [f"a=fmtp:97 {BITRATES}", f"a=fmtp:100 {BITRATES}"]
    for hint, payload_type in zip(hints, ("97", "100"), strict=True):
        assert lines[lines.index(hint) - 1] == f"a=rtpmap:{payload_type} VP8/90000"


def test_nothing_else_of_the_answer_changes() -> None:
    hinted = with_bitrates(SDP)
    kept = "".join(line for line in hinted.splitlines(True) if "x-google" not in line)
    assert kept == SDP
    assert with_bitrates("v=0\r\n") == "v=0\r\n"


def test_the_busy_answer_speaks_to_us_and_to_fastrtc() -> None:
    body = busy_answer(SightlineError("server_full", "The server is full"), 4)
    assert body == {
        "error": {"type": "error", "code": "server_full", "message": "The server is full"},
        "status": "failed",
        "meta": {"error": "concurrency_limit_reached", "limit": 4},
    }


def test_another_refusal_has_no_limit_in_it() -> None:
    body = busy_answer(SightlineError("invalid_offer", "not SDP"), 4)
    assert body["status"] == "failed"
    assert "meta" not in body


def test_places_are_taken_and_given_back() -> None:
    places = Admission(2)
    places.enter()
    places.enter()
    with pytest.raises(SightlineError, match="2 of 2") as caught:
        places.enter()
    assert caught.value.code == "server_full"
    places.leave()
    places.enter()
    assert places.taken == 2


def test_ice_servers_as_a_browser_takes_them() -> None:
    assert rtc_configuration([]).iceServers == []
    [server] = rtc_configuration(
        [IceServer(urls=["turn:t.example"], username="u", credential="c")]
    ).iceServers
    assert (server.urls, server.username, server.credential) == (["turn:t.example"], "u", "c")

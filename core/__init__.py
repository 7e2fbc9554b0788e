"""The session core: imports no web, UI or WebRTC library."""

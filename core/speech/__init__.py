"""Audio of the session: PCM today; voice activity, recognition and synthesis to come."""

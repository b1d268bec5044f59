"""One request: read, authorised, and answered or refused with a problem document."""

"""One request: read, authorised, answered, or refused with a problem document."""

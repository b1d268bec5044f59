"""Who may ask for what: tokens, scopes, and requests without a token."""

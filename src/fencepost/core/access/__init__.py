"""Who may do what: tokens, sessions of browsers, and the audit log."""

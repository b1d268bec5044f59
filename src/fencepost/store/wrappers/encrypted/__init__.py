"""The store that encrypts what goes into another, and decrypts what comes out."""

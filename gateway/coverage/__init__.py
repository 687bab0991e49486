"""`sphragis coverage`: proves, position by position, that nothing reaches a provider unread."""

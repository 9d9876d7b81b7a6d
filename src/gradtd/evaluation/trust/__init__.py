"""What the word usable stands for: fits with richer features and with memory, and a verdict of what they say."""

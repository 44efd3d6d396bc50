"""What the chapters share: the positions themselves, the figures and what a cell prints."""

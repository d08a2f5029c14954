"""References: objects whose contents a trace knows, and views of parts of them."""

"""Objects of other libraries as sources: reopened by path if a local file is behind them, else read through them."""

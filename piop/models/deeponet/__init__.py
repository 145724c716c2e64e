"""DeepONets: plain, modified and shifted."""

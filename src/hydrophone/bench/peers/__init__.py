"""Peers: the same jobs as a competent user would write them with other tools, one file each."""

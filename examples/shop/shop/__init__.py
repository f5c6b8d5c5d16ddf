"""The shop: what its web application and its handlers share."""

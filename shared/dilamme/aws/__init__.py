"""The only place that knows boto3 and Powertools."""

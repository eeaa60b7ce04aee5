"""What the commands in ``scripts/`` share: set-up, the offline runtime, and starting workerd."""

"""The dashboard, alarms, and logs."""

"""Housekeeping: what somebody has to do now and then, and one of many does."""
